"""Reads and writes the values of config.json that only ModernBERT has: attention, rotary positions.

transformers 4 states the bases of the rotation in `global_rope_theta` and `local_rope_theta`, and
the local blocks in `global_attn_every_n_layers`. transformers 5 has `rope_parameters` and
`layer_types` instead. Both forms are read, and both are written.
"""

import json
from collections.abc import Mapping
from typing import Any

from bert_keras.config import POOLINGS, BertConfig
from bert_keras.errors import InputError
from bert_keras.text.vocab import Vocabulary

BIASES = ("attention_bias", "classifier_bias", "mlp_bias", "norm_bias")
GLOBAL, LOCAL = "full_attention", "sliding_attention"
BASES = {GLOBAL: ("global_rope_theta", 160_000.0), LOCAL: ("local_rope_theta", 10_000.0)}
EVERY = "global_attn_every_n_layers"
KEYS = (
    *BIASES,
    *(key for key, _ in BASES.values()),
    *("classifier_activation", "classifier_pooling", EVERY, "layer_types", "local_attention"),
    *("rope_parameters", "rope_scaling", "tie_word_embeddings"),
)


def read_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of BertConfig that the values of a ModernBERT's config.json state.

    Args:
        values: The values of config.json, with the number of layers.

    Raises:
        InputError: A value is not supported.
    """
    biases = {key: values.get(key, False) for key in BIASES}
    if len({*biases.values()}) > 1:
        raise InputError(
            f"config.json: {', '.join(f'{key} is {json.dumps(v)}' for key, v in biases.items())}; "
            "expected one value for all"
        )
    activations = [
        values.get(key, "gelu") for key in ("hidden_activation", "classifier_activation")
    ]
    if activations[0] != activations[1]:
        raise InputError(
            f"config.json: classifier_activation is {activations[1]!r}; expected "
            f"{activations[0]!r}, the hidden_activation"
        )
    every = _global_every(values, values["num_hidden_layers"])
    window = values.get("local_attention", 128)
    if type(window) is not int or window < 2:
        raise InputError(f"config.json: local_attention is {window!r}; expected at least 2")
    base, local_base = _rotary_base(values, GLOBAL), _rotary_base(values, LOCAL)
    return {
        "rotary_base": base,
        "local_rotary_base": 0.0 if local_base == base else local_base,
        "has_biases": biases["norm_bias"],
        "pooling": _pooling(values),
        "ties_decoder": values.get("tie_word_embeddings", True),
        "local_window": 0 if every == 1 else window // 2 * 2,
        **({} if every == 1 else {"global_every": every}),
    }


def _pooling(values: Mapping[str, Any]) -> str:
    pooling = values.get("classifier_pooling", "cls")
    if pooling not in POOLINGS:
        raise InputError(
            f"config.json: classifier_pooling is {pooling!r}; expected one of {', '.join(POOLINGS)}"
        )
    return pooling


def _rotary_base(values: Mapping[str, Any], kind: str) -> float:
    """Returns the base of the rotation in the blocks of a kind, GLOBAL or LOCAL."""
    key, default = BASES[kind]
    parameters = values.get("rope_parameters") or {}
    scaling = values.get("rope_scaling") or {}
    parameters = {**scaling, **(parameters.get(kind) or {})}
    rope_type = parameters.get("rope_type", parameters.get("type", "default"))
    if rope_type != "default":
        raise InputError(
            f"config.json: the rope_type of {kind} is {rope_type!r}; expected 'default', the only "
            "supported one"
        )
    base: Any = parameters.get("rope_theta", values.get(key, default))
    if base is None and kind == LOCAL:  # in transformers 4, null means the base of global attention
        return _rotary_base(values, GLOBAL)
    if isinstance(base, bool) or not isinstance(base, int | float):
        raise InputError(f"config.json: {key} is {base!r}; expected a number")
    return float(base)


def _global_every(values: Mapping[str, Any], num_layers: int) -> int:
    stated = values.get(EVERY, 3)
    if type(stated) is not int or stated < 1:
        raise InputError(f"config.json: {EVERY} is {stated!r}; expected at least 1")
    types = values.get("layer_types")
    if types is None:
        return stated
    for every in (stated, *range(1, num_layers + 1)):
        if types == _layer_types(every, num_layers):
            return every
    raise InputError(
        f"config.json: layer_types is {json.dumps(types)}; expected {num_layers} values, of which "
        f'the first and every n-th is "{GLOBAL}" and the others are "{LOCAL}"'
    )


def _layer_types(every: int, num_layers: int) -> list[str]:
    return [LOCAL if index % every else GLOBAL for index in range(num_layers)]


def written_values(
    config: BertConfig, vocabulary: Vocabulary | None, *, activation: str
) -> dict[str, Any]:
    """Returns the values of config.json that `read_fields` reads, and the ids of special tokens.

    Args:
        config: The configuration.
        vocabulary: The vocabulary; None without one.
        activation: Hugging Face's name of the activation.
    """
    every = config.global_every if config.local_window else 1
    bases = {
        GLOBAL: config.rotary_base,
        LOCAL: config.local_rotary_base or config.rotary_base,
    }
    parameters = {k: {"rope_type": "default", "rope_theta": base} for k, base in bases.items()}
    first, last = (vocabulary.cls_id, vocabulary.sep_id) if vocabulary else (None, None)
    return {
        "bos_token_id": first,
        "cls_token_id": first,
        "eos_token_id": last,
        "sep_token_id": last,
        "classifier_activation": activation,
        "classifier_pooling": config.pooling,
        **dict.fromkeys(BIASES, config.has_biases),
        **{BASES[kind][0]: base for kind, base in bases.items()},
        "rope_parameters": parameters,
        EVERY: every,
        "layer_types": _layer_types(every, config.num_layers),
        "local_attention": config.local_window or 128,
        "tie_word_embeddings": config.ties_decoder,
    }
