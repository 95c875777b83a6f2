"""Converts models of KerasHub to checkpoints and back; keras_hub reads and writes its own files.

A preset folder is loaded as a model of keras_hub, whose variables are copied. A checkpoint is
written by building the model of keras_hub, assigning its variables and saving it as a preset.
"""

import dataclasses
import functools
import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np
from tokenizers.models import BPE

from bert_keras.architectures import CLASSIFIER, ENCODER, MASKED_LM, class_names
from bert_keras.checkpoints import foreign
from bert_keras.checkpoints.checkpoint import Checkpoint, fitted_vocabulary
from bert_keras.checkpoints.metadata import ModelMetadata, numbered_labels
from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.config import BertConfig
from bert_keras.errors import InputError, check
from bert_keras.families import ALBERT, BERT, DISTILBERT, ROBERTA, family_of
from bert_keras.family import Family
from bert_keras.files import json_object
from bert_keras.text.fast_tokenizer import (
    ALBERT_SPECIALS,
    ROBERTA_SPECIALS,
    is_uncased,
    rules_vocabulary,
)
from bert_keras.text.rules import byte_pair_rules, sentencepiece_rules
from bert_keras.text.sentencepiece_files import sentencepiece_of
from bert_keras.text.vocab import BERT_SPECIALS, Specials, Vocabulary

CLASSES = class_names("keras_hub")  # end of the class name in keras_hub, by our model
# Paths of variables in keras_hub, or of the layers that contain them, and our names. `{}` stands
# for the index of a block.
BLOCK, ATTENTION = "transformer_layer_{}", "transformer_layer_{}/self_attention_layer"
LAYERS = {
    "token_embedding/embeddings": "encoder/embeddings/token",
    "position_embedding/embeddings": "encoder/embeddings/position",
    "segment_embedding/embeddings": "encoder/embeddings/segment",
    "embeddings_layer_norm": "encoder/embeddings/norm",
    "embedding_projection": "encoder/embeddings/projection",
    f"{ATTENTION}/query": "encoder/layer_{}/attention/query",
    f"{ATTENTION}/key": "encoder/layer_{}/attention/key",
    f"{ATTENTION}/value": "encoder/layer_{}/attention/value",
    f"{ATTENTION}/attention_output": "encoder/layer_{}/attention/output",
    f"{BLOCK}/self_attention_layer_norm": "encoder/layer_{}/attention_norm",
    f"{BLOCK}/feedforward_intermediate_dense": "encoder/layer_{}/feed_forward/intermediate",
    f"{BLOCK}/feedforward_output_dense": "encoder/layer_{}/feed_forward/output",
    f"{BLOCK}/feedforward_layer_norm": "encoder/layer_{}/feed_forward_norm",
    "pooled_dense": "encoder/pooler",
    "mlm_head/intermediate_dense": "masked_lm/transform",
    "mlm_head/intermediate_layer_norm": "masked_lm/norm",
    "mlm_head/output_bias": "masked_lm/output_bias",
    "logits": "classification/dense",
}
POSITIONS, SEGMENTS = "encoder/embeddings/position", "encoder/embeddings/segment"
# Arguments of a backbone of keras_hub, and our fields.
SIZES = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_layers",
    "num_heads": "num_heads",
    "hidden_dim": "hidden_size",
    "intermediate_dim": "intermediate_size",
    "dropout": "hidden_dropout_rate",
    "max_sequence_length": "max_positions",
}
# Fields that are no arguments of keras_hub. metadata.json stores those that differ, under a key
# that keras_hub does not read and that is gone when it saves the preset again.
FIXED_FIELDS = (
    *("activation", "layer_norm_epsilon", "attention_dropout_rate", "masked_lm_activation"),
    *("masked_lm_epsilon", "initializer_stddev"),
)
GELUS = {
    "gelu": keras.activations.gelu,
    "gelu_tanh": functools.partial(keras.activations.gelu, approximate=True),
}
TOKENIZER_NOTE = (
    "KerasHub's tokenizer differs from ours for rare characters, spaces and special tokens in texts"
)


