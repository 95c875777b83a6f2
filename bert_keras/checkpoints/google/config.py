"""A bert_config.json in, our config and what else a card says out; and back.

What Google's file has no place for stands in it under one more key, which its readers pass over.
"""

import dataclasses
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from bert_keras.checkpoints.card import ModelCard
from bert_keras.checkpoints.own_key import CARD, OURS_KEY, TEXTS, checked
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
CHANGED = ("activation", "layer_norm_epsilon")  # where ours are not Google's
# In the files of the Chinese and multilingual models; modeling.py reads none of them.
WITHOUT_EFFECT = (
    "directionality",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
)


def read_config(path: Path, *, ignore: Collection[str]) -> tuple[BertConfig, dict[str, Any]]:
    """The config, with a pooler, and the fields of a ModelCard that stand under our own key.

    Raises InputError for fields missing, unknown (but for those of `ignore`) or impossible.
    """
    if not path.is_file():
        raise InputError(
            f"{path} is missing: it says what the weights were trained with; put it beside them"
        )
    values = json_object(path)
    ours = checked(values.pop(OURS_KEY, {}), path, fields=CHANGED)
    required = (*(name for name in NUMBERS if name not in OPTIONAL), "hidden_act")
    if missing := [name for name in required if name not in values]:
        raise InputError(f"{path} lacks {', '.join(missing)}; complete it")
    known = (*NUMBERS, "hidden_act", *WITHOUT_EFFECT, *ignore)
    if unknown := [name for name in values if name not in known]:
        raise InputError(
            f"{path} has {', '.join(unknown)}, unknown to Google's BERT; where that changes "
            f"nothing, name it to leave it: ignore=({unknown[0]!r},), or --ignore {unknown[0]}"
        )
    activation = values["hidden_act"]
    if activation not in [*ACTIVATIONS]:  # JSON may hold what has no hash
        raise InputError(
            f"{path}: hidden_act is {activation!r}; expected one of {', '.join(ACTIVATIONS)}"
        )
    try:
        config = BertConfig(
            **{name: values[theirs] for theirs, name in NUMBERS.items() if theirs in values},
            activation=ours.get("activation", ACTIVATIONS[activation]),
            layer_norm_epsilon=ours.get("layer_norm_epsilon", LAYER_NORM_EPSILON),
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    return config, ours | {name: tuple(ours.get(name, ())) for name in TEXTS}


def write_config(card: ModelCard, path: Path) -> tuple[str, ...]:
    """Returns a sentence for each number that Google's readers will take otherwise."""
    config, notes = card.config, []
    theirs = {ours: name for name, ours in ACTIVATIONS.items()} | {"gelu": "gelu"}
    if config.activation not in theirs:
        raise InputError(
            f"Google's BERT has no activation {config.activation}; write another format"
        )
    ours = {name: getattr(card, name) for name in CARD}
    if config.activation == "gelu":
        ours["activation"] = config.activation
        notes.append(
            "Google's readers compute GELU by tanh, this model exactly: an activation differs by "
            "up to 5e-4"
        )
    if config.layer_norm_epsilon != LAYER_NORM_EPSILON:
        ours["layer_norm_epsilon"] = config.layer_norm_epsilon
        notes.append(
            f"Google's readers normalise with an epsilon of {LAYER_NORM_EPSILON}, this model with "
            f"{config.layer_norm_epsilon}"
        )
    numbers = dataclasses.asdict(config)
    values = {name: numbers[field] for name, field in NUMBERS.items()}
    values |= {"hidden_act": theirs[config.activation], OURS_KEY: ours}
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return tuple(notes)
