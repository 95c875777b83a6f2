"""Converts models of KerasHub to checkpoints and back; keras_hub reads and writes its own files.

A preset folder is loaded as a model of keras_hub, whose variables are copied. A checkpoint is
written by building the model of keras_hub, assigning its variables and saving it as a preset.
"""

import dataclasses
import functools
import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast

import keras
import numpy as np
from tokenizers.models import BPE

from bert_keras.checkpoints.checkpoint import EXTRA_KEY, Checkpoint, extra_values, with_extra
from bert_keras.checkpoints.pretrained import build_model, checkpoint_of_model
from bert_keras.checkpoints.tensors import StoredTensor, of_array
from bert_keras.config import BertConfig, ModelMetadata, numbered_labels
from bert_keras.errors import InputError, check, check_name, require
from bert_keras.families import FAMILIES, family_of
from bert_keras.families.family import Family, KerasHub
from bert_keras.files import json_object, write_json
from bert_keras.models import MODELS
from bert_keras.models.pretrained import Pretrained
from bert_keras.text.fast_tokenizer import is_uncased, rules_vocabulary
from bert_keras.text.rules import byte_pair_rules, sentencepiece_rules
from bert_keras.text.vocab import Vocabulary

# Ends of the class names in keras_hub, by our model classes.
CLASSES = {
    "BertEncoder": "Backbone",
    "BertMaskedLM": "MaskedLM",
    "BertClassifier": "TextClassifier",
}
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
# Fields that are no arguments of keras_hub. metadata.json stores those that differ under EXTRA_KEY,
# which keras_hub omits when it saves the preset again.
FIXED_FIELDS = (
    *("activation", "layer_norm_epsilon", "attention_dropout_rate", "masked_lm_activation"),
    *("masked_lm_epsilon", "initializer_stddev"),
)
_GELU_TANH = functools.partial(keras.activations.gelu, approximate=True)
GELUS = {"gelu": keras.activations.gelu, "gelu_tanh": _GELU_TANH, "gelu_new": _GELU_TANH}
TOKENIZER_NOTE = (
    "KerasHub's tokenizer differs from ours for rare characters, spaces and special tokens in texts"
)
HUB_FAMILIES = {kind: family for kind, family in FAMILIES.items() if family.keras_hub}
HUB_CLASSES = {
    f"{family.class_prefix}{end}": (family, model)
    for family in HUB_FAMILIES.values()
    for model, end in CLASSES.items()
}


def recognises(path: Path) -> bool:
    """Returns whether the folder has a config.json that Keras wrote."""
    config = path / "config.json"
    return config.is_file() and '"class_name"' in config.read_text("utf-8", "replace")


def read(path: Path, *, ignore: Collection[str]) -> Checkpoint:
    """Reads a preset; see `formats.FORMATS`. Nothing in it can be ignored."""
    require("keras_hub", what="a preset of KerasHub")
    import keras_hub

    task, metadata, extra = path / "task.json", path / "metadata.json", {}
    has_task = task.is_file() and (path / "task.weights.h5").is_file()
    if metadata.is_file():
        extra = json_object(metadata).get(EXTRA_KEY, {})
    name = str(json_object(task if has_task else path / "config.json").get("class_name"))
    name = re.sub("(?<!Text)Classifier$", "TextClassifier", name)  # older presets
    check_name(name, HUB_CLASSES, what=f"model of {path}")
    model = getattr(keras_hub.models, name).from_preset(str(path), dtype="float32")
    preprocessor = getattr(model, "preprocessor", None)
    if preprocessor is None and (path / "tokenizer.json").is_file():
        preprocessor = keras_hub.tokenizers.Tokenizer.from_preset(str(path))
    return checkpoint_of(model, preprocessor, extra=extra)


