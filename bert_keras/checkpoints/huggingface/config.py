"""Reads and writes Hugging Face's config.json; transformers keeps EXTRA_KEY in it."""

import dataclasses
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from bert_keras.checkpoints.checkpoint import EXTRA_KEY
from bert_keras.checkpoints.google import HYPERPARAMETERS as GOOGLE_HYPERPARAMETERS
from bert_keras.config import SIGMOID, BertConfig, ModelMetadata, numbered_labels
from bert_keras.errors import InputError, check_name
from bert_keras.families import FAMILIES
from bert_keras.families.family import OPTIONAL_SIZES, Family
from bert_keras.files import json_object, optional_json, write_json
from bert_keras.kinds.known import KINDS
from bert_keras.text.vocab import Vocabulary

CONFIG = "config.json"
# Hyperparameters of transformers' BertConfig, version 5 -> our names. The defaults are equal.
# `Family` has the names and defaults of the relatives.
HYPERPARAMETERS = {
    **GOOGLE_HYPERPARAMETERS,
    "embedding_size": "embedding_size",
    "layer_norm_eps": "layer_norm_epsilon",
}
INTERMEDIATE_SIZE = 3072  # the default in transformers, which does not depend on hidden_size
# Hugging Face's names of activations -> ours. The first of several equal ones is written.
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_new",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
CROSS_ENCODER, ACTIVATION = "config_sentence_transformers.json", "activation_fn"
CLASSES = ("torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Sigmoid")
NEXT_SENTENCE = "ForNextSentencePrediction"  # read as an encoder with a part of a BertPretrainer
# The only supported value of each key; other values would change what the model computes.
FIXED = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "is_encoder_decoder": False,
    "quantization_config": None,
}


def note_if_ignored(name: str, problem: str, *, ignore: Collection[str]) -> str:
    """Returns a problem as a note if `ignore` contains its name, or raises InputError."""
    if name in ignore:
        return f"{problem}; ignored as requested"
    raise InputError(f"{problem}; to ignore this: ignore=({name!r},) or --ignore {name}")


def check_fixed(values: Mapping[str, Any], fixed: Mapping[str, Any], *, file: str) -> None:
    """Raises InputError if a value of the JSON file `file` is not the supported one."""
    for name, expected in fixed.items():
        if values.get(name) not in (None, expected):
            found = json.dumps(values[name])
            raise InputError(f"{file}: {name} is {found}; expected {json.dumps(expected)}")


def read_values(folder: Path) -> tuple[dict[str, Any], Family]:
    """Returns the values of config.json and the family of the model, by default BERT."""
    values = json_object(folder / CONFIG)
    model_type = str(values.get("model_type", "bert"))
    families = {kind: f for f in FAMILIES.values() for kind in (f.kind, *f.other_kinds)}
    check_name(model_type, families, what=f"model_type in {CONFIG}")
    family = families[model_type]
    if family.native_values is not None:
        values.pop("auto_map", None)  # its code computes the network of the family
        values = family.native_values(values)
    return values, family


def transformers_classes(family: Family) -> dict[str, str]:
    """Returns the names of a family's classes in transformers, by our model classes."""
    ends = {name: kind.transformers_class for name, kind in KINDS.items()}
    ends |= family.class_names
    return {model: f"{family.class_prefix}{end}" for model, end in ends.items() if end}


def _config_fields(family: Family) -> dict[str, str]:
    """Maps the config.json keys of a family to the fields of BertConfig whose values they hold."""
    absent = {*OPTIONAL_SIZES, *family.traits} - {*family.sizes, *family.options}
    fields = {key: field for key, field in HYPERPARAMETERS.items() if field not in absent}
    return {family.config_keys.get(key, key): field for key, field in fields.items()}


def read_config(values: Mapping[str, Any], family: Family) -> BertConfig:
    """Returns the configuration in the values of config.json, with a pooler."""
    values = {**family.defaults, **values}
    fixed = {**FIXED, **family.fixed_values, **family.published_values}
    if "position_kind" in family.traits:  # the key is not used; mmBERT and Ettin state sans_pos
        del fixed["position_embedding_type"]
    check_fixed(values, fixed, file=CONFIG)
    names = {key: str(values.get(key, "gelu")) for key in family.activation_keys}
    name = next(iter(names.values()))
    check_name(name, ACTIVATIONS, what=f"activation in {CONFIG}")
    check_fixed(names, dict.fromkeys(names, name), file=CONFIG)
    activation = ACTIVATIONS[name]
    stated = {field: values[key] for key, field in _config_fields(family).items() if key in values}
    absent = dict.fromkeys(set(OPTIONAL_SIZES) - {*family.sizes, *family.options}, 0)
    fields = {"intermediate_size": INTERMEDIATE_SIZE, **stated, **family.traits, **absent}
    fields["activation"] = activation
    if family.has_gelu_head and activation != "gelu":
        fields["masked_lm_activation"] = "gelu"
    if family.read_fields is not None:
        fields |= family.read_fields(values)
    config = BertConfig(**fields)
    # max_position_embeddings counts all rows of the position table, also those before the offset.
    changes = {"max_positions": config.max_positions - config.position_offset}
    rate = values.get(family.dropout_keys[0])
    changes |= {"head_dropout_rate": rate} if rate not in (None, config.hidden_dropout_rate) else {}
    if family.has_optional_projection and config.embedding_size == config.hidden_size:
        changes["embedding_size"] = 0
    return dataclasses.replace(config, **changes)