@dataclass(frozen=True, kw_only=True)
class HubFamily:
    """The models of one family in keras_hub."""

    family: Family
    specials: Specials = BERT_SPECIALS  # of its tokenizer
    has_pooler: bool = True  # whether the backbone has the pooler, not the classifier
    sizes: Mapping[str, str] = field(default_factory=dict)  # arguments in addition to SIZES
    prefix: tuple[str, str] = ("", "")  # start of some paths, and what LAYERS has there

    def class_name(self, model: str) -> str:
        """Returns the name of the class in keras_hub for our model class `model`."""
        return f"{self.family.class_prefix}{CLASSES[model]}"


HUB_FAMILIES = {
    row.family.kind: row
    for row in (
        HubFamily(family=BERT, sizes={"num_segments": "num_segments"}),
        HubFamily(
            family=DISTILBERT, has_pooler=False, prefix=("token_and_position_embedding/", "")
        ),
        HubFamily(
            family=ALBERT,
            specials=ALBERT_SPECIALS,
            sizes={"num_segments": "num_segments", "embedding_dim": "embedding_size"},
            prefix=("group_0_inner_layer_0/", "transformer_layer_0/"),
        ),
        HubFamily(
            family=ROBERTA,
            specials=ROBERTA_SPECIALS,
            has_pooler=False,
            prefix=("embeddings/", ""),
        ),
    )
}
HUB_CLASSES = {
    row.class_name(model): (row, model) for row in HUB_FAMILIES.values() for model in CLASSES
}


def may_be_preset(path: str | os.PathLike) -> bool:
    """Returns whether `path` is a handle, or no existing path and written like a preset's name."""
    name = os.fspath(path)
    if name.startswith(("hf://", "kaggle://")):
        return True
    is_name = re.fullmatch(r"(albert|bert|distil_bert|roberta)_[a-z0-9_]+", name) is not None
    return is_name and not os.path.exists(name)


def preset_folder(name: str) -> Path | None:
    """Returns the folder of a preset of keras_hub or a handle, which is downloaded on first use.

    A handle "hf://USER/MODEL" may also name a model of transformers. The folder is in the cache of
    huggingface_hub or kagglehub. None if no preset has this name.
    """
    if name.startswith("hf://"):
        from huggingface_hub import snapshot_download

        files = ["*.json", "*.txt", "*.h5", "*.safetensors", "*.model", "*.spm"]
        return Path(snapshot_download(name.removeprefix("hf://"), allow_patterns=files))
    import kagglehub
    import keras_hub

    preset = keras_hub.models.Backbone.presets.get(name)
    handle = preset["kaggle_handle"] if preset else name
    if not handle.startswith("kaggle://"):
        return None
    return Path(kagglehub.model_download(handle.removeprefix("kaggle://")))


def recognises(path: Path) -> bool:
    """Returns whether the folder has a config.json that Keras wrote."""
    config = path / "config.json"
    text = config.read_text("utf-8", "replace") if config.is_file() else ""
    return any(f'"{key}"' in text for key in ("registered_name", "class_name"))


