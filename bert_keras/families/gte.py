"""GTE (Zhang et al. 2024): BERT with rotary positions and gated feed-forward layers.

Published files have the model_type "new" and the layout of their own code; transformers and this
package write another layout, and read both. In training, transformers also applies dropout inside
the feed-forward network; this package does not.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from bert_keras.config import BertConfig
from bert_keras.errors import check_name
from bert_keras.families.bert import BASE
from bert_keras.families.bert import FAMILY as BERT
from bert_keras.families.family import Family, block_names, masked_lm_names
from bert_keras.text.fast_tokenizer import XLM_ROBERTA_SPECIALS
from bert_keras.text.vocab import Vocabulary


def read_rotary(values: Mapping[str, Any]) -> dict[str, Any]:
    """Reads `rope_parameters`, or the older `rope_theta` and `rope_scaling`."""
    parameters = values.get("rope_parameters") or values.get("rope_scaling") or {}
    for key in (key for key, value in parameters.items() if value is not None):
        known = ("factor", "rope_theta", "rope_type", "type")
        check_name(key, known, what="supported value of rope_parameters")
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    check_name(kind, ("default", "linear", "ntk"), what="supported rope_type")
    base = parameters.get("rope_theta", values["rope_theta"])
    divisor = 1.0 if kind == "default" else parameters["factor"]
    if kind == "ntk":  # as in GTE's own code, for texts of every length
        head_size = values["hidden_size"] // values["num_attention_heads"]
        base, divisor = base * divisor, divisor ** (2 / head_size)
    return {"rotary_base": base, "rotary_divisor": divisor}


def rotary_values(config: BertConfig, vocabulary: Vocabulary | None) -> dict[str, Any]:
    """Returns the `rope_parameters` of config.json."""
    scaling = {"rope_type": "default"}
    if config.rotary_divisor != 1:
        scaling = {"rope_type": "linear", "factor": config.rotary_divisor}
    return {"rope_parameters": {"rope_theta": config.rotary_base, **scaling}}


def _native_values(values: dict[str, Any]) -> dict[str, Any]:
    names = values.get("architectures") or []
    return values | {"architectures": [name.replace("New", "Gte") for name in names]}


TRAITS = {"position_kind": "rotary", "is_gated": True}
_TRAITS = {**TRAITS, "block_biases": "not_gate"}
_SIZE = {"max_positions": 8192, "attention_dropout_rate": 0.0, "has_pooler": False, **_TRAITS}
# In the published files, 500,000 and 20,000, which the factors 2 and 8 scale
_ENGLISH = {"rotary_base": 1_000_000.0, "rotary_divisor": 2 ** (2 / 64)}
_MULTILINGUAL = {"rotary_base": 160_000.0, "rotary_divisor": 8 ** (2 / 64)}
_ABSENT = ("BertPretrainer", "BertQuestionAnswering", "BertMultipleChoice")

FAMILY = Family(
    kind="gte",
    other_kinds=("new",),
    presets={
        "gte-base": dataclasses.replace(
            BASE, vocab_size=30_528, num_segments=0, **_SIZE, **_ENGLISH
        ),
        "gte-multilingual-base": dataclasses.replace(
            BASE, vocab_size=250_048, num_segments=1, **_SIZE, **_MULTILINGUAL
        ),
    },
    specials=XLM_ROBERTA_SPECIALS,
    traits=_TRAITS,
    options=("num_segments", "rotary_divisor"),
    hub_names=(
        *("Alibaba-NLP/gte-base-en-v1.5", "Alibaba-NLP/gte-multilingual-base"),
        "Snowflake/snowflake-arctic-embed-m-v2.0",
    ),
    class_prefix="Gte",
    class_names=dict.fromkeys(_ABSENT, ""),
    has_pooler=False,
    weight_names={
        **BERT.weight_names,
        **dict.fromkeys(("encoder/embeddings/position", "next_sentence/dense"), ""),
        **block_names(
            ".layers.{}.",
            "self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.o_proj "
            "post_attention_layernorm mlp.gate_proj+up_proj mlp.down_proj post_mlp_layernorm",
        ),
        **masked_lm_names("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder"),
    },
    published_names={
        **{"new.": "", "encoder.layer.": "layers.", "lm_head.norm": "lm_head.layer_norm"},
        **{"attn_ln": "post_attention_layernorm", "mlp_ln": "post_mlp_layernorm"},
        "attention.qkv_proj": tuple(f"self_attn.{name}_proj" for name in "qkv"),
        "attention.o_proj": "self_attn.o_proj",
        "mlp.up_gate_proj": ("mlp.up_proj", "mlp.gate_proj"),
    },
    defaults={
        **{"attention_probs_dropout_prob": 0.0, "max_position_embeddings": 8192},
        **{"rope_theta": 160_000.0, "type_vocab_size": 1, "vocab_size": 250_048},
    },
    published_values={"layer_norm_type": "layer_norm", "logn_attention_scale": False},
    native_values=_native_values,
    has_gelu_head=True,
    read_fields=read_rotary,
    more_values=rotary_values,
)
