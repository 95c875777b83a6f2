"""Reads and writes Hugging Face's config.json, in which transformers keeps our key."""

import dataclasses
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from bert_keras.architectures import (
    ARCHITECTURES,
    BERT,
    COUNTS,
    FAMILIES,
    Family,
)
from bert_keras.checkpoints.card import ModelCard, numbered_labels
from bert_keras.checkpoints.foreign import OURS_KEY, checked, config_of, write_json
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.storage import json_object
from bert_keras.text.vocab import Vocabulary

CONFIG = "config.json"
# Hugging Face's names, ours. Source: BertConfig of transformers 5; its defaults are ours. What
# relatives call otherwise, and theirs by default: `families`.
NUMBERS = {
    "attention_probs_dropout_prob": "attention_dropout_rate",
    "embedding_size": "embedding_size",
    "hidden_dropout_prob": "hidden_dropout_rate",
    "hidden_size": "hidden_size",
    "initializer_range": "initializer_stddev",
    "intermediate_size": "intermediate_size",
    "layer_norm_eps": "layer_norm_epsilon",
    "max_position_embeddings": "max_positions",
    "num_attention_heads": "num_heads",
    "num_hidden_layers": "num_layers",
    "type_vocab_size": "num_segments",
    "vocab_size": "vocab_size",
}
INTERMEDIATE_SIZE = 3072  # where it is left out, whatever hidden_size is
# The first name of each of ours is the one that is written.
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
# Our models by the ends of their classes' names.
CLASSES = {
    row.name: row.class_names["huggingface"]
    for row in ARCHITECTURES.values()
    if "huggingface" in row.class_names
}
# Any other value makes another model of it.
FIXED = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "is_encoder_decoder": False,
    "add_cross_attention": False,
    "pruned_heads": {},
    "quantization_config": None,
}
SINGLE = "single_label_classification"
PROBLEMS = ("regression", SINGLE, "multi_label_classification")
OF_HEAD = (
    "config.json: {} is {}; here heads drop dropout_rate of the model, hidden_dropout_rate unless "
    "given, and so says a config.json written"
)
# The others that folders in use have; transformers does not read them for BERT's numbers.
WITHOUT_EFFECT = (
    *("_name_or_path", "_num_labels", "bos_token_id", "chunk_size_feed_forward", "directionality"),
    *("dtype", "eos_token_id", "finetuning_task", "gradient_checkpointing", "language", "name"),
    *("output_attentions", "output_hidden_states", "output_past", "pad_token_id"),
    *("pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers"),
    *("pooler_size_per_head", "pooler_type", "return_dict", "tie_word_embeddings", "torch_dtype"),
    *("torchscript", "transformers_version", "use_bfloat16", "use_cache"),
)
KNOWN = {
    *("model_type", "architectures", "auto_map", "hidden_act", "tokenizer_class", OURS_KEY),
    *("id2label", "label2id", "num_labels", "classifier_dropout", "problem_type"),
    *FIXED,
    *WITHOUT_EFFECT,
}


def left_if_named(name: str, fault: str, *, ignore: Collection[str]) -> str:
    """The fault as a note where `ignore` names it; else InputError."""
    if name in ignore:
        return f"{fault}; passed over, as asked"
    raise InputError(f"{fault}; to go on all the same: ignore=({name!r},), or --ignore {name}")


def read_values(folder: Path) -> tuple[dict[str, Any], Family]:
    """Returns the values of config.json, and the family that its model_type names, BERT without.

    Raises InputError where the file is missing or of another architecture.
    """
    path = folder / CONFIG
    if not path.is_file():
        raise InputError(f"{folder} has no {CONFIG}, which says what the weights are; put it there")
    values = json_object(path)
    if (kind := values.get("model_type", BERT.kind)) not in [*FAMILIES]:
        known = ", ".join(map(repr, FAMILIES))
        raise InputError(f"{path}: model_type is {kind!r}; known here are {known}")
    return values, FAMILIES[kind]


def their_class(model: str, family: Family) -> str:
    """Returns the name of a class of transformers."""
    return f"{family.classes}{CLASSES[model]}"


def _numbers(family: Family) -> dict[str, str]:
    """Keys of the family's config.json to the fields of our config that they say."""
    absent = {*COUNTS, *family.traits} - {*family.counts}
    return {family.key(name): ours for name, ours in NUMBERS.items() if ours not in absent}


def read_config(values: Mapping[str, Any], family: Family) -> BertConfig:
    """Returns the configuration, with a pooler. Raises InputError for unsupported values."""
    for name, expected in {**FIXED, **family.fixed}.items():
        if (value := values.get(name)) is not None and value != expected:
            raise InputError(
                f"{CONFIG}: {name} is {json.dumps(value)}; expected {json.dumps(expected)}, the "
                "only one known here"
            )
    values, key = {**family.defaults, **values}, family.key("hidden_act")
    activation = str(values.get(key, "gelu"))
    if activation not in ACTIVATIONS:
        raise InputError(f"{CONFIG}: {key} is {activation!r}; known are {', '.join(ACTIVATIONS)}")
    known = _numbers(family)
    if none := [name for name, ours in known.items() if ours in COUNTS and values.get(name) == 0]:
        raise InputError(f"{CONFIG}: {none[0]} is 0; expected at least 1")
    given = {ours: values[name] for name, ours in known.items() if name in values}
    absent = dict.fromkeys({*COUNTS} - {*family.counts}, 0)
    numbers = {"intermediate_size": INTERMEDIATE_SIZE, **given, **family.traits, **absent}
    config = config_of(numbers | {"activation": ACTIVATIONS[activation]}, CONFIG)
    # They count all rows of the position table, of which an offset takes the first.
    rows = config.max_positions - config.position_offset
    return dataclasses.replace(config, max_positions=rows)


