"""Converts models of KerasHub to checkpoints."""

import re
from typing import Any, cast

import keras
import numpy as np
from tokenizers.models import BPE

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.huggingface.config import check_fixed
from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.config import BertConfig, ModelMetadata, numbered_labels
from bert_keras.errors import InputError
from bert_keras.families import FAMILIES
from bert_keras.families.family import Family, KerasHub
from bert_keras.kinds.known import KINDS
from bert_keras.text import fast_tokenizer
from bert_keras.text.fast_tokenizer import byte_pair_rules, rules_vocabulary, sentencepiece_rules
from bert_keras.text.vocab import Vocabulary

# Paths of variables or layers in keras_hub -> our names. `{}` stands for the index of a block.
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
# Arguments of a backbone of keras_hub -> our fields
SIZES = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_layers",
    "num_heads": "num_heads",
    "hidden_dim": "hidden_size",
    "intermediate_dim": "intermediate_size",
    "dropout": "hidden_dropout_rate",
    "max_sequence_length": "max_positions",
}
HUB_FAMILIES = {kind: family for kind, family in FAMILIES.items() if family.keras_hub}
HUB_CLASSES = {
    f"{family.class_prefix}{kind.keras_hub_class}": (family, model)
    for family in HUB_FAMILIES.values()
    for model, kind in KINDS.items()
    if kind.keras_hub_class
}


def checkpoint_of(model: Any, preprocessor: Any = None) -> Checkpoint:
    """Converts a model of keras_hub and its preprocessor or tokenizer to a checkpoint."""
    family, name = HUB_CLASSES[type(model).__name__]
    config = _read_config(model)
    vocabulary, lowercase, notes, labels = None, True, [], ()
    if tokenizer := getattr(preprocessor, "tokenizer", preprocessor):
        vocabulary, lowercase, notes = _read_vocabulary(tokenizer)
    if name == "BertClassifier":
        labels = numbered_labels(model.num_classes)
        if model.activation is not keras.activations.linear:
            function = model.activation.__name__
            notes.append(f"KerasHub's classifier returns {function} of the logits, ours the logits")
    max_length = getattr(preprocessor, "sequence_length", None) or config.max_positions
    metadata = ModelMetadata(
        model=name,
        config=config,
        lowercase=lowercase,
        # A preprocessor of keras_hub packs 512 tokens by default, even if the model has fewer.
        max_length=min(max_length, config.max_positions),
        labels=labels,
    )
    tensors = {}
    for variable in model.weights:
        weight, shape = _our_name(variable.path, family), tuple(variable.shape)
        if "/attention/" in weight:  # keras_hub's shape has an axis for the heads
            shape = (config.hidden_size,) * (2 if weight.endswith("kernel") else 1)
        tensors[weight] = _defer(variable, shape)
    if offset := config.position_offset:
        zeros = np.zeros((offset, config.hidden_size), np.float32)
        positions = np.concatenate([zeros, tensors[POSITIONS].read()])
        tensors |= {POSITIONS: _defer(positions, positions.shape)}
        tensors |= {SEGMENTS: _defer(zeros[:1], zeros[:1].shape)}
    return Checkpoint(metadata=metadata, tensors=tensors, vocabulary=vocabulary, notes=tuple(notes))


def _read_config(model: Any) -> BertConfig:
    """Returns the configuration of a model of keras_hub."""
    family, name = HUB_CLASSES[type(model).__name__]
    backbone = getattr(model, "backbone", model)
    values, block = backbone.get_config(), keras.tree.flatten(backbone.transformer_layers)[0]
    hub = cast(KerasHub, family.keras_hub)
    fields = {ours: values[key] for key, ours in {**SIZES, **hub.sizes}.items()}
    fields |= {
        "num_segments": fields.get("num_segments", int("num_segments" in family.sizes)),
        "attention_dropout_rate": values["dropout"],
        "has_pooler": hub.has_pooler or name == "BertClassifier",
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


def _our_name(path: str, family: Family) -> str:
    """Returns our name of the variable of keras_hub at `path`."""
    old, new = cast(KerasHub, family.keras_hub).prefix
    path = re.sub(f"^{old}", new, path)
    index = "".join(re.findall(r"^transformer_layer_(\d+)/", path))
    path = re.sub(r"^(transformer_layer_)\d+/", r"\1{}/", path)
    layer, _, weight = path.rpartition("/")
    if path in LAYERS:
        return LAYERS[path]
    if layer not in LAYERS or weight not in ("kernel", "bias", "gamma", "beta"):
        raise InputError(f"{path} is not a variable of a model without quantization and LoRA")
    return f"{LAYERS[layer].format(index)}/{weight}"


def _defer(values: Any, shape: tuple[int, ...]) -> StoredTensor:
    def convert() -> np.ndarray:
        return np.asarray(keras.ops.convert_to_numpy(values), np.float32).reshape(shape)

    return StoredTensor(shape, convert)


def _read_vocabulary(tokenizer: Any) -> tuple[Vocabulary, bool, list[str]]:
    """Returns the vocabulary of a tokenizer, whether it lower-cases text, and notes."""
    if proto := getattr(tokenizer, "proto", None):
        model = fast_tokenizer.sentencepiece_proto(proto)
        vocabulary = rules_vocabulary(sentencepiece_rules(model))
        return vocabulary, fast_tokenizer.is_uncased(vocabulary), []
    values = tokenizer.get_config()
    if merges := getattr(tokenizer, "merges", None):
        lines = [merge for merge in merges if not merge.startswith("#version:")]
        model = BPE(dict(tokenizer.vocabulary), [tuple(line.split(" ")) for line in lines])
        is_prefixed = bool(values.get("add_prefix_space"))
        return rules_vocabulary(byte_pair_rules(model, prefixed=is_prefixed)), False, []
    fixed = {"split": True, "suffix_indicator": "##", "oov_token": "[UNK]"}
    check_fixed(values, fixed, file="the tokenizer of KerasHub")
    lowercase, strips, notes = values["lowercase"], values["strip_accents"], []
    if lowercase != strips:
        theirs, ours = ("strips", "keeps") if strips else ("keeps", "strips")
        notes.append(f"KerasHub's tokenizer {theirs} accents; ours {ours} them, as BERT's does")
    return Vocabulary(tuple(tokenizer.vocabulary)), lowercase, notes