def read(path: Path, *, ignore: Collection[str], pad_vocabulary: bool) -> Checkpoint:
    """Reads a preset; see `formats.Format`. Nothing in it can be ignored."""
    import keras_hub

    task, metadata, extra = path / "task.json", path / "metadata.json", {}
    has_task = task.is_file() and (path / "task.weights.h5").is_file()
    if metadata.is_file():
        extra = json_object(metadata).get(foreign.EXTRA_KEY, {})
        extra = foreign.checked_extra(extra, metadata, others=FIXED_FIELDS)
    check(
        has_task or not extra.get("labels"),
        f"{path} lacks the classifier that {metadata.name} describes; add task.json and "
        f"task.weights.h5, or remove {metadata.name} to read only the encoder",
    )
    name = str(json_object(task if has_task else path / "config.json").get("class_name"))
    name = re.sub("(?<!Text)Classifier$", "TextClassifier", name)  # older presets
    check(name in HUB_CLASSES, f"{path} has a {name}; expected one of {', '.join(HUB_CLASSES)}")
    model = getattr(keras_hub.models, name).from_preset(str(path), dtype="float32")
    preprocessor = getattr(model, "preprocessor", None)
    if preprocessor is None and (path / "tokenizer.json").is_file():
        preprocessor = keras_hub.tokenizers.Tokenizer.from_preset(str(path))
    return checkpoint_of(model, preprocessor, extra=extra, pad_vocabulary=pad_vocabulary)


def checkpoint_of(
    model: Any,
    preprocessor: Any = None,
    *,
    extra: Mapping[str, Any] | None = None,
    pad_vocabulary: bool = False,
) -> Checkpoint:
    """Returns the checkpoint of a model of keras_hub.

    Args:
        model: A backbone, text classifier or masked-LM model of a class in HUB_CLASSES.
        preprocessor: A preprocessor or tokenizer of keras_hub; None without one.
        extra: What a preset stores for this package alone.
        pad_vocabulary: Whether to append unused tokens to a vocabulary that is smaller.

    Raises:
        InputError: The model has other variables than ours, such as a quantized one, or the
            tokenizer has other rules.
    """
    extra = extra or {}
    hub, name = HUB_CLASSES[type(model).__name__]
    config = _config(model)
    changes = {key: value for key, value in extra.items() if key in FIXED_FIELDS}
    vocabulary, lowercase, notes = None, extra.get("lowercase", True), []
    if tokenizer := getattr(preprocessor, "tokenizer", preprocessor):
        vocabulary, lowercase, notes = _vocabulary(tokenizer)
    labels = tuple(extra.get("labels", ()))
    if name == CLASSIFIER.name:
        labels = labels or numbered_labels(model.num_classes)
        if model.activation is not keras.activations.linear:
            name_of = model.activation.__name__
            notes.append(f"KerasHub's classifier returns {name_of} of the logits, ours the logits")
    max_length = getattr(preprocessor, "sequence_length", None) or extra.get("max_length")
    metadata = ModelMetadata(
        model=name,
        config=dataclasses.replace(config, **changes),
        lowercase=lowercase,
        # A preprocessor of keras_hub packs 512 tokens by default, whatever the model has.
        max_length=min(max_length or config.max_positions, config.max_positions),
        labels=labels,
        **foreign.training_fields(extra),
    )
    tensors = {}
    for variable in model.weights:
        weight, shape = _name(variable.path, hub), tuple(variable.shape)
        if "/attention/" in weight:  # its shape has an axis for the heads
            shape = (config.hidden_size,) * (2 if weight.endswith("kernel") else 1)
        tensors[weight] = _stored(variable, shape)
    if offset := config.position_offset:
        zeros = np.zeros((offset, config.hidden_size), np.float32)
        positions = np.concatenate([zeros, tensors[POSITIONS].read()])
        tensors[POSITIONS] = _stored(positions, positions.shape)
        tensors[SEGMENTS] = _stored(zeros[:1], zeros[:1].shape)
    return Checkpoint(
        metadata=metadata,
        tensors=tensors,
        vocabulary=fitted_vocabulary(vocabulary, metadata, pad_vocabulary=pad_vocabulary),
        notes=tuple(notes),
    )


