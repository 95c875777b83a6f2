"""Defines configurations by name, such as "tiny" and "base".

The sources are Turc et al. 2019 (the 24 sizes up to L-12_H-768), Devlin et al. 2018 (base, large),
Sanh et al. 2019 (DistilBERT), Lan et al. 2019 (ALBERT v2), Liu et al. 2019 (RoBERTa), Conneau et
al. 2020 (XLM-RoBERTa), Park et al. 2021 (KLUE), Warner et al. 2024 (ModernBERT) and Clark et al.
2020 (the discriminators of ELECTRA). The sizes of the multilingual BERT and of KoBERT are those of
google-research/bert and SKTBrain/KoBERT.
"""

import dataclasses
import re
from typing import Any

from bert_keras.config import BertConfig
from bert_keras.errors import InputError


def _size(num_layers: int, hidden_size: int) -> BertConfig:
    return BertConfig(num_layers=num_layers, hidden_size=hidden_size, num_heads=hidden_size // 64)


PRESETS: dict[str, BertConfig] = {
    f"L-{num_layers}_H-{hidden_size}": _size(num_layers, hidden_size)
    for num_layers in (2, 4, 6, 8, 10, 12)
    for hidden_size in (128, 256, 512, 768)
}
PRESETS |= {
    "tiny": PRESETS["L-2_H-128"],
    "mini": PRESETS["L-4_H-256"],
    "small": PRESETS["L-4_H-512"],
    "medium": PRESETS["L-8_H-512"],
    "base": PRESETS["L-12_H-768"],
    "large": _size(24, 1024),
}


def _albert(
    num_layers: int, hidden_size: int, num_heads: int, embedding_size: int = 128
) -> BertConfig:
    """Returns the configuration of an ALBERT v2, which has no dropout."""
    return BertConfig(
        vocab_size=30_000,
        embedding_size=embedding_size,
        hidden_size=hidden_size,
        num_layers=num_layers,
        shares_layers=True,
        num_heads=num_heads,
        activation="gelu_tanh",
        hidden_dropout_rate=0.0,
        attention_dropout_rate=0.0,
    )


def _modernbert(
    num_layers: int,
    hidden_size: int,
    intermediate_size: int,
    *,
    vocab_size: int = 50_368,
    max_positions: int = 8192,
) -> BertConfig:
    """Returns the configuration of a ModernBERT, which has no dropout."""
    return BertConfig(
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        num_layers=num_layers,
        num_heads=hidden_size // 64,
        intermediate_size=intermediate_size,
        max_positions=max_positions,
        num_segments=0,
        hidden_dropout_rate=0.0,
        attention_dropout_rate=0.0,
        layer_norm_epsilon=1e-5,
        has_pooler=False,
        pooler_activation="",
        has_head_norm=True,
        norm_position="pre",
        position_kind="rotary",
        rotary_base=160_000.0,
        local_rotary_base=10_000.0,
        is_gated=True,
        has_biases=False,
        local_window=128,
    )


ROBERTA = {
    "vocab_size": 50_265,
    "num_segments": 1,
    "position_offset": 2,
    "layer_norm_epsilon": 1e-5,
}
XLM_ROBERTA = ROBERTA | {"vocab_size": 250_002}
KLUE_ROBERTA = ROBERTA | {"vocab_size": 32_000}
ELECTRA = {"has_pooler": False, "pooler_activation": "gelu", "masked_lm_activation": "gelu"}
PRESETS |= {
    "distilbert": BertConfig(
        num_layers=6, num_segments=0, has_pooler=False, pooler_activation="relu"
    ),
    # Not a published size; small enough to train on a laptop.
    "albert-tiny": _albert(4, 128, 2, embedding_size=64),
    "albert-base": _albert(12, 768, 12),
    "albert-large": _albert(24, 1024, 16),
    "albert-xlarge": _albert(24, 2048, 16),
    "albert-xxlarge": _albert(12, 4096, 64),
    # Not published sizes: BERTs of the sizes of the same names that learn in fewer steps.
    **{
        f"modern-{name}": dataclasses.replace(
            PRESETS[name], norm_position="pre", position_kind="rotary"
        )
        for name in ("tiny", "mini", "medium", "base")
    },
    # Not a published size; small enough to train on a laptop.
    "roberta-tiny": dataclasses.replace(PRESETS["tiny"], **ROBERTA),
    "roberta-base": dataclasses.replace(PRESETS["base"], **ROBERTA),
    "roberta-large": dataclasses.replace(PRESETS["large"], **ROBERTA),
    "xlm-roberta-base": dataclasses.replace(PRESETS["base"], **XLM_ROBERTA),
    "xlm-roberta-large": dataclasses.replace(PRESETS["large"], **XLM_ROBERTA),
    "bert-base-multilingual-cased": dataclasses.replace(PRESETS["base"], vocab_size=119_547),
    "kobert-base": dataclasses.replace(PRESETS["base"], vocab_size=8_002),
    "klue-bert-base": dataclasses.replace(PRESETS["base"], vocab_size=32_000),
    "klue-roberta-base": dataclasses.replace(PRESETS["base"], **KLUE_ROBERTA),
    "klue-roberta-large": dataclasses.replace(PRESETS["large"], **KLUE_ROBERTA),
    # Not a published size; small enough to train on a laptop.
    "modernbert-tiny": _modernbert(3, 128, 192, vocab_size=30_522, max_positions=512),
    "modernbert-base": _modernbert(22, 768, 1152),
    "modernbert-large": _modernbert(28, 1024, 2624),
    # Not a published size; small enough to train on a laptop.
    "electra-tiny": dataclasses.replace(PRESETS["tiny"], **ELECTRA),
    "electra-small": dataclasses.replace(PRESETS["L-12_H-256"], embedding_size=128, **ELECTRA),
    "electra-base": dataclasses.replace(PRESETS["base"], **ELECTRA),
    "electra-large": dataclasses.replace(PRESETS["large"], **ELECTRA),
}


def preset(name: str, **changes: Any) -> BertConfig:
    """Returns the configuration of a named size.

    Args:
        name: A name in `PRESETS`, or a name such as "L-3_H-768_A-12", which states the number of
            layers, the hidden size and the number of attention heads.
        **changes: Values of `BertConfig` fields that replace those of the preset.

    Raises:
        InputError: `name` is unknown, or a value is impossible.

    Example:

    ```python
    config = preset("tiny", vocab_size=4_000)
    ```
    """
    if match := re.fullmatch(r"L-(\d+)_H-(\d+)_A-(\d+)", name):
        layers, hidden, heads = map(int, match.groups())
        config = BertConfig(num_layers=layers, hidden_size=hidden, num_heads=heads)
    elif name in PRESETS:
        config = PRESETS[name]
    else:
        raise InputError(
            f"no size is called {name!r}; known: L-LAYERS_H-HIDDEN_A-HEADS, {', '.join(PRESETS)}"
        )
    return dataclasses.replace(config, **changes)
