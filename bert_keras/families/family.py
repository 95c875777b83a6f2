"""Defines `Family`, which describes one relative of BERT."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bert_keras.config import BertConfig
from bert_keras.text.vocab import BERT_SPECIALS, Specials, Vocabulary

# Fields of BertConfig that are 0 in some families and above 0 in others.
OPTIONAL_SIZES = ("num_segments", "embedding_size")
# The other fields of BertConfig that distinguish families, with BERT's values.
_TRAIT_NAMES = (
    "shares_layers position_offset pooler_activation is_causal norm_position position_kind "
    "is_gated has_biases ties_decoder local_window has_head_norm pooling norm_kind block_biases "
    "has_embedding_norm rotary_divisor"
)
BERT_TRAITS = {name: getattr(BertConfig, name) for name in _TRAIT_NAMES.split()}

BLOCK = "encoder/layer_{}"  # our name of a block
# The layers of a block, in the order in which `block_names` takes their names in transformers.
_BLOCK_LAYERS = (
    "attention/query attention/key attention/value attention/output attention_norm "
    "feed_forward/intermediate feed_forward/output feed_forward_norm"
)


def block_names(prefix: str, names: str) -> dict[str, str]:
    """Maps our names of a block's layers to `prefix` and a name; `{}` is the index of the block."""
    pairs = zip(_BLOCK_LAYERS.split(), names.split(), strict=True)
    return {f"{BLOCK}/{ours}": f"{prefix}{theirs}" for ours, theirs in pairs}


def masked_lm_names(transform: str, norm: str, decoder: str, bias: str = "") -> dict[str, str]:
    """Maps our names of the masked-LM head's parts to names in transformers.

    Args:
        transform: The name of the dense layer.
        norm: The name of the LayerNorm.
        decoder: The name of the last dense layer, without ".weight".
        bias: The name of its bias; "" means `decoder`.bias.
    """
    return {
        "masked_lm/transform": transform,
        "masked_lm/norm": norm,
        "masked_lm/decoder": f"{decoder}.weight",
        "masked_lm/output_bias": bias or f"{decoder}.bias",
    }


@dataclass(frozen=True, kw_only=True)
class KerasHub:
    """How a family's keras_hub models differ from the other families' models."""

    has_pooler: bool = True  # True if the pooler belongs to the backbone, not to the classifier
    # Additional arguments of the backbone -> our fields
    sizes: Mapping[str, str] = field(default_factory=dict)
    # The start of some variable paths, and the start of the same paths in BERT
    prefix: tuple[str, str] = ("", "")


@dataclass(frozen=True, kw_only=True)
class Family:
    """A relative of BERT: its configurations, special tokens and names in checkpoint formats.

    In tables of weights, keys are public names of layers or weights; `{}` is the index of a block.
    """

    kind: str  # model_type in config.json
    other_kinds: tuple[str, ...] = ()  # other values of model_type in published files
    presets: Mapping[str, BertConfig]  # published sizes by their names
    hub_names: tuple[str, ...] = ()  # well-known models on Hugging Face
    specials: Specials = BERT_SPECIALS  # special tokens of the published vocabularies

    # Fields of BertConfig that all members share, where they differ from `BERT_TRAITS`.
    traits: Mapping[str, Any] = field(default_factory=dict)
    # Fields that differ between the members: names in BERT_TRAITS, and embedding_size if there are
    # members without a projection.
    options: tuple[str, ...] = ()
    # Fields in OPTIONAL_SIZES that are above 0 in every member. Fields that are neither here nor in
    # `options` are 0.
    sizes: tuple[str, ...] = ("num_segments",)

    class_prefix: str  # start of the class names in transformers and keras_hub: "DistilBert"
    # Our model classes -> ends of the class names in transformers if they differ from BERT's, or ""
    # if the family does not have the class
    class_names: Mapping[str, str] = field(default_factory=dict)
    has_pooler: bool = True  # whether the encoder's class in transformers has a pooler
    prefix: str = ""  # start of encoder weight names in task models; "" means `kind`
    # Names of weights in transformers. A name that begins with a dot follows the prefix. "a.b+c"
    # stands for "a.b" and "a.c", whose rows follow each other in our weight.
    weight_names: Mapping[str, str]
    # Parts of the names of published weights -> parts of the names in transformers. Several parts
    # divide the rows of the weight equally.
    published_names: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    # Returns, for a weight with this name in transformers, which of its rows becomes each of ours,
    # or None if their order is the same.
    row_order: Callable[[str, BertConfig], np.ndarray | None] = lambda name, config: None
    # Starts of the names of published weights that no model of the family reads
    unused_weights: tuple[str, ...] = ()
    # Our model classes -> names of weights that only this class has
    model_weight_names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # Keys of BERT's config.json -> this family's keys for the same values
    config_keys: Mapping[str, str] = field(default_factory=dict)
    activation_keys: tuple[str, ...] = ("hidden_act",)  # config.json keys that have the same value
    # This family's keys in config.json -> their defaults, where they differ from BERT's
    defaults: Mapping[str, Any] = field(default_factory=dict)
    # config.json keys of other dropout rates; the first is `dropout_of_heads`
    dropout_keys: tuple[str, ...] = ("classifier_dropout",)
    # Keys in config.json -> their only supported value
    fixed_values: Mapping[str, Any] = field(default_factory=dict)
    # Keys that only published files have -> their only supported value
    published_values: Mapping[str, Any] = field(default_factory=dict)
    # Translates the values of a published config.json to the keys of transformers.
    native_values: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    # Whether the masked-LM head always has GELU, whatever the activation of the encoder is.
    has_gelu_head: bool = False
    # Reads more fields of BertConfig from the values of config.json.
    read_fields: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
    # Returns more values to write to config.json.
    more_values: Callable[[BertConfig, Vocabulary | None], dict[str, Any]] | None = None

    keras_hub: KerasHub | None = None  # None if keras_hub has no models of the family

    def includes(self, config: BertConfig) -> bool:
        """Returns whether an encoder with this configuration belongs to the family."""
        if self.has_optional_projection and config.embedding_size == config.hidden_size:
            return False
        traits = {**BERT_TRAITS, **self.traits}
        has_trait = {name: getattr(config, name) == value for name, value in traits.items()}
        for name in OPTIONAL_SIZES:
            has_trait[name] = (getattr(config, name) > 0) == (name in self.sizes)
        return all(is_equal or name in self.options for name, is_equal in has_trait.items())

    @property
    def has_optional_projection(self) -> bool:
        """Whether embeddings only have a projection if their size is not the hidden size."""
        return "embedding_size" in self.options