def storable(checkpoint: Checkpoint) -> Checkpoint:
    """Returns a checkpoint of the same outputs that has only values which KerasHub stores.

    KerasHub's RoBERTa has no segment embedding and no positions before `position_offset`. The
    segment embedding, which every token has, is therefore added to each position embedding.
    """
    hub_family(checkpoint.metadata, checkpoint.vocabulary)
    if not (offset := checkpoint.metadata.config.position_offset):
        return checkpoint
    positions = checkpoint.tensors[POSITIONS].read() + checkpoint.tensors[SEGMENTS].read()
    positions[:offset] = 0
    segments = np.zeros_like(positions[:1])
    changed = {
        POSITIONS: _stored(positions, positions.shape),
        SEGMENTS: _stored(segments, segments.shape),
    }
    return dataclasses.replace(checkpoint, tensors={**checkpoint.tensors, **changed})


def write(checkpoint: Checkpoint, folder: Path) -> tuple[str, ...]:
    """Writes a preset; see `formats.Format`."""
    model, notes = hub_model(checkpoint)
    model.save_to_preset(str(folder))
    if checkpoint.vocabulary is not None and checkpoint.metadata.model == ENCODER.name:
        tokenizer = _tokenizer(checkpoint.metadata, checkpoint.vocabulary)
        tokenizer.save_to_preset(str(folder))
    ours, theirs = checkpoint.metadata.config, _config(model)
    extra = foreign.stored_fields(checkpoint.metadata)
    extra |= {
        name: getattr(ours, name)
        for name in FIXED_FIELDS
        if getattr(ours, name) != getattr(theirs, name)
    }
    metadata = folder / "metadata.json"
    foreign.write_json(metadata, json_object(metadata) | {foreign.EXTRA_KEY: extra}, indent=4)
    return notes


def hub_model(checkpoint: Checkpoint) -> tuple[Any, tuple[str, ...]]:
    """Builds the model of keras_hub with the weights of a checkpoint.

    Returns:
        The model, with its preprocessor if it is a task and the checkpoint has a vocabulary; and
        one sentence for each computation that it does differently.

    Raises:
        InputError: keras_hub has no such model.
    """
    import keras_hub

    checkpoint = storable(checkpoint)
    metadata, config = checkpoint.metadata, checkpoint.metadata.config
    hub, name = hub_family(metadata, checkpoint.vocabulary), metadata.model
    sizes = {key: getattr(config, ours) for key, ours in {**SIZES, **hub.sizes}.items()}
    backbone = getattr(keras_hub.models, hub.class_name(ENCODER.name))
    model = backbone(**sizes, dtype="float32")
    if name != ENCODER.name:
        options: dict[str, Any] = {"preprocessor": None}
        if checkpoint.vocabulary is not None:
            preprocessor = getattr(keras_hub.models, f"{hub.class_name(name)}Preprocessor")
            options["preprocessor"] = preprocessor(
                _tokenizer(metadata, checkpoint.vocabulary), sequence_length=metadata.max_length
            )
        if metadata.labels:
            options |= {"num_classes": len(metadata.labels), "dropout": config.hidden_dropout_rate}
        model = getattr(keras_hub.models, hub.class_name(name))(model, **options)
    for variable in model.weights:
        array = checkpoint.tensors[weight := _name(variable.path, hub)].read()
        array = array[config.position_offset :] if weight == POSITIONS else array
        variable.assign(array.reshape(variable.shape))
    theirs = _computation(_config(model), name)
    notes = [
        f"the {field} of KerasHub's model is {theirs[field]}, that of this model is {value}"
        for field, value in _computation(config, name).items()
        if value != theirs[field]
    ]
    return model, (*notes, *([TOKENIZER_NOTE] if checkpoint.vocabulary is not None else []))