def checkpoint_of(
    model: Any, preprocessor: Any = None, *, extra: Mapping[str, Any] | None = None
) -> Checkpoint:
    """Returns the checkpoint of a model of keras_hub and its preprocessor or tokenizer."""
    extra = dict(extra or {})
    family, name = HUB_CLASSES[type(model).__name__]
    config = _config(model)
    changes = {key: value for key, value in extra.items() if key in FIXED_FIELDS}
    vocabulary, lowercase, notes = None, True, []
    if tokenizer := getattr(preprocessor, "tokenizer", preprocessor):
        vocabulary, lowercase, notes = _vocabulary(tokenizer)
    labels = ()
    if name == "BertClassifier":
        labels = numbered_labels(model.num_classes)
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
    )
    if vocabulary is not None:
        extra.pop("lowercase", None)
    if preprocessor is not None:
        extra.pop("max_length", None)
    tensors = {}
    for variable in model.weights:
        weight, shape = _name(variable.path, family), tuple(variable.shape)
        if "/attention/" in weight:  # its shape has an axis for the heads
            shape = (config.hidden_size,) * (2 if weight.endswith("kernel") else 1)
        tensors[weight] = _stored(variable, shape)
    if offset := config.position_offset:
        zeros = np.zeros((offset, config.hidden_size), np.float32)
        positions = np.concatenate([zeros, tensors[POSITIONS].read()])
        tensors[POSITIONS] = _stored(positions, positions.shape)
        tensors[SEGMENTS] = _stored(zeros[:1], zeros[:1].shape)
    return Checkpoint(
        metadata=with_extra(metadata, extra),
        tensors=tensors,
        vocabulary=vocabulary,
        notes=tuple(notes),
    )


def write(checkpoint: Checkpoint, folder: Path) -> tuple[str, ...]:
    """Writes a preset; see `formats.FORMATS`."""
    model, notes = hub_model(checkpoint)
    model.save_to_preset(str(folder))
    if checkpoint.vocabulary is not None and checkpoint.metadata.model == "BertEncoder":
        tokenizer = _tokenizer(checkpoint.metadata, checkpoint.vocabulary)
        tokenizer.save_to_preset(str(folder))
    config, metadata = checkpoint.metadata.config, folder / "metadata.json"
    changes = {name: getattr(config, name) for name in _differences(config, model)}
    extra = {EXTRA_KEY: extra_values(checkpoint.metadata) | changes}
    write_json(metadata, json_object(metadata) | extra)
    return notes


def hub_model(checkpoint: Checkpoint) -> tuple[Any, tuple[str, ...]]:
    """Returns the model of keras_hub with the weights of a checkpoint, and how it differs.

    A task has its preprocessor if the checkpoint has a vocabulary.
    """
    require("keras_hub", what="a model of KerasHub")
    import keras_hub

    metadata, config = checkpoint.metadata, checkpoint.metadata.config
    family, name = hub_family(metadata, checkpoint.vocabulary), metadata.model
    arguments = {**SIZES, **_hub(family).sizes}
    sizes = {key: getattr(config, ours) for key, ours in arguments.items()}
    prefix = family.class_prefix
    backbone = getattr(keras_hub.models, f"{prefix}Backbone")
    model = backbone(**sizes, dtype="float32")
    if name != "BertEncoder":
        options: dict[str, Any] = {"preprocessor": None}
        if checkpoint.vocabulary is not None:
            preprocessor = getattr(keras_hub.models, f"{prefix}{CLASSES[name]}Preprocessor")
            options["preprocessor"] = preprocessor(
                _tokenizer(metadata, checkpoint.vocabulary), sequence_length=metadata.max_length
            )
        if metadata.labels:
            options |= {"num_classes": len(metadata.labels), "dropout": config.hidden_dropout_rate}
        model = getattr(keras_hub.models, f"{prefix}{CLASSES[name]}")(model, **options)
    for variable in model.weights:
        array = checkpoint.tensors[weight := _name(variable.path, family)].read()
        if weight == POSITIONS and config.position_offset:
            # RoBERTa's segment embedding, which every token has, is added to each position.
            array = (array + checkpoint.tensors[SEGMENTS].read())[config.position_offset :]
        variable.assign(array.reshape(variable.shape))
    notes = [
        f"the {field} of KerasHub's model is {theirs!r}, that of this model is "
        f"{getattr(config, field)!r}"
        for field, theirs in _differences(config, model).items()
        if field != "initializer_stddev"
    ]
    return model, (*notes, *([TOKENIZER_NOTE] if checkpoint.vocabulary is not None else []))


