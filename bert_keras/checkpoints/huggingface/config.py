"""Reads and writes Hugging Face's config.json.

When transformers saves a model again, it keeps OURS_KEY in the file.
"""

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
# Hugging Face's names of hyperparameters, and ours. Source: BertConfig of transformers 5, whose
# defaults equal ours. For the names and defaults of relatives see `architectures.Family`.
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
INTERMEDIATE_SIZE = 3072  # the default in transformers, which does not depend on hidden_size
# Hugging Face's names of activations, and ours. If several names mean the same, the first one is
# written.
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
# The ends of the class names in transformers, by our model classes.
CLASSES = {
    row.name: row.class_names["huggingface"]
    for row in ARCHITECTURES.values()
    if "huggingface" in row.class_names
}
# The only supported value of each key; another value changes what the model computes.
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
# Other keys in published folders; they do not change what the model computes.
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
    """Returns the description `fault` as a note if `ignore` contains the name of the fault.

    Raises:
        InputError: `ignore` does not contain `name`.
    """
    if name in ignore:
        return f"{fault}; passed over, as asked"
    raise InputError(f"{fault}; to go on all the same: ignore=({name!r},), or --ignore {name}")


def read_values(folder: Path) -> tuple[dict[str, Any], Family]:
    """Returns the values of config.json, and the family of the model.

    The family is the one that model_type names, or BERT if the file has no model_type.

    Raises:
        InputError: The file is missing, or its model_type is unknown.
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
    """Returns the name of the transformers class for our model class `model`."""
    return f"{family.classes}{CLASSES[model]}"


def _numbers(family: Family) -> dict[str, str]:
    """Maps the config.json keys of a family to the fields of BertConfig whose values they hold."""
    absent = {*COUNTS, *family.traits} - {*family.counts}
    return {family.key(name): ours for name, ours in NUMBERS.items() if ours not in absent}


def read_config(values: Mapping[str, Any], family: Family) -> BertConfig:
    """Returns the configuration in the values of config.json, with a pooler.

    Raises:
        InputError: A value is impossible or not supported.
    """
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
    # max_position_embeddings counts all rows of the position table, also those before the offset.
    rows = config.max_positions - config.position_offset
    return dataclasses.replace(config, max_positions=rows)


def read_architecture(
    values: Mapping[str, Any], family: Family, *, ignore: Collection[str]
) -> tuple[str, list[str]]:
    """Returns the model class that config.json names, and notes.

    Args:
        values: The values of config.json.
        family: The family of the model.
        ignore: "auto_map" and "architectures" allow a file that names code or an unknown class.

    Returns:
        The name of our model class, "" if the file names none that we know; and one sentence for
        each value of the file that has no effect here.

    Raises:
        InputError: A value is not supported, and `ignore` does not contain its name.
    """
    notes = []
    if values.get("auto_map"):
        fault = f"{CONFIG} has an auto_map, a model's code in the folder, which is never run"
        notes.append(left_if_named("auto_map", fault, ignore=ignore))
    problem = values.get("problem_type") or SINGLE
    if problem not in PROBLEMS:
        raise InputError(f"{CONFIG}: problem_type is {problem!r}; known are {', '.join(PROBLEMS)}")
    if problem != SINGLE:  # kept in the model metadata, because it states what a logit means
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
    """Returns the names of `count` labels in the order of the logits, and notes.

    If config.json has no names, they are the default names of Hugging Face.

    Raises:
        InputError: The file has another number of labels, or they are not numbered from 0.
    """
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
    """Returns the value of OURS_KEY if it describes the model class `model`, otherwise {}.

    The value may describe another model, because transformers keeps the key when it saves a model
    of another class.
    """
    own = checked(values.get(OURS_KEY, {}), Path(CONFIG), others=("model",))
    return own if own.get("model") == model else {}


def write_config(
    card: ModelCard, folder: Path, *, family: Family, vocabulary: Vocabulary | None
) -> None:
    """Writes config.json.

    Args:
        card: The metadata of the model.
        folder: The folder to write to.
        family: The family of the model.
        vocabulary: The vocabulary, which contains the id of the padding token; None without one.

    Raises:
        InputError: The padding id is not the one from which models of the family count positions.
    """
    config, pad_id = card.config, vocabulary.pad_id if vocabulary else 0
    theirs = {ours: name for name, ours in reversed(ACTIVATIONS.items())}
    own = {"model": card.model, "text_columns": card.text_columns}
    if card.task:
        own["task"] = card.task
    if vocabulary is None:  # otherwise the tokenizer files state these values
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
        "torch_dtype": "float32",  # the name of dtype in transformers 4
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
