"""Reads and writes bert_config.json of Google's TF1 checkpoints."""

import dataclasses
from collections.abc import Collection
from pathlib import Path
from typing import Any

from bert_keras.checkpoints.card import ModelCard
from bert_keras.checkpoints.foreign import (
    OURS_KEY,
    check_keys,
    checked,
    config_of,
    stored_fields,
    write_json,
)
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.storage import json_object

CONFIG = "bert_config.json"
# Google's names, ours. Source: BertConfig in modeling.py of google-research/bert.
NUMBERS = {
    "attention_probs_dropout_prob": "attention_dropout_rate",
    "hidden_dropout_prob": "hidden_dropout_rate",
    "hidden_size": "hidden_size",
    "initializer_range": "initializer_stddev",
    "intermediate_size": "intermediate_size",
    "max_position_embeddings": "max_positions",
    "num_attention_heads": "num_heads",
    "num_hidden_layers": "num_layers",
    "type_vocab_size": "num_segments",
    "vocab_size": "vocab_size",
}
OPTIONAL = ("attention_probs_dropout_prob", "hidden_dropout_prob", "initializer_range")
# modeling.py computes "gelu" by tanh.
ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu", "tanh": "tanh"}
LAYER_NORM_EPSILON = 1e-12  # tf.contrib.layers.layer_norm, which modeling.py calls
CHANGED = ("activation", "layer_norm_epsilon")  # may be under our key, where they are not Google's
# In the files of the Chinese and multilingual models; modeling.py reads none of them.
WITHOUT_EFFECT = (
    *("directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers"),
    *("pooler_size_per_head", "pooler_type"),
)


def read_config(path: Path, *, ignore: Collection[str]) -> tuple[BertConfig, dict[str, Any]]:
    """Returns the config, with a pooler, and the value of our own key.

    Raises InputError for fields missing, unknown (but for those of `ignore`) or impossible.
    """
    if not path.is_file():
        raise InputError(
            f"{path} is missing: it says what the weights were trained with; put it beside them"
        )
    values = json_object(path)
    own = checked(values.pop(OURS_KEY, {}), path, others=CHANGED)
    check_keys(
        values,
        path,
        required=[*(name for name in NUMBERS if name not in OPTIONAL), "hidden_act"],
        optional=(*OPTIONAL, *WITHOUT_EFFECT),
        ignore=ignore,
        reader="Google's BERT",
    )
    activation = values["hidden_act"]
    if activation not in [*ACTIVATIONS]:  # JSON may hold what has no hash
        raise InputError(
            f"{path}: hidden_act is {activation!r}; expected one of {', '.join(ACTIVATIONS)}"
        )
    numbers = {ours: values[theirs] for theirs, ours in NUMBERS.items() if theirs in values}
    numbers |= {"activation": ACTIVATIONS[activation], "layer_norm_epsilon": LAYER_NORM_EPSILON}
    changed = {name: own[name] for name in CHANGED if name in own}
    return config_of(numbers | changed, path), own


def write_config(card: ModelCard, path: Path) -> tuple[str, ...]:
    """Returns a sentence for each number that Google's readers will take otherwise."""
    config, notes = card.config, []
    theirs = {ours: name for name, ours in ACTIVATIONS.items()} | {"gelu": "gelu"}
    if config.activation not in theirs:
        raise InputError(
            f"Google's BERT has no activation {config.activation}; write another format"
        )
    own = stored_fields(card)
    if config.activation == "gelu":
        own["activation"] = config.activation
        notes.append(
            "Google's readers compute GELU by tanh, this model exactly: an activation differs by "
            "up to 5e-4"
        )
    if config.layer_norm_epsilon != LAYER_NORM_EPSILON:
        own["layer_norm_epsilon"] = config.layer_norm_epsilon
        notes.append(
            f"Google's readers normalise with an epsilon of {LAYER_NORM_EPSILON}, this model with "
            f"{config.layer_norm_epsilon}"
        )
    numbers = dataclasses.asdict(config)
    values = {name: numbers[field] for name, field in NUMBERS.items()}
    write_json(path, values | {"hidden_act": theirs[config.activation], OURS_KEY: own})
    return tuple(notes)