def hub_family(metadata: ModelMetadata, vocabulary: Vocabulary | None) -> Family:
    """Returns the family of a model in keras_hub; raises InputError if keras_hub has none."""
    config, model = metadata.config, metadata.model
    family = family_of(config, vocabulary)
    hub = family.keras_hub if family else None
    if family is None or hub is None or model not in CLASSES or config.activation not in GELUS:
        raise InputError(
            f"KerasHub has no {model} of {family.kind if family else 'this kind of encoder'} with "
            f"the activation {config.activation}; choose another format, or write only the "
            "encoder: bert-keras convert MODEL NEW_FOLDER --format keras-hub --model-class "
            "BertEncoder"
        )
    has_pooler = hub.has_pooler or model == "BertClassifier"
    has_segments, specials = "num_segments" in hub.sizes, family.specials
    for name, theirs, is_equal in (
        ("has_pooler", has_pooler, config.has_pooler == has_pooler),
        ("segments", "none", has_segments or config.num_segments < 2),
        ("special tokens", specials.tokens, not vocabulary or vocabulary.specials == specials),
    ):
        check(
            is_equal,
            f"KerasHub's {family.class_prefix}{CLASSES[model]} differs from this model in {name}: "
            f"{theirs}; choose another format, or load the model with other values",
        )
    return family


def _hub(family: Family) -> KerasHub:
    return cast(KerasHub, family.keras_hub)


def _config(model: Any) -> BertConfig:
    """Returns the configuration of a model of keras_hub."""
    family, name = HUB_CLASSES[type(model).__name__]
    backbone = getattr(model, "backbone", model)
    values, block = backbone.get_config(), keras.tree.flatten(backbone.transformer_layers)[0]
    fields = {ours: values[key] for key, ours in {**SIZES, **_hub(family).sizes}.items()}
    fields |= {
        "num_segments": fields.get("num_segments", int("num_segments" in family.sizes)),
        "attention_dropout_rate": values["dropout"],
        "has_pooler": _hub(family).has_pooler or name == "BertClassifier",
        **family.traits,
        "activation": _gelu_name(block.activation),
        "layer_norm_epsilon": backbone.embeddings_layer_norm.epsilon,
    }
    if name == "BertMaskedLM":
        head = model.masked_lm_head
        activation, epsilon = _gelu_name(head.intermediate_activation), head.layer_norm_epsilon
        fields["masked_lm_activation"] = "" if activation == fields["activation"] else activation
        fields["masked_lm_epsilon"] = 0.0 if epsilon == fields["layer_norm_epsilon"] else epsilon
    return BertConfig(**fields)


def _gelu_name(activation: Any) -> str:
    return "gelu" if activation is keras.activations.gelu else "gelu_tanh"


def _differences(config: BertConfig, model: Any) -> dict[str, Any]:
    """Returns the fields of FIXED_FIELDS with other values in a model of keras_hub, and these."""
    theirs = _config(model)
    values = {name: getattr(theirs, name) for name in FIXED_FIELDS}
    return {name: value for name, value in values.items() if value != getattr(config, name)}


def _name(path: str, family: Family) -> str:
    """Returns our name of the variable of keras_hub at `path`."""
    old, new = _hub(family).prefix
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
    def array() -> np.ndarray:
        return np.asarray(keras.ops.convert_to_numpy(values), np.float32).reshape(shape)

    return of_array(shape, array)


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

    prefix = hub_family(metadata, vocabulary).class_prefix
    tokenizer = getattr(keras_hub.models, f"{prefix}Tokenizer")
    if not vocabulary.rules:
        # With lowercase alone KerasHub keeps accents; BERT's tokenizer strips them.
        case = {"lowercase": metadata.lowercase, "strip_accents": metadata.lowercase}
        return tokenizer(list(vocabulary.tokens), **case)
    rules = json.loads(vocabulary.rules)
    check(
        rules["model"]["type"] == "BPE",
        "bert_keras writes no SentencePiece file for the tokenizer of KerasHub's ALBERT; convert "
        "the model without its tokenizer (model.tokenizer = None) and give KerasHub the "
        "spiece.model of the checkpoint",
    )
    merges = [" ".join(pair) for pair in rules["model"]["merges"]]
    is_prefixed = rules["pre_tokenizer"]["add_prefix_space"]
    return tokenizer(dict(vocabulary.ids), merges, add_prefix_space=is_prefixed)


