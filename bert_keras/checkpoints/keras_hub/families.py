"""Describes how KerasHub represents the encoders of each family.

Source: the backbones and tasks of keras_hub 0.32, and the files that they save.
"""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bert_keras.architectures import CLASSIFIER, MASKED_LM, class_names
from bert_keras.checkpoints import mapping
from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.checkpoints.weight_rows import WeightRow
from bert_keras.families import ALBERT, BERT, DISTILBERT, ROBERTA
from bert_keras.family import Family
from bert_keras.text.fast_tokenizer import ALBERT_SPECIALS, ROBERTA_SPECIALS
from bert_keras.text.vocab import BERT_SPECIALS, Specials

WEIGHTS, TASK_WEIGHTS = "model.weights.h5", "task.weights.h5"
CLASSES = class_names("keras_hub")
# Paths of our layers and weights in KerasHub's files, which identify a layer by its class and its
# index among the layers of that class, and a weight by its index in the layer.
BLOCK = "encoder/layer_{}"
HUB_LAYERS = f"{WEIGHTS}/layers"
HUB_BLOCK = f"{HUB_LAYERS}/transformer_encoder_{{}}"
HUB_ATTENTION = f"{HUB_BLOCK}/_self_attention_layer"
MASKED_LM_HEAD = f"{TASK_WEIGHTS}/layers/masked_lm_head"
CLASSIFIER_HEAD = f"{TASK_WEIGHTS}/layers/dense"
TOKEN_AND_POSITION = f"{HUB_LAYERS}/token_and_position_embedding"
LAYERS = {
    "encoder/embeddings/token": f"{HUB_LAYERS}/reversible_embedding/vars/0",
    "encoder/embeddings/position": f"{HUB_LAYERS}/position_embedding/vars/0",
    "encoder/embeddings/segment": f"{HUB_LAYERS}/embedding/vars/0",
    "encoder/embeddings/norm": f"{HUB_LAYERS}/layer_normalization",
    f"{BLOCK}/attention/query": f"{HUB_ATTENTION}/query_dense",
    f"{BLOCK}/attention/key": f"{HUB_ATTENTION}/key_dense",
    f"{BLOCK}/attention/value": f"{HUB_ATTENTION}/value_dense",
    f"{BLOCK}/attention/output": f"{HUB_ATTENTION}/output_dense",
    f"{BLOCK}/attention_norm": f"{HUB_BLOCK}/_self_attention_layer_norm",
    f"{BLOCK}/feed_forward/intermediate": f"{HUB_BLOCK}/_feedforward_intermediate_dense",
    f"{BLOCK}/feed_forward/output": f"{HUB_BLOCK}/_feedforward_output_dense",
    f"{BLOCK}/feed_forward_norm": f"{HUB_BLOCK}/_feedforward_layer_norm",
    "encoder/pooler": f"{HUB_LAYERS}/dense",
    "masked_lm/transform": f"{MASKED_LM_HEAD}/_intermediate_dense",
    "masked_lm/norm": f"{MASKED_LM_HEAD}/_intermediate_layer_norm",
    "masked_lm/output_bias": f"{MASKED_LM_HEAD}/vars/0",
    "classification/dense": CLASSIFIER_HEAD,
}
SUFFIXES = {"kernel": "/vars/0", "bias": "/vars/1", "gamma": "/vars/0", "beta": "/vars/1"}
# The paths of families whose backbone has no segment embeddings and no pooler.
SMALL_BACKBONE = {
    "encoder/embeddings/token": f"{TOKEN_AND_POSITION}/token_embedding/vars/0",
    "encoder/embeddings/position": f"{TOKEN_AND_POSITION}/position_embedding/vars/0",
    "encoder/embeddings/segment": "",
    "encoder/pooler": CLASSIFIER_HEAD,
    "classification/dense": f"{CLASSIFIER_HEAD}_1",
}
# KerasHub's names of hyperparameters, and ours.
HYPERPARAMETERS = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_layers",
    "num_heads": "num_heads",
    "hidden_dim": "hidden_size",
    "intermediate_dim": "intermediate_size",
    "dropout": "hidden_dropout_rate",
    "max_sequence_length": "max_positions",
}
MASKED_LM_EPSILON = 1e-5  # in the head of every masked-LM model