def set_computation(model: Any, config: BertConfig) -> None:
    """Gives a model of keras_hub the GELU and the LayerNorm epsilons of a configuration."""
    backbone, values = getattr(model, "backbone", model), _computation(config, MASKED_LM.name)
    norms = [backbone.embeddings_layer_norm]
    for block in keras.tree.flatten(backbone.transformer_layers):
        norms += [block._self_attention_layer_norm, block._feedforward_layer_norm]
        block.activation = GELUS[config.activation]
        block._feedforward_intermediate_dense.activation = block.activation
    for norm in norms:
        norm.epsilon = config.layer_norm_epsilon
    if (head := getattr(model, "masked_lm_head", None)) is not None:
        head.intermediate_activation = GELUS[values["masked_lm_activation"]]
        head.layer_norm_epsilon = values["masked_lm_epsilon"]
        head._intermediate_dense.activation = head.intermediate_activation
        head._intermediate_layer_norm.epsilon = head.layer_norm_epsilon


def hub_family(metadata: ModelMetadata, vocabulary: Vocabulary | None) -> HubFamily:
    """Returns the family of a model in keras_hub.

    Raises:
        InputError: keras_hub has no class with such weights, or none with such a tokenizer.
    """
    config, model = metadata.config, metadata.model
    family = family_of(config, vocabulary)
    hub = HUB_FAMILIES.get(family.kind if family else "")
    if hub is None or model not in CLASSES or config.activation not in GELUS:
        raise InputError(
            f"KerasHub has no {model} of {family.kind if family else 'this kind of encoder'} with "
            f"the activation {config.activation}; choose another format, or write only the "
            f"encoder: bert-keras convert SRC DST --to keras-hub --model {ENCODER.name}"
        )
    has_pooler = hub.has_pooler or model == CLASSIFIER.name
    new = ", new=('pooler',)" if has_pooler else ""
    check(
        config.has_pooler == has_pooler,
        f"KerasHub's {hub.class_name(model)} has {'a' if has_pooler else 'no'} pooler; load this "
        f"model with has_pooler={has_pooler}{new}, or choose another format",
    )
    check(
        config.num_segments < 2 or "num_segments" in hub.sizes,
        f"KerasHub's {hub.class_name(model)} has no segments and this model has "
        f"{config.num_segments}; choose another format",
    )
    check(
        vocabulary is None or vocabulary.specials == hub.specials,
        f"KerasHub's tokenizer of a {hub.class_name(model)} has the special tokens "
        f"{' '.join(hub.specials.tokens)}, unlike this vocabulary; choose another format",
    )
    return hub


def _config(model: Any) -> BertConfig:
    """Returns the configuration of a model of keras_hub."""
    hub, name = HUB_CLASSES[type(model).__name__]
    backbone = getattr(model, "backbone", model)
    values, block = backbone.get_config(), keras.tree.flatten(backbone.transformer_layers)[0]
    fields = {ours: values[key] for key, ours in {**SIZES, **hub.sizes}.items()}
    fields |= {
        "num_segments": fields.get("num_segments", int(hub.family is ROBERTA)),
        "attention_dropout_rate": values["dropout"],
        "has_pooler": hub.has_pooler or name == CLASSIFIER.name,
        **hub.family.traits,
        "activation": _gelu_name(block.activation),
        "layer_norm_epsilon": backbone.embeddings_layer_norm.epsilon,
    }
    if name == MASKED_LM.name:
        head = model.masked_lm_head
        activation, epsilon = _gelu_name(head.intermediate_activation), head.layer_norm_epsilon
        fields["masked_lm_activation"] = "" if activation == fields["activation"] else activation
        fields["masked_lm_epsilon"] = 0.0 if epsilon == fields["layer_norm_epsilon"] else epsilon
    return BertConfig(**fields)


def _gelu_name(activation: Any) -> str:
    return "gelu" if activation is keras.activations.gelu else "gelu_tanh"


def _computation(config: BertConfig, model: str) -> dict[str, Any]:
    """Returns the fields of FIXED_FIELDS that decide what a model of our class `model` computes."""
    values = {key: getattr(config, key) for key in FIXED_FIELDS[:3]}
    if model == MASKED_LM.name:
        values["masked_lm_activation"] = config.masked_lm_activation or config.activation
        values["masked_lm_epsilon"] = config.masked_lm_epsilon or config.layer_norm_epsilon
    return values


