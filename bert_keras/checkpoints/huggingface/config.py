"""Reads and writes Hugging Face's config.json.

When transformers saves a model again, it keeps EXTRA_KEY in the file.
"""

import dataclasses
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from bert_keras.architectures import class_names
from bert_keras.checkpoints.foreign import (
    EXTRA_KEY,
    checked_extra,
    config_of,
    how_to_ignore,
    write_json,
)
from bert_keras.checkpoints.huggingface import modernbert
from bert_keras.checkpoints.metadata import ModelMetadata, numbered_labels
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.families import BERT, FAMILIES, MODERNBERT
from bert_keras.family import OPTIONAL_SIZES, Family
from bert_keras.files import json_object
from bert_keras.text.vocab import Vocabulary

CONFIG = "config.json"
# Hugging Face's names of hyperparameters, and ours. Source: BertConfig of transformers 5, whose
# defaults equal ours. For the names and defaults of relatives see `family.Family`.
HYPERPARAMETERS = {
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
CLASSES = class_names("huggingface")
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
PROBLEM_TYPES = ("regression", SINGLE, "multi_label_classification")
HEAD_DROPOUT = (
    "config.json: {} is {}; it has no effect, because embeddings and heads have the dropout rate "
    "of the model, hidden_dropout_rate"
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
    *("model_type", "architectures", "auto_map", "hidden_act", "tokenizer_class", EXTRA_KEY),
    *("id2label", "label2id", "num_labels", "classifier_dropout", "problem_type"),
    *FIXED,
    *WITHOUT_EFFECT,
    *modernbert.KEYS,
}


def note_if_ignored(name: str, problem: str, *, ignore: Collection[str]) -> str:
    """Returns the description of a problem as a note if `ignore` contains its name.

    Raises:
        InputError: `ignore` does not contain `name`.
    """
    if name in ignore:
        return f"{problem}; ignored as requested"
    raise InputError(f"{problem}; to ignore this: {how_to_ignore(*ignore, name)}")


def read_values(folder: Path) -> tuple[dict[str, Any], Family]:
    """Returns the values of config.json, and the family of the model.

    The family is the one that model_type names, or BERT if the file has no model_type.

    Raises:
        InputError: The file is missing, or its model_type is unknown.
    """
    path = folder / CONFIG
    if not path.is_file():
        raise InputError(f"{folder} has no {CONFIG}; add the file that describes the model")
    values = json_object(path)
    if (kind := values.get("model_type", BERT.kind)) not in [*FAMILIES]:
        known = ", ".join(map(repr, FAMILIES))
        raise InputError(f"{path}: model_type is {kind!r}; expected one of {known}")
    return values, FAMILIES[kind]


def transformers_classes(family: Family) -> dict[str, str]:
    """Returns the names of a family's classes in transformers, by our model classes."""
    ends = {**CLASSES, **family.class_names}
    return {model: f"{family.class_prefix}{end}" for model, end in ends.items() if end}


def _config_fields(family: Family) -> dict[str, str]:
    """Maps the config.json keys of a family to the fields of BertConfig whose values they hold."""
    absent = {*OPTIONAL_SIZES, *family.traits} - {*family.sizes, *family.options}
    fields = {key: field for key, field in HYPERPARAMETERS.items() if field not in absent}
    return {family.config_key(key): field for key, field in fields.items()}


def read_config(values: Mapping[str, Any], family: Family) -> BertConfig:
    """Returns the configuration in the values of config.json, with a pooler.

    Raises:
        InputError: A value is impossible or not supported.
    """
    for name, expected in {**FIXED, **family.fixed_values}.items():
        if (value := values.get(name)) is not None and value != expected:
            raise InputError(
                f"{CONFIG}: {name} is {json.dumps(value)}; expected {json.dumps(expected)}, the "
                "only supported value"
            )
    values, key = {**family.defaults, **values}, family.config_key("hidden_act")
    activation = str(values.get(key, "gelu"))
    if activation not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise InputError(f"{CONFIG}: {key} is {activation!r}; expected one of {known}")
    fields = _config_fields(family)
    for key, field in fields.items():
        if field in OPTIONAL_SIZES and values.get(key) == 0:
            raise InputError(f"{CONFIG}: {key} is 0; expected at least 1")
    stated = {field: values[key] for key, field in fields.items() if key in values}
    absent = dict.fromkeys({*OPTIONAL_SIZES} - {*family.sizes, *family.options}, 0)
    fields = {"intermediate_size": INTERMEDIATE_SIZE, **stated, **family.traits, **absent}
    if family is MODERNBERT:
        fields |= modernbert.read_fields(values)
    config = config_of(fields | {"activation": ACTIVATIONS[activation]}, CONFIG)
    # max_position_embeddings counts all rows of the position table, also those before the offset.
    changes = {"max_positions": config.max_positions - config.position_offset}
    if family.has_optional_projection and config.embedding_size == config.hidden_size:
        changes["embedding_size"] = 0
    return dataclasses.replace(config, **changes)


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
        problem = f"{CONFIG} has an auto_map, which names code in the folder; this code never runs"
        notes.append(note_if_ignored("auto_map", problem, ignore=ignore))
    problem_type = values.get("problem_type") or SINGLE
    if problem_type not in PROBLEM_TYPES:
        known = ", ".join(PROBLEM_TYPES)
        raise InputError(f"{CONFIG}: problem_type is {problem_type!r}; expected one of {known}")
    if problem_type != SINGLE:  # kept in the model metadata, because it states what a logit means
        notes.append(f"{CONFIG} has the problem_type {problem_type}; it does not choose the loss")
    dropout = {**family.defaults, **values}.get(family.config_key("hidden_dropout_prob"), 0.1)
    heads = dict.fromkeys(("classifier_dropout", *family.dropout_keys))
    notes += [
        HEAD_DROPOUT.format(name, values[name])
        for name in heads
        if values.get(name) not in (None, dropout)
    ]
    known = {*KNOWN, *_config_fields(family), *heads, *family.fixed_values, *family.ignored_keys}
    if others := [name for name in values if name not in {*known, family.config_key("hidden_act")}]:
        notes.append(f"{CONFIG} also has {', '.join(others)}; BERT has no such keys: ignored")
    classes = values.get("architectures") or [""]
    class_name = str(classes[0] if isinstance(classes, list) else classes)
    models = {name: model for model, name in transformers_classes(family).items()}
    if class_name not in ("", *models):
        problem = f"{CONFIG} names the class {class_name}; expected one of {', '.join(models)}"
        notes.append(note_if_ignored("architectures", problem, ignore=ignore))
    return models.get(class_name, ""), notes


def read_labels(values: Mapping[str, Any], count: int) -> tuple[tuple[str, ...], list[str]]:
    """Returns the names of `count` labels in the order of the logits, and notes.

    If config.json has no names, they are the default names of Hugging Face.

    Raises:
        InputError: The file has another number of labels, or they are not numbered from 0.
    """
    num_labels, names = values.get("num_labels", count), values.get("id2label") or {}
    ids = [str(index) for index in range(count)]
    is_complete = isinstance(names, dict) and sorted(map(str, names)) == sorted(ids)
    if num_labels != count or (names and not is_complete):
        raise InputError(
            f"{CONFIG}: num_labels is {num_labels} and id2label {json.dumps(names)}; expected "
            f"{count} labels numbered from 0, one for each row of classifier.weight"
        )
    if not names:
        return numbered_labels(count), []
    names = {str(index): name for index, name in names.items()}
    labels = tuple(names[index] for index in ids)
    if wrong := [label for label in labels if not isinstance(label, (str, int, float))]:
        raise InputError(f"{CONFIG}: id2label has {json.dumps(wrong[0])}; expected names of labels")
    labels, label_ids = tuple(map(str, labels)), values.get("label2id")
    if label_ids and label_ids != {label: index for index, label in enumerate(labels)}:
        return labels, [f"label2id and id2label of {CONFIG} differ; id2label is used"]
    return labels, []


def read_extra(values: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Returns the value of EXTRA_KEY if it describes the model class `model`, otherwise {}.

    The value may describe another model, because transformers keeps the key when it saves a model
    of another class.
    """
    extra = checked_extra(values.get(EXTRA_KEY, {}), Path(CONFIG), others=("model",))
    return extra if extra.get("model") == model else {}


def write_config(
    metadata: ModelMetadata, folder: Path, *, family: Family, vocabulary: Vocabulary | None
) -> None:
    """Writes config.json.

    Args:
        metadata: The metadata of the model.
        folder: The folder to write to.
        family: The family of the model.
        vocabulary: The vocabulary, which contains the id of the padding token; None without one.
    """
    config, pad_id = metadata.config, vocabulary.pad_id if vocabulary else 0
    activations = {ours: name for name, ours in reversed(ACTIVATIONS.items())}
    extra = {"model": metadata.model, "text_columns": metadata.text_columns}
    if metadata.task:
        extra["task"] = metadata.task
    if vocabulary is None:  # otherwise the tokenizer files state these values
        extra |= {"lowercase": metadata.lowercase, "max_length": metadata.max_length}
    values = {
        "architectures": [transformers_classes(family)[metadata.model]],
        "model_type": family.kind,
        **{key: getattr(config, field) for key, field in _config_fields(family).items()},
        "max_position_embeddings": config.max_positions + config.position_offset,
        family.config_key("hidden_act"): activations[config.activation],
        **{name: config.hidden_dropout_rate for name in family.dropout_keys},
        "pad_token_id": pad_id,
        **family.fixed_values,
        "position_embedding_type": "absolute",
        "dtype": "float32",
        "torch_dtype": "float32",  # the name of dtype in transformers 4
    }
    if not family.dropout_keys:
        values["classifier_dropout"] = None
    if family.has_optional_projection:
        values["embedding_size"] = config.embedding_size or config.hidden_size
    if family is MODERNBERT:
        activation = activations[config.activation]
        values |= modernbert.written_values(config, vocabulary, activation=activation)
    if metadata.labels:
        values["id2label"] = {str(index): label for index, label in enumerate(metadata.labels)}
        values["label2id"] = {label: index for index, label in enumerate(metadata.labels)}
    if metadata.problem_type:
        values["problem_type"] = metadata.problem_type
    write_json(folder / CONFIG, values | {EXTRA_KEY: extra})