def from_keras_hub(model: keras.Model, *, preprocessor: Any = None) -> Pretrained:
    """Converts a model of keras_hub to the model of this package with the same outputs.

    Args:
        model: A backbone, text classifier or masked-LM model of BERT, RoBERTa, ALBERT or
            DistilBERT, such as a `keras_hub.models.BertTextClassifier`.
        preprocessor: A preprocessor or tokenizer of keras_hub; None takes that of a task model. A
            backbone has none.

    Returns:
        A `BertEncoder`, `BertClassifier` or `BertMaskedLM` with the weights, the tokenizer and the
        maximum length. The classifier returns logits, also if that of keras_hub has an activation.

    Raises:
        InputError: `model` is of another class, is quantized, or has a tokenizer of other rules.

    Example:

    ```python
    import keras_hub

    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=4_000, num_layers=2, num_heads=2, hidden_dim=128, intermediate_dim=512
    )
    encoder = from_keras_hub(backbone)
    ```
    """
    name = type(model).__name__
    check_name(name, HUB_CLASSES, what="counterpart in bert_keras")
    checkpoint = checkpoint_of(model, preprocessor or getattr(model, "preprocessor", None))
    converted = build_model(
        MODELS[checkpoint.metadata.model],
        checkpoint,
        metadata=checkpoint.metadata,
        source=f"keras_hub's {name}",
    )
    print(converted.load_report)
    return converted


def to_keras_hub(model: Pretrained) -> Any:
    """Converts a model of this package to the model of keras_hub with the same outputs.

    The model of keras_hub gets our form of GELU and our LayerNorm epsilon. Its own files cannot
    state these; the function prints what changes if keras_hub saves the model and loads it again.

    Args:
        model: A `BertEncoder`, `BertClassifier` or `BertMaskedLM` of one of the families BERT,
            RoBERTa, ALBERT and DistilBERT.

    Returns:
        A model of `keras_hub.models`: a backbone, or a text classifier or masked-LM model with its
        preprocessor if `model` has a tokenizer.

    Raises:
        InputError: keras_hub has no model of this kind.

    Example:

    ```python
    classifier = to_keras_hub(BertClassifier.from_pretrained("film-critic"))
    probabilities = classifier.predict(["a good film"])
    ```
    """
    check_name(type(model).__name__, CLASSES, what="counterpart in keras_hub")
    if not model.built:
        model.build()
    tokenizer = model.tokenizer
    checkpoint = checkpoint_of_model(
        model,
        metadata=model.stored_metadata(tokenizer),
        vocabulary=None if tokenizer is None else tokenizer.vocabulary,
    )
    converted, notes = hub_model(checkpoint)
    config, backbone = model.config, getattr(converted, "backbone", converted)
    norms = [backbone.embeddings_layer_norm]
    for block in keras.tree.flatten(backbone.transformer_layers):
        norms += [block._self_attention_layer_norm, block._feedforward_layer_norm]
        block.activation = GELUS[config.activation]
        block._feedforward_intermediate_dense.activation = block.activation
    for norm in norms:
        norm.epsilon = config.layer_norm_epsilon
    if (head := getattr(converted, "masked_lm_head", None)) is not None:
        head.intermediate_activation = GELUS[config.masked_lm_activation or config.activation]
        head.layer_norm_epsilon = config.masked_lm_epsilon or config.layer_norm_epsilon
        head._intermediate_dense.activation = head.intermediate_activation
        head._intermediate_layer_norm.epsilon = head.layer_norm_epsilon
    for note in notes:
        print(f"{'note':<12}after keras_hub saves and loads the model: {note}")
    return converted