def _name(path: str, hub: HubFamily) -> str:
    """Returns our name of the variable of keras_hub at `path`."""
    old, new = hub.prefix
    path = re.sub(f"^{old}", new, path)
    index = "".join(re.findall(r"^transformer_layer_(\d+)/", path))
    path = re.sub(r"^(transformer_layer_)\d+/", r"\1{}/", path)
    layer, _, weight = path.rpartition("/")
    if path in LAYERS:
        return LAYERS[path]
    check(
        layer in LAYERS and weight in ("kernel", "bias", "gamma", "beta"),
        f"a model of KerasHub has the variable {path}, for which bert_keras has none; expected a "
        "model without quantization, LoRA and groups of layers",
    )
    return f"{LAYERS[layer].format(index)}/{weight}"


def _stored(values: Any, shape: tuple[int, ...]) -> StoredTensor:
    def read() -> np.ndarray:
        return np.asarray(keras.ops.convert_to_numpy(values), np.float32).reshape(shape)

    return StoredTensor(shape, read)


def _vocabulary(tokenizer: Any) -> tuple[Vocabulary, bool, list[str]]:
    """Returns the vocabulary of a tokenizer, whether it lower-cases text, and notes."""
    if proto := getattr(tokenizer, "proto", None):
        from sentencepiece import sentencepiece_model_pb2 as protobuf

        # The type checker does not find the class, which protobuf creates on import.
        model = protobuf.ModelProto.FromString(proto)  # pyright: ignore[reportAttributeAccessIssue]
        vocabulary = rules_vocabulary(sentencepiece_rules(model))
        return vocabulary, is_uncased(vocabulary), []
    values = tokenizer.get_config()
    if merges := getattr(tokenizer, "merges", None):
        lines = [merge for merge in merges if not merge.startswith("#version:")]
        model = BPE(dict(tokenizer.vocabulary), [tuple(line.split(" ")) for line in lines])
        is_prefixed = bool(values.get("add_prefix_space"))
        return rules_vocabulary(byte_pair_rules(model, prefixed=is_prefixed)), False, []
    for key, expected in {"split": True, "suffix_indicator": "##", "oov_token": "[UNK]"}.items():
        check(
            values[key] == expected,
            f"the tokenizer of KerasHub has {key}={values[key]!r}; expected {expected!r}",
        )
    lowercase, strips, notes = values["lowercase"], values["strip_accents"], []
    if lowercase != strips:
        theirs, ours = ("strips", "keeps") if strips else ("keeps", "strips")
        notes.append(f"KerasHub's tokenizer {theirs} accents; ours {ours} them, as BERT's does")
    return Vocabulary(tuple(tokenizer.vocabulary)), lowercase, notes


def _tokenizer(metadata: ModelMetadata, vocabulary: Vocabulary) -> Any:
    """Returns the tokenizer of keras_hub for a model with a vocabulary."""
    import keras_hub

    prefix = hub_family(metadata, vocabulary).family.class_prefix
    tokenizer = getattr(keras_hub.models, f"{prefix}Tokenizer")
    if not vocabulary.rules:
        # With lowercase alone KerasHub keeps accents; BERT's tokenizer strips them.
        case = {"lowercase": metadata.lowercase, "strip_accents": metadata.lowercase}
        return tokenizer(list(vocabulary.tokens), **case)
    rules = json.loads(vocabulary.rules)
    if rules["model"]["type"] == "BPE":
        merges = [" ".join(pair) for pair in rules["model"]["merges"]]
        is_prefixed = rules["pre_tokenizer"]["add_prefix_space"]
        return tokenizer(dict(vocabulary.ids), merges, add_prefix_space=is_prefixed)
    return tokenizer(sentencepiece_of(vocabulary).SerializeToString())
