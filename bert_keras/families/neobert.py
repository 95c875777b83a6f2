"""NeoBERT (Le Breton et al. 2025), which has rotary positions, SwiGLU and RMSNorm.

Its code is not part of transformers. No model of this package has the published masked-LM head, a
single dense layer; the report of loading names its weights. The published code rotates adjacent
values of queries and keys, so that their rows have another order here.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.families.family import Family, block_names
from bert_keras.text.vocab import Vocabulary


def _native_values(values: dict[str, Any]) -> dict[str, Any]:
    if str(values.get("hidden_act")).lower() == "swiglu":
        values["hidden_act"] = "silu"
    names = values.get("architectures") or []
    return values | {"architectures": [name.replace("LMHead", "") for name in names]}


def _read_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    # The key has the size of a network without gate that has as many weights.
    return {"intermediate_size": -(-int(2 * values["intermediate_size"] / 3) // 8) * 8}


def _more_values(config: BertConfig, vocabulary: Vocabulary | None) -> dict[str, Any]:
    if (size := config.intermediate_size) % 8:
        problem = f"intermediate_size is {size}; NeoBERT's config.json can state multiples of 8"
        raise InputError(f"{problem}: write the format bert-keras")
    return {"intermediate_size": 3 * size // 2, "hidden_act": "SwiGLU"}


def _row_order(name: str, config: BertConfig) -> np.ndarray | None:
    """Returns the rows of `qkv`, where each head has its query, its key and then its value."""
    if not name.endswith(".qkv.weight"):
        return None
    rows = np.arange(3 * config.hidden_size).reshape(config.num_heads, 3, -1)
    pairs = rows[:, :2].reshape(config.num_heads, 2, -1, 2)
    # Of each query and each key the even rows, and then the odd ones
    return np.concatenate([pairs.transpose(1, 0, 3, 2).ravel(), rows[:, 2].ravel()])


_TRAITS = {"norm_position": "pre", "norm_kind": "rms", "has_embedding_norm": False}
_TRAITS |= {"position_kind": "rotary", "rotary_base": 10_000.0, "is_gated": True}
_TRAITS |= {"activation": "silu", "block_biases": "none"}
_BASE = BertConfig(
    num_layers=28,
    intermediate_size=2048,
    max_positions=4096,
    num_segments=0,
    hidden_dropout_rate=0.0,
    attention_dropout_rate=0.0,
    layer_norm_epsilon=1e-5,
    has_pooler=False,
    **_TRAITS,
)
_TINY = {"hidden_size": 128, "num_layers": 4, "num_heads": 2, "intermediate_size": 344}
_ABSENT = ("Pretrainer", "MaskedLM", "TokenClassifier", "QuestionAnswering", "MultipleChoice")

FAMILY = Family(
    kind="neobert",
    presets={
        # Not a published size; small enough to train on a laptop.
        "neobert-tiny": dataclasses.replace(_BASE, max_positions=512, **_TINY),
        "neobert": _BASE,
    },
    hub_names=("chandar-lab/NeoBERT",),
    traits=_TRAITS,
    sizes=(),
    class_prefix="Neo",
    class_names={
        **{"BertEncoder": "BERT", "BertClassifier": "BERTForSequenceClassification"},
        **{f"Bert{name}": "" for name in _ABSENT},
    },
    has_pooler=False,
    prefix="model",
    weight_names={
        "encoder/embeddings/token": ".encoder.weight",
        **block_names(
            ".transformer_encoder.{}.", "qkv qkv qkv wo attention_norm ffn.w12 ffn.w3 ffn_norm"
        ),
        "encoder/final_norm": ".layer_norm",
        "encoder/pooler": "dense",  # belongs to the classifier
    },
    unused_weights=("decoder.",),
    row_order=_row_order,
    config_keys={
        **{"hidden_dropout_prob": "dropout", "initializer_range": "embedding_init_range"},
        **{"layer_norm_eps": "norm_eps", "max_position_embeddings": "max_length"},
    },
    defaults={
        **{"attention_probs_dropout_prob": 0.0, "dropout": 0.0, "hidden_act": "silu"},
        **{"intermediate_size": 3072, "max_length": 1024, "norm_eps": 1e-6},
        "num_hidden_layers": 28,
    },
    published_values={"ngpt": False, "rms_norm": True, "rope": True},
    native_values=_native_values,
    read_fields=_read_fields,
    more_values=_more_values,
)
