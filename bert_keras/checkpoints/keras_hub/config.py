"""Reads and writes the JSON files of a KerasHub preset.

EXTRA_KEY is stored in metadata.json. keras_hub rewrites that file without the key whenever it saves
a preset, so the key never describes a model that was changed later.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from bert_keras.architectures import CLASSIFIER, ENCODER, MASKED_LM, class_names
from bert_keras.checkpoints import foreign
from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.storage import json_object

CONFIG, TASK, METADATA = "config.json", "task.json", "metadata.json"
TOKENIZER, PREPROCESSOR = "tokenizer.json", "preprocessor.json"
# KerasHub's names of hyperparameters, and ours. Source of this table and of the constants below:
# keras_hub 0.32, BertBackbone and its tasks.
HYPERPARAMETERS = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_layers",
    "num_heads": "num_heads",
    "hidden_dim": "hidden_size",
    "intermediate_dim": "intermediate_size",
    "dropout": "hidden_dropout_rate",
    "max_sequence_length": "max_positions",
    "num_segments": "num_segments",
}
WITHOUT_EFFECT = ("name", "trainable", "dtype")
# Values that every BertBackbone has.
FIXED = {"activation": "gelu_tanh", "layer_norm_epsilon": 1e-12, "initializer_stddev": 0.02}
PLAIN_WORDPIECE = {"split": True, "suffix_indicator": "##", "oov_token": "[UNK]"}
# The task classes of KerasHub by our model classes; "" is the bare backbone.
TASKS = class_names("keras_hub")
FLOATS = ("float16", "float64", "bfloat16", "mixed_float16", "mixed_bfloat16")
# The effects in the notes below were measured on a trained model of six layers. The figures are
# relative to the largest hidden state or logit.
GELU = (
    "KerasHub approximates GELU by tanh, this model computes it exactly: hidden states differ by "
    "about 1e-3"
)
# Largest LayerNorm epsilon that can be written, because KerasHub always computes with 1e-12. An
# epsilon of 1e-5 changes hidden states by 3e-4; one of 1e-3 would change them by 3e-2.
LARGEST_EPSILON = 1e-5
MASKED_LM_HEAD = (
    "KerasHub's masked-LM head has the exact GELU and a LayerNorm epsilon of 1e-5: its logits "
    "differ from ours by up to 2e-3"
)
TOKENS = (
    "KerasHub's tokenizer differs from BERT's for invisible characters, spaces beyond ASCII and, "
    "in lower case, sharp s, final sigma, fractions and Hangul"
)


def read_extra(path: Path) -> dict[str, Any]:
    """Returns the value of EXTRA_KEY in metadata.json, {} if the file or the key is missing."""
    if not (path / METADATA).is_file():
        return {}
    extra = json_object(path / METADATA).get(foreign.EXTRA_KEY, {})
    return foreign.checked_extra(extra, path / METADATA, others=(*FIXED, "attention_dropout_rate"))


def read_config(
    path: Path, extra: Mapping[str, Any], *, ignore: Collection[str]
) -> tuple[BertConfig, tuple[str, ...]]:
    """Reads config.json.

    Args:
        path: The folder of the preset.
        extra: The value of EXTRA_KEY.
        ignore: Unknown keys that the caller allows.

    Returns:
        The configuration, and one sentence for each difference from KerasHub.

    Raises:
        InputError: The file describes another model or a quantized one, a key is missing or
            unknown, or a value is impossible.
    """
    values = _config_of(path / CONFIG, ("BertBackbone",))
    foreign.check_keys(
        values,
        path / CONFIG,
        required=HYPERPARAMETERS,
        optional=WITHOUT_EFFECT,
        ignore=ignore,
        reader="KerasHub's BertBackbone",
    )
    fields = {field: values[key] for key, field in HYPERPARAMETERS.items()}
    fields |= {"attention_dropout_rate": values["dropout"], **FIXED}
    fields |= {name: value for name, value in extra.items() if name not in foreign.EXTRA_FIELDS}
    config = foreign.config_of(fields, path / CONFIG)
    match values.get("dtype"):
        case None | "float32" | {"config": {"name": "float32"}}:
            return config, ()
        case str(name) | {"config": {"name": str(name)}} if name in FLOATS:
            note = f"KerasHub computes this preset in {name}, bert-keras in Keras' dtype policy"
            return config, (note,)
    raise InputError(
        f"{path / CONFIG} describes a quantized model; save the preset without quantization"
    )


def read_task(path: Path, model: str) -> tuple[int, tuple[str, ...]]:
    """Returns the number of labels of the head, 0 if `model` has no labels, and notes."""
    if model == MASKED_LM.name:
        _config_of(path / TASK, (TASKS[model],))
        return 0, (MASKED_LM_HEAD,)
    if model == ENCODER.name:
        if not (path / TASK).is_file():
            return 0, ()
        name = json_object(path / TASK).get("class_name")
        return 0, (f"{TASK} describes a {name}, but its head has no weights: it is not read",)
    # BertClassifier is the name of the class in older presets.
    values = _config_of(path / TASK, (TASKS[CLASSIFIER.name], "BertClassifier"))
    count, activation = values.get("num_classes"), values.get("activation")
    if type(count) is not int or count < 1:
        raise InputError(f"{path / TASK}: num_classes is {count!r}; expected an integer above 0")
    if activation in (None, "linear"):
        return count, ()
    return count, (f"KerasHub's classifier returns {activation} of the logits, ours the logits",)


def read_text(
    path: Path, extra: Mapping[str, Any], config: BertConfig
) -> tuple[bool | None, int, tuple[str, ...]]:
    """Reads the settings of the tokenizer and of the preprocessor.

    Returns:
        Whether the tokenizer lower-cases text, None if no file states it; the maximum length of an
        input in tokens; and one sentence for each difference from KerasHub.
    """
    lowercase, max_length, notes = extra.get("lowercase"), extra.get("max_length"), ()
    if (path / TOKENIZER).is_file():
        values = _config_of(path / TOKENIZER, ("BertTokenizer",))
        lowercase = bool(values.get("lowercase"))
        for name, expected in PLAIN_WORDPIECE.items():
            if values.get(name, expected) != expected:
                raise InputError(
                    f"{path / TOKENIZER}: {name} is {values[name]!r}; expected {expected!r}, as in "
                    "BERT's tokenizer"
                )
        if lowercase and not values.get("strip_accents"):
            notes = ("KerasHub's tokenizer keeps accents; ours strips them, as BERT's does",)
    if (path / PREPROCESSOR).is_file():
        match json_object(path / PREPROCESSOR):
            case {"config": {"sequence_length": int(length)}}:
                max_length = length
    # KerasHub packs 512 tokens by default, even if the encoder has fewer positions.
    return lowercase, min(max_length or config.max_positions, config.max_positions), notes


def write_configs(metadata: ModelMetadata, folder: Path, *, has_text: bool) -> tuple[str, ...]:
    """Writes the JSON files of a preset.

    Args:
        metadata: The metadata of the model.
        folder: The folder to write to.
        has_text: Whether to write the files of the tokenizer and of the preprocessor.

    Returns:
        One sentence for each computation that KerasHub does differently.

    Raises:
        InputError: KerasHub cannot represent the model, or would compute too different outputs.
    """
    notes, config = _differences(metadata, has_text=has_text), metadata.config
    hyperparameters = {key: getattr(config, field) for key, field in HYPERPARAMETERS.items()}
    backbone = _serialized("BertBackbone", hyperparameters)
    # With lowercase alone KerasHub keeps accents; BERT's tokenizer strips them if it lower-cases.
    case = {"lowercase": metadata.lowercase, "strip_accents": metadata.lowercase}
    files = {CONFIG: backbone, METADATA: {foreign.EXTRA_KEY: _extra(metadata)}}
    if has_text:
        files[TOKENIZER] = _serialized("BertTokenizer", case)
    if task := TASKS[metadata.model]:
        parts = {"backbone": backbone, "preprocessor": None}
        if has_text:
            packing = {"tokenizer": files[TOKENIZER], "sequence_length": metadata.max_length}
            files[PREPROCESSOR] = _serialized(f"{task}Preprocessor", packing)
            parts["preprocessor"] = files[PREPROCESSOR]
        if metadata.labels:
            parts |= {"num_classes": len(metadata.labels), "dropout": config.hidden_dropout_rate}
        files[TASK] = _serialized(task, parts)
    for name, values in files.items():
        foreign.write_json(folder / name, values, indent=4)
    return notes


def _differences(metadata: ModelMetadata, *, has_text: bool) -> tuple[str, ...]:
    config, default = metadata.config, FIXED["layer_norm_epsilon"]
    epsilon = config.layer_norm_epsilon
    if not config.has_pooler:
        raise InputError(
            "KerasHub's backbone always has a pooler and this model has none; load it with a new "
            f'one, {metadata.model}.from_pretrained(..., has_pooler=True, new=("pooler",)), or '
            "choose another format"
        )
    if config.activation not in ("gelu", "gelu_tanh"):
        raise InputError(
            f"KerasHub's BERT has no activation {config.activation}, only GELU; choose another "
            "format"
        )
    if epsilon > LARGEST_EPSILON:
        raise InputError(
            f"KerasHub's LayerNorm epsilon is {default}; the outputs of a model with {epsilon} "
            "would differ too much; choose another format"
        )
    notes = {
        GELU: config.activation == "gelu",
        f"KerasHub's LayerNorm epsilon is {default}, that of this model is {epsilon}: hidden "
        "states differ by up to 3e-4": epsilon != default,
        f"KerasHub has one dropout rate, {config.hidden_dropout_rate}, but the attention of this "
        f"model has {config.attention_dropout_rate}": (
            config.attention_dropout_rate != config.hidden_dropout_rate
        ),
        MASKED_LM_HEAD: metadata.model == MASKED_LM.name,
        TOKENS: has_text,
    }
    return tuple(note for note, is_true in notes.items() if is_true)


def _extra(metadata: ModelMetadata) -> dict[str, Any]:
    """Returns the metadata for which KerasHub's files have no field."""
    defaults = FIXED | {"attention_dropout_rate": metadata.config.hidden_dropout_rate}
    values = {name: getattr(metadata.config, name) for name in defaults}
    changed = {name: value for name, value in values.items() if value != defaults[name]}
    return foreign.stored_fields(metadata) | changed


def _config_of(path: Path, classes: Collection[str]) -> dict[str, Any]:
    """Returns the `config` of a serialized Keras object.

    Raises:
        InputError: The object is not of one of the `classes`.
    """
    serialized = json_object(path)
    name, values = serialized.get("class_name"), serialized.get("config")
    if name not in classes or not isinstance(values, dict):
        raise InputError(f"{path} describes a {name}; expected KerasHub's {' or '.join(classes)}")
    return values


def _serialized(name: str, config: dict[str, Any]) -> dict[str, Any]:
    """Serializes an object as Keras does; `name` is its class in keras_hub."""
    module = re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return {
        "module": f"keras_hub.src.models.bert.{module}",
        "class_name": name,
        "config": config,
        "registered_name": f"keras_hub>{name}",
    }