def read_architecture(
    values: Mapping[str, Any], family: Family, *, ignore: Collection[str]
) -> tuple[str, list[str]]:
    """Returns our name of the model whose class config.json names, "" where it names none; and
    notes."""
    notes = []
    if values.get("auto_map"):
        fault = f"{CONFIG} has an auto_map, a model's code in the folder, which is never run"
        notes.append(left_if_named("auto_map", fault, ignore=ignore))
    problem = values.get("problem_type") or SINGLE
    if problem not in PROBLEMS:
        raise InputError(f"{CONFIG}: problem_type is {problem!r}; known are {', '.join(PROBLEMS)}")
    if problem != SINGLE:  # the card keeps it, for it tells what a logit stands for
        notes.append(
            f"{CONFIG} says problem_type {problem}; the loss here is of one label of several"
        )
    dropout = {**family.defaults, **values}.get(family.key("hidden_dropout_prob"), 0.1)
    heads = ("classifier_dropout", *family.dropouts)
    notes += [
        OF_HEAD.format(name, values[name])
        for name in heads
        if values.get(name) not in (None, dropout)
    ]
    known = {*KNOWN, *_numbers(family), *heads, *family.fixed, *family.others}
    if others := [name for name in values if name not in {*known, family.key("hidden_act")}]:
        notes.append(f"{CONFIG} also has {', '.join(others)}, unknown to BERT: passed over")
    classes = values.get("architectures") or [""]
    given = str(classes[0] if isinstance(classes, list) else classes)
    models = {their_class(model, family): model for model in CLASSES}
    if given not in ("", *models):
        fault = f"{CONFIG} is of a {given}; known are {', '.join(models)}"
        notes.append(left_if_named("architectures", fault, ignore=ignore))
    return models.get(given, ""), notes


def read_labels(values: Mapping[str, Any], count: int) -> tuple[tuple[str, ...], list[str]]:
    """Returns the names of `count` labels in the order of the logits, and notes. A config.json
    without names gets those of Hugging Face."""
    told, named = values.get("num_labels", count), values.get("id2label") or {}
    numbers = [str(number) for number in range(count)]
    is_whole = isinstance(named, dict) and sorted(map(str, named)) == sorted(numbers)
    if told != count or (named and not is_whole):
        raise InputError(
            f"{CONFIG}: num_labels is {told} and id2label {json.dumps(named)}; expected {count} "
            "labels, as of classifier.weight, numbered from 0"
        )
    if not named:
        return numbered_labels(count), []
    by_number = {str(number): label for number, label in named.items()}
    labels = tuple(by_number[number] for number in numbers)
    if odd := [label for label in labels if not isinstance(label, (str, int, float))]:
        raise InputError(f"{CONFIG}: id2label has {json.dumps(odd[0])}; expected a label's name")
    labels, back = tuple(map(str, labels)), values.get("label2id")
    if back and back != {label: number for number, label in enumerate(labels)}:
        return labels, [f"label2id and id2label of {CONFIG} differ; the second counts"]
    return labels, []


def read_own(values: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Returns the value of our key where it is of the same model: transformers keeps the key."""
    own = checked(values.get(OURS_KEY, {}), Path(CONFIG), others=("model",))
    return own if own.get("model") == model else {}


def write_config(
    card: ModelCard, folder: Path, *, family: Family, vocabulary: Vocabulary | None
) -> None:
    """Writes config.json."""
    config, pad_id = card.config, vocabulary.pad_id if vocabulary else 0
    theirs = {ours: name for name, ours in reversed(ACTIVATIONS.items())}
    own = {"model": card.model, "text_columns": card.text_columns}
    if card.task:
        own["task"] = card.task
    if vocabulary is None:  # else these stand beside the vocabulary
        own |= {"lowercase": card.lowercase, "max_length": card.max_length}
    values = {
        "architectures": [their_class(card.model, family)],
        "model_type": family.kind,
        **{name: getattr(config, ours) for name, ours in _numbers(family).items()},
        "max_position_embeddings": config.max_positions + config.position_offset,
        family.key("hidden_act"): theirs[config.activation],
        **{name: config.hidden_dropout_rate for name in family.dropouts},
        "pad_token_id": pad_id,
        **family.fixed,
        "position_embedding_type": "absolute",
        "dtype": "float32",
        "torch_dtype": "float32",  # the same for transformers 4
    }
    if not family.dropouts:
        values["classifier_dropout"] = None
    if vocabulary is not None and values["pad_token_id"] != pad_id:
        raise InputError(
            f"{CONFIG}: pad_token_id is {pad_id}; expected {values['pad_token_id']}, by which a "
            f"{family.kind} counts its positions"
        )
    if card.labels:
        values["id2label"] = {str(number): label for number, label in enumerate(card.labels)}
        values["label2id"] = {label: number for number, label in enumerate(card.labels)}
    if card.problem_type:
        values["problem_type"] = card.problem_type
    write_json(folder / CONFIG, values | {OURS_KEY: own})
