"""Reads and writes the JSON files of a KerasHub preset.

EXTRA_KEY is stored in metadata.json. keras_hub rewrites that file without the key whenever it saves
a preset, so the key never describes a model that was changed later.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast

from bert_keras.architectures import ARCHITECTURES, ENCODER
from bert_keras.checkpoints import foreign, mapping
from bert_keras.checkpoints.keras_hub.families import (
    ANY_FAMILY,
    CLASSES,
    HUB_FAMILIES,
    MASKED_LM_EPSILON,
    HubFamily,
    serialized,
    traits_of,
)
from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.config import BertConfig
from bert_keras.errors import LARGEST_SIZE, InputError
from bert_keras.families import family_of
from bert_keras.family import Family
from bert_keras.files import json_object
from bert_keras.text.vocab import Vocabulary

CONFIG, TASK, METADATA = "config.json", "task.json", "metadata.json"
TOKENIZER, PREPROCESSOR = "tokenizer.json", "preprocessor.json"
WITHOUT_EFFECT = ("name", "trainable", "dtype")
FLOATS = ("float16", "float64", "bfloat16", "mixed_float16", "mixed_bfloat16")
# The effects in the notes below were measured on a trained model of six layers. The figures are
# relative to the largest hidden state or logit.
GELU = {
    "gelu_tanh": "KerasHub approximates GELU by tanh, this model computes it exactly: hidden "
    "states differ by about 1e-3",
    "gelu": "KerasHub computes GELU exactly, this model approximates it by tanh: hidden states "
    "differ by about 1e-3",
}
# Largest LayerNorm epsilon that can be written, because KerasHub always computes with 1e-12 (1e-5
# in RoBERTa). An epsilon of 1e-5 changes hidden states by 3e-4; one of 1e-3 would change them by
# 3e-2.
LARGEST_EPSILON = 1e-5
MASKED_LM_HEAD = (
    "KerasHub's masked-LM head has the activation {} and a LayerNorm epsilon of {}: its logits "
    "differ from ours by up to 2e-3"
)
OPTIONAL_FIELDS = (
    *("activation", "layer_norm_epsilon", "initializer_stddev", "attention_dropout_rate"),
    *("masked_lm_activation", "masked_lm_epsilon"),
)


def read_extra(path: Path) -> dict[str, Any]:
    """Returns the value of EXTRA_KEY in metadata.json, {} if the file or the key is missing."""
    if not (path / METADATA).is_file():
        return {}
    extra = json_object(path / METADATA).get(foreign.EXTRA_KEY, {})
    return foreign.checked_extra(extra, path / METADATA, others=OPTIONAL_FIELDS)


def read_family(path: Path) -> HubFamily:
    """Returns the family of the backbone that config.json describes.

    Raises:
        InputError: The file is missing or describes another class.
    """
    classes = {row.class_name(ENCODER.name): row for row in HUB_FAMILIES.values()}
    return classes[object_config(path / CONFIG, classes)[0]]


def read_config(
    path: Path, extra: Mapping[str, Any], *, hub: HubFamily, model: str, ignore: Collection[str]
) -> tuple[BertConfig, tuple[str, ...]]:
    """Reads config.json.

    Args:
        path: The folder of the preset.
        extra: The value of EXTRA_KEY.
        hub: The family of the backbone.
        model: The name of our model class.
        ignore: Unknown keys that the caller allows.

    Returns:
        The configuration, and one sentence for each difference from KerasHub.

    Raises:
        InputError: The file describes a quantized model, a key is missing or unknown, or a value is
            impossible.
    """
    name, values = object_config(path / CONFIG, (hub.class_name(ENCODER.name),))
    foreign.check_keys(
        values,
        path / CONFIG,
        required=hub.fields,
        optional=(*WITHOUT_EFFECT, *hub.fixed_values),
        ignore=ignore,
        reader=f"KerasHub's {name}",
    )
    for key, expected in hub.fixed_values.items():
        if values.get(key, expected) != expected:
            raise InputError(f"{path / CONFIG}: {key} is {values[key]!r}; expected {expected}")
    fields = traits_of(hub.family) | {field: values[key] for key, field in hub.fields.items()}
    fields |= {"attention_dropout_rate": values["dropout"], **hub.values(model)}
    fields |= {name: value for name, value in extra.items() if name not in foreign.EXTRA_FIELDS}
    fields["has_pooler"] = hub.has_pooler_in(model)
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


def read_task(path: Path, hub: HubFamily, model: str) -> tuple[int, tuple[str, ...]]:
    """Returns the number of labels of the head, 0 if `model` has no labels, and notes."""
    if model == ENCODER.name:
        if not (path / TASK).is_file():
            return 0, ()
        name = json_object(path / TASK).get("class_name")
        return 0, (f"{TASK} describes a {name}, but its head has no weights: it is not read",)
    if not ARCHITECTURES[model].is_labelled:
        object_config(path / TASK, (hub.class_name(model),))
        return 0, ()
    # BertClassifier is the name of the class in older presets.
    older = f"{hub.family.class_prefix}Classifier"
    _, values = object_config(path / TASK, (hub.class_name(model), older))
    count, activation = values.get("num_classes"), values.get("activation")
    if type(count) is not int or not 1 <= count <= LARGEST_SIZE:
        raise InputError(
            f"{path / TASK}: num_classes is {count!r}; expected an integer from 1 to {LARGEST_SIZE}"
        )
    if activation in (None, "linear"):
        return count, ()
    return count, (f"KerasHub's classifier returns {activation} of the logits, ours the logits",)


def read_max_length(path: Path, extra: Mapping[str, Any], config: BertConfig) -> int:
    """Returns the maximum length of an input in tokens, from the settings of the preprocessor."""
    max_length = extra.get("max_length")
    if (path / PREPROCESSOR).is_file():
        match json_object(path / PREPROCESSOR):
            case {"config": {"sequence_length": int(length)}}:
                max_length = length
    # KerasHub packs 512 tokens by default, even if the encoder has fewer positions.
    return min(max_length or config.max_positions, config.max_positions)


def write_configs(
    metadata: ModelMetadata, folder: Path, *, hub: HubFamily, tokenizer: Mapping[str, Any] | None
) -> tuple[str, ...]:
    """Writes the JSON files of a preset.

    Args:
        metadata: The metadata of the model.
        folder: The folder to write to.
        hub: The family of the model.
        tokenizer: The configuration of the tokenizer, None without one.

    Returns:
        One sentence for each computation that KerasHub does differently.
    """
    notes, config, family = _differences(metadata, hub), metadata.config, hub.family
    values = {key: getattr(config, field) for key, field in hub.fields.items()}
    values |= hub.fixed_values
    backbone = serialized(family, CLASSES[ENCODER.name], values)
    files = {CONFIG: backbone, METADATA: {foreign.EXTRA_KEY: _extra(metadata, hub)}}
    if tokenizer is not None:
        files[TOKENIZER] = serialized(family, "Tokenizer", {**tokenizer})
    if metadata.model != ENCODER.name:
        task, parts = CLASSES[metadata.model], {"backbone": backbone, "preprocessor": None}
        if tokenizer is not None:
            packing = {"tokenizer": files[TOKENIZER], "sequence_length": metadata.max_length}
            files[PREPROCESSOR] = serialized(family, f"{task}Preprocessor", packing)
            parts["preprocessor"] = files[PREPROCESSOR]
        if metadata.labels:
            parts |= {"num_classes": len(metadata.labels), "dropout": config.hidden_dropout_rate}
        files[TASK] = serialized(family, task, parts)
    for name, contents in files.items():
        foreign.write_json(folder / name, contents, indent=4)
    return notes


def check_model(metadata: ModelMetadata, vocabulary: Vocabulary | None) -> None:
    """Raises InputError if KerasHub cannot compute the same outputs, or has no such tokenizer."""
    mapping.check_family(metadata, ANY_FAMILY)
    hub = HUB_FAMILIES[cast(Family, family_of(metadata.config)).kind]
    config, epsilon = metadata.config, metadata.config.layer_norm_epsilon
    backbone = hub.class_name(ENCODER.name)
    # Of a model without a class in KerasHub, only the encoder can be stored.
    model = metadata.model if metadata.model in CLASSES else ENCODER.name
    if config.position_offset and config.num_segments > 1:
        raise InputError(
            f"KerasHub's RoBERTa has no segment embeddings and this model has "
            f"{config.num_segments}; choose another format"
        )
    if hub.has_pooler_in(model) and not config.has_pooler:
        raise InputError(
            f"KerasHub's {backbone} always has a pooler and this model has none; load it with a "
            f'new one, {model}.from_pretrained(..., has_pooler=True, new=("pooler",)), or choose '
            "another format"
        )
    if config.has_pooler and not hub.has_pooler_in(model):
        raise InputError(
            f"KerasHub's {backbone} has no pooler and this model has one; load it without, "
            f"{model}.from_pretrained(..., has_pooler=False), or choose another format"
        )
    if config.activation not in GELU:
        raise InputError(
            f"KerasHub's {backbone} has no activation {config.activation}, only GELU; choose "
            "another format"
        )
    if epsilon > LARGEST_EPSILON:
        raise InputError(
            f"KerasHub's LayerNorm epsilon is {hub.layer_norm_epsilon}; the outputs of a model "
            f"with {epsilon} would differ too much; choose another format"
        )
    if vocabulary is not None and vocabulary.specials != hub.specials:
        raise InputError(
            f"KerasHub's {hub.tokenizer} has the special tokens "
            f"{' '.join(hub.specials.tokens)} and another kind of tokens than this vocabulary; "
            "choose another format"
        )


def _differences(metadata: ModelMetadata, hub: HubFamily) -> tuple[str, ...]:
    config, default = metadata.config, hub.layer_norm_epsilon
    epsilon = config.layer_norm_epsilon
    head = hub.masked_lm_activation, MASKED_LM_EPSILON
    our_head = config.masked_lm_activation or config.activation, config.masked_lm_epsilon or epsilon
    has_head = "masked_lm" in ARCHITECTURES[metadata.model].heads
    notes = {
        GELU[hub.activation]: config.activation != hub.activation,
        f"KerasHub's LayerNorm epsilon is {default}, that of this model is {epsilon}: hidden "
        "states differ by up to 3e-4": epsilon != default,
        f"KerasHub has one dropout rate, {config.hidden_dropout_rate}, but the attention of this "
        f"model has {config.attention_dropout_rate}": (
            config.attention_dropout_rate != config.hidden_dropout_rate
        ),
        MASKED_LM_HEAD.format(*head): has_head and our_head != head,
    }
    return tuple(note for note, is_true in notes.items() if is_true)


def _extra(metadata: ModelMetadata, hub: HubFamily) -> dict[str, Any]:
    """Returns the metadata for which KerasHub's files have no field."""
    rate = metadata.config.hidden_dropout_rate
    defaults = hub.values(metadata.model) | {"attention_dropout_rate": rate}
    values = {name: getattr(metadata.config, name) for name in OPTIONAL_FIELDS}
    changed = {name: value for name, value in values.items() if value != defaults[name]}
    return foreign.stored_fields(metadata) | changed


def object_config(path: Path, classes: Collection[str]) -> tuple[str, dict[str, Any]]:
    """Returns the name and the `config` of a serialized Keras object.

    Raises:
        InputError: The object is not of one of the `classes`.
    """
    contents = json_object(path)
    name, values = contents.get("class_name"), contents.get("config")
    # A list, because a JSON value may be unhashable.
    if name not in [*classes] or not isinstance(values, dict):
        raise InputError(f"{path} describes a {name}; expected KerasHub's {' or '.join(classes)}")
    return str(name), values