def read_architecture(values: Mapping[str, Any], family: Family, *, ignore: Collection[str]) -> str:
    """Returns our model class for the class in config.json, or "" if there is none."""
    name = str(next(iter(values.get("architectures") or [""])))
    models = {name: model for model, name in transformers_classes(family).items()}
    models |= {"": "", f"{family.class_prefix}{NEXT_SENTENCE}": ""}
    check_name(name, models, what=f"class of {family.kind} for the architectures of {CONFIG}")
    if values.get("auto_map"):
        problem = f"{CONFIG} has an auto_map, which names code that bert-keras never runs"
        note_if_ignored("auto_map", problem, ignore=ignore)
    return models[name]


def read_labels(values: Mapping[str, Any], count: int) -> tuple[str, ...]:
    """Returns the names of `count` labels, by default Hugging Face's."""
    names = values.get("id2label") or {}
    names = enumerate(names) if isinstance(names, list) else names.items()
    names = {str(index): name for index, name in names}
    ids = [str(index) for index in range(count)]
    if values.get("num_labels", count) != count or (names and set(names) != set(ids)):
        raise InputError(f"{CONFIG}: id2label is {names}; expected {count} labels, numbered from 0")
    return tuple(str(names[index]) for index in ids) if names else numbered_labels(count)


def read_problem_type(folder: Path, values: Mapping[str, Any], *, num_labels: int) -> str:
    """Returns a classifier's problem type; a CrossEncoder's folder states an activation, too."""
    kind, settings = values.get("problem_type") or "", optional_json(folder / CROSS_ENCODER)
    is_number = num_labels == 1 and kind in ("", "regression")
    default = CLASSES[is_number and settings.get("model_type") == "CrossEncoder"]
    older = values.get("sentence_transformers") or {}  # before version 6, in config.json
    oldest = values.get("sbert_ce_default_activation_function")
    name = settings.get(ACTIVATION) or older.get(ACTIVATION) or oldest or default
    known = CLASSES if is_number or kind == "multi_label_classification" else CLASSES[:1]
    check_name(name, known, what=f"{ACTIVATION} for this model")
    return SIGMOID if is_number and name == CLASSES[1] else kind


def write_config(
    metadata: ModelMetadata, folder: Path, *, family: Family, vocabulary: Vocabulary | None
) -> None:
    """Writes config.json.

    Args:
        family: The family of the model, which names the keys and the class.
        vocabulary: The vocabulary, or None if the folder gets no tokenizer files.
    """
    config = metadata.config
    activations = {ours: name for name, ours in reversed(ACTIVATIONS.items())}
    names = ["model", "text_columns", "shortens_first", *["task"] * bool(metadata.task)]
    # Otherwise the tokenizer files state these values.
    names += ["lowercase", "max_length"] if vocabulary is None else []
    extra = {name: getattr(metadata, name) for name in names}
    values = {
        "architectures": [transformers_classes(family)[metadata.model]],
        "model_type": family.kind,
        **{key: getattr(config, field) for key, field in _config_fields(family).items()},
        "max_position_embeddings": config.max_positions + config.position_offset,
        **dict.fromkeys(family.activation_keys, activations[config.activation]),
        **dict.fromkeys(family.dropout_keys, config.hidden_dropout_rate),
        family.dropout_keys[0]: config.dropout_of_heads,
        "pad_token_id": vocabulary.pad_id if vocabulary else 0,
        **family.fixed_values,
        "position_embedding_type": "absolute",
        "dtype": "float32",
        "torch_dtype": "float32",  # the name of dtype in transformers 4
    }
    if family.has_optional_projection:
        values["embedding_size"] = config.embedding_size or config.hidden_size
    if family.more_values is not None:
        values |= family.more_values(config, vocabulary)
    if metadata.labels:
        values["id2label"] = {str(index): label for index, label in enumerate(metadata.labels)}
        values["label2id"] = {label: index for index, label in enumerate(metadata.labels)}
    if metadata.problem_type not in ("", SIGMOID):
        values["problem_type"] = metadata.problem_type
    if metadata.model == "BertClassifier" and len(metadata.labels) == 1:
        name = CLASSES[metadata.problem_type == SIGMOID]
        values["sentence_transformers"] = {ACTIVATION: name}
    write_json(folder / CONFIG, values | {EXTRA_KEY: extra})