@dataclass(frozen=True, kw_only=True)
class HubFamily:
    """The encoders of one family as KerasHub computes and stores them."""

    family: Family
    specials: Specials = BERT_SPECIALS  # of every tokenizer
    activation: str  # of every backbone
    layer_norm_epsilon: float = 1e-12  # of every backbone
    masked_lm_activation: str = "gelu"  # of the head of every masked-LM model
    has_pooler: bool = True  # whether the backbone has the pooler, not the classifier
    # Hyperparameters in addition to HYPERPARAMETERS.
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    # Keys of config.json of which only one value is supported, and that value.
    fixed_values: Mapping[str, Any] = field(default_factory=dict)
    layers: Mapping[str, str] = field(default_factory=dict)  # paths that differ from LAYERS
    # Values of BertConfig that describe the shapes of the stored weights, where they differ.
    stored: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fields(self) -> dict[str, str]:
        """Our names of all hyperparameters, by KerasHub's names."""
        return HYPERPARAMETERS | {**self.hyperparameters}

    def class_name(self, model: str) -> str:
        """Returns the name of the class in keras_hub for our model class `model`."""
        return f"{self.family.class_prefix}{CLASSES[model]}"

    def values(self, model: str) -> dict[str, Any]:
        """Returns the values of BertConfig fields that every model of a class has in KerasHub."""
        values = {
            "activation": self.activation,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_stddev": 0.02,
            "masked_lm_activation": "",
            "masked_lm_epsilon": 0.0,
        }
        if model == MASKED_LM.name:
            if self.masked_lm_activation != self.activation:
                values["masked_lm_activation"] = self.masked_lm_activation
            if self.layer_norm_epsilon != MASKED_LM_EPSILON:
                values["masked_lm_epsilon"] = MASKED_LM_EPSILON
        return values

    def has_pooler_in(self, model: str) -> bool:
        """Returns whether a model of the class `model` has a pooler in KerasHub."""
        return self.has_pooler or model == CLASSIFIER.name

    def stored_metadata(self, metadata: ModelMetadata) -> ModelMetadata:
        """Returns the metadata with the shapes of the stored weights."""
        config = dataclasses.replace(metadata.config, **self.stored)
        return dataclasses.replace(metadata, config=config)

    @property
    def tokenizer(self) -> str:
        """The name of the tokenizer's class in keras_hub."""
        return f"{self.family.class_prefix}Tokenizer"

    @property
    def column(self) -> mapping.NameColumn:
        """The names and shapes of the stored weights."""
        name = partial(_name, {**LAYERS, **self.layers})
        return mapping.NameColumn(format="keras-hub", name=name, shape=_shape, kinds=None)


HUB_FAMILIES = {
    row.family.kind: row
    for row in (
        HubFamily(
            family=BERT,
            activation="gelu_tanh",
            hyperparameters={"num_segments": "num_segments"},
        ),
        HubFamily(
            family=DISTILBERT,
            activation="gelu",
            has_pooler=False,
            layers=SMALL_BACKBONE,
        ),
        HubFamily(
            family=ALBERT,
            specials=ALBERT_SPECIALS,
            activation="gelu_tanh",
            masked_lm_activation="gelu_tanh",
            hyperparameters={"num_segments": "num_segments", "embedding_dim": "embedding_size"},
            fixed_values={"num_groups": 1, "num_inner_repetitions": 1},
            layers={
                "encoder/embeddings/projection": f"{HUB_LAYERS}/dense",
                "encoder/pooler": f"{HUB_LAYERS}/dense_1",
            },
        ),
        HubFamily(
            family=ROBERTA,
            specials=ROBERTA_SPECIALS,
            activation="gelu",
            layer_norm_epsilon=1e-5,
            has_pooler=False,
            layers=SMALL_BACKBONE,
            stored={"position_offset": 0, "num_segments": 0},
        ),
    )
}
# Checks that a format without other limits gets an encoder of a known family.
ANY_FAMILY = mapping.NameColumn(
    format="keras-hub", name=lambda name, metadata: "", kinds=HUB_FAMILIES
)


def serialized(family: Family, ending: str, config: dict[str, Any]) -> dict[str, Any]:
    """Serializes an object as Keras does.

    Args:
        family: The family, whose prefix begins the name of the class in keras_hub.
        ending: The end of the name of the class.
        config: The configuration of the object.
    """
    name = f"{family.class_prefix}{ending}"
    package, module = map(_snake_case, (family.class_prefix, name))
    return {
        "module": f"keras_hub.src.models.{package}.{module}",
        "class_name": name,
        "config": config,
        "registered_name": f"keras_hub>{name}",
    }


def _snake_case(name: str) -> str:
    return re.sub("(?<=[a-z])(?=[A-Z])|(?<=LM)(?=P)", "_", name).lower()


def _name(layers: Mapping[str, str], name: str, metadata: ModelMetadata) -> str:
    # Keras appends no number to the first layer of a class.
    path = mapping.renamed(name, layers, suffixes=SUFFIXES)
    return path.replace("transformer_encoder_0", "transformer_encoder")


def _shape(row: WeightRow, metadata: ModelMetadata) -> tuple[int, ...]:
    """Returns KerasHub's shape of a weight: attention weights have an axis for the heads."""
    size, num_heads = metadata.config.hidden_size, metadata.config.num_heads
    heads = (num_heads, size // num_heads)
    layer, weight = row.name.split("/")[-2:]
    if "/attention/" not in row.name or (layer, weight) == ("output", "bias"):
        return row.shape
    if layer == "output":
        return (*heads, size)
    return (size, *heads) if weight == "kernel" else heads


def traits_of(family: Family) -> dict[str, Any]:
    """Returns the values of BertConfig that all members of a family share.

    The number of segments is 1 in a RoBERTa and 0 in a DistilBERT.
    """
    has_segments = "num_segments" in family.sizes
    return {**family.traits, "num_segments": int(has_segments)}
