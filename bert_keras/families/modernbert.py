"""ModernBERT (Warner et al. 2024), which has rotary positions and local attention.

transformers 5 writes `rope_parameters` and `layer_types` to config.json. This package writes the
older `global_rope_theta`, `local_rope_theta` and `global_attn_every_n_layers`; both read both.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from bert_keras.config import BertConfig
from bert_keras.errors import InputError, check_name
from bert_keras.families.family import Family, block_names, masked_lm_names
from bert_keras.text.fast_tokenizer import MODERNBERT_SPECIALS
from bert_keras.text.vocab import Vocabulary

_BIASES = ("attention_bias", "classifier_bias", "mlp_bias", "norm_bias")
_GLOBAL, _LOCAL = "full_attention", "sliding_attention"
_BASES = {_GLOBAL: ("global_rope_theta", 160_000.0), _LOCAL: ("local_rope_theta", 10_000.0)}
_EVERY = "global_attn_every_n_layers"


def _read_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    base, local_base = _rotary_base(values, _GLOBAL), _rotary_base(values, _LOCAL)
    fields = {
        "rotary_base": base,
        "local_rotary_base": 0.0 if local_base in (None, base) else local_base,
        "has_biases": values.get("norm_bias", False),
        "pooling": values.get("classifier_pooling", "cls"),
        "ties_decoder": values.get("tie_word_embeddings", True),
        "local_window": 0,
    }
    if (every := _global_every(values)) != 1:
        window = values.get("local_attention", 128) // 2 * 2
        fields |= {"local_window": window, "global_every": every}
    return fields


def _rotary_base(values: Mapping[str, Any], layer_type: str) -> float | None:
    """Returns the base of a layer type, or None if both types have the same base."""
    key, default = _BASES[layer_type]
    own = (values.get("rope_parameters") or {}).get(layer_type) or {}
    parameters = {**(values.get("rope_scaling") or {}), **own}
    rope_type = parameters.get("rope_type", parameters.get("type", "default"))
    check_name(rope_type, ("default",), what=f"supported rope_type of {layer_type}")
    return parameters.get("rope_theta", values.get(key, default))


def _global_every(values: Mapping[str, Any]) -> int:
    stated, types = values.get(_EVERY, 3), values.get("layer_types")
    if types is None:
        return stated
    for every in (stated, *range(1, len(types) + 1)):
        if types == [_LOCAL if index % every else _GLOBAL for index in range(len(types))]:
            return every
    raise InputError(
        f"config.json: layer_types is {types}; expected {_GLOBAL} first and in every n-th layer, "
        f"and {_LOCAL} in the others"
    )


def _more_values(config: BertConfig, vocabulary: Vocabulary | None) -> dict[str, Any]:
    every = config.global_every if config.local_window else 1
    first, last = (vocabulary.cls_id, vocabulary.sep_id) if vocabulary else (None, None)
    return {
        **dict.fromkeys(("bos_token_id", "cls_token_id"), first),
        **dict.fromkeys(("eos_token_id", "sep_token_id"), last),
        "classifier_pooling": config.pooling,
        **dict.fromkeys(_BIASES, config.has_biases),
        _BASES[_GLOBAL][0]: config.rotary_base,
        _BASES[_LOCAL][0]: config.local_rotary_base or config.rotary_base,
        _EVERY: every,
        "local_attention": config.local_window or 128,
        "tie_word_embeddings": config.ties_decoder,
    }


_TRAITS = {"norm_position": "pre", "position_kind": "rotary", "is_gated": True}
_TRAITS |= {"pooler_activation": "", "has_head_norm": True}
_BASE = BertConfig(
    vocab_size=50_368,
    num_layers=22,
    intermediate_size=1152,
    max_positions=8192,
    num_segments=0,
    hidden_dropout_rate=0.0,
    attention_dropout_rate=0.0,
    layer_norm_epsilon=1e-5,
    has_pooler=False,
    rotary_base=160_000.0,
    local_rotary_base=10_000.0,
    has_biases=False,
    local_window=128,
    **_TRAITS,
)
_TINY = {"hidden_size": 128, "num_layers": 3, "num_heads": 2, "intermediate_size": 192}
_LARGE = {"hidden_size": 1024, "num_layers": 28, "num_heads": 16, "intermediate_size": 2624}
_TOKEN_HEAD = {"transform": "head.dense", "norm": "head.norm", "dense": "classifier"}
_POOLER = {"encoder/pooler": "head.dense", "encoder/pooler/norm": "head.norm"}

FAMILY = Family(
    kind="modernbert",
    presets={
        # Not a published size; small enough to train on a laptop.
        "modernbert-tiny": dataclasses.replace(
            _BASE, vocab_size=30_522, max_positions=512, **_TINY
        ),
        "modernbert-base": _BASE,
        "modernbert-large": dataclasses.replace(_BASE, **_LARGE),
    },
    specials=MODERNBERT_SPECIALS,
    traits=_TRAITS,
    options=("has_biases", "ties_decoder", "local_window", "pooling"),
    sizes=(),
    hub_names=(
        *("answerdotai/ModernBERT-base", "answerdotai/ModernBERT-large"),
        *("jhu-clsp/ettin-encoder-150m", "jhu-clsp/ettin-encoder-400m"),
        *("jhu-clsp/mmBERT-small", "jhu-clsp/mmBERT-base"),
    ),
    class_prefix="ModernBert",
    has_pooler=False,
    prefix="model",
    weight_names={
        "encoder/embeddings/token": ".embeddings.tok_embeddings.weight",
        "encoder/embeddings/norm": ".embeddings.norm",
        # Wqkv has the matrices of query, key and value one below the other.
        **block_names(
            ".layers.{}.",
            "attn.Wqkv attn.Wqkv attn.Wqkv attn.Wo attn_norm mlp.Wi mlp.Wo mlp_norm",
        ),
        "encoder/final_norm": ".final_norm",
        **masked_lm_names("head.dense", "head.norm", "decoder"),
        **{
            f"{head}/{layer}": name
            for head in ("token_labels", "span")
            for layer, name in _TOKEN_HEAD.items()
        },
    },
    model_weight_names={"BertClassifier": _POOLER, "BertMultipleChoice": _POOLER},
    config_keys={
        "attention_probs_dropout_prob": "attention_dropout",
        "hidden_dropout_prob": "mlp_dropout",
        "layer_norm_eps": "norm_eps",
    },
    activation_keys=("hidden_activation", "classifier_activation"),
    defaults={
        "attention_dropout": 0.0,
        "intermediate_size": 1152,
        "max_position_embeddings": 8192,
        "mlp_dropout": 0.0,
        "norm_eps": 1e-5,
        "num_hidden_layers": 22,
        "vocab_size": 50_368,
    },
    dropout_keys=("classifier_dropout", "embedding_dropout"),
    fixed_values={"decoder_bias": True},
    read_fields=_read_fields,
    more_values=_more_values,
)
