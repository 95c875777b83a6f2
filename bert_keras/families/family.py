"""Defines `Family`, all that is known about one relative of BERT."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bert_keras.config import BertConfig
from bert_keras.text.vocab import BERT_SPECIALS, Specials, Vocabulary

# Fields of BertConfig that distinguish families only by whether their value is 0.
OPTIONAL_SIZES = ("num_segments", "embedding_size")
# BERT's values of the BertConfig fields that distinguish families; `Family.traits` overrides them.
BERT_TRAITS = {
    "shares_layers": False,
    "position_offset": 0,
    "pooler_activation": "tanh",
    "is_causal": False,
    "norm_position": "post",
    "position_kind": "learned",
    "is_gated": False,
    "has_biases": True,
    "ties_decoder": True,
    "local_window": 0,
    "has_head_norm": False,
    "pooling": "cls",
}


@dataclass(frozen=True, kw_only=True)
class KerasHub:
    """What the models of a family in keras_hub have that those of other families have not."""

    has_pooler: bool = True  # whether the backbone has the pooler, not the classifier
    # Arguments of the backbone that only some families have, and our fields.
    sizes: Mapping[str, str] = field(default_factory=dict)
    # Start of some paths of variables, and what BERT has there.
    prefix: tuple[str, str] = ("", "")


@dataclass(frozen=True, kw_only=True)
class Family:
    """A relative of BERT: its configurations, special tokens and names in checkpoint formats.

    A model of a family is the same `BertEncoder` as every other, under another configuration.
    The keys of all tables of weights are public names of layers or of single weights, in which
    `{}` stands for the index of a block.
    """

    kind: str  # model_type in config.json
    presets: Mapping[str, BertConfig]  # published sizes by their names
    hub_names: tuple[str, ...] = ()  # well-known models on Hugging Face
    specials: Specials = BERT_SPECIALS  # special tokens of the published vocabularies

    # Values of BertConfig fields that all members share and that differ from `BERT_TRAITS`.
    traits: Mapping[str, Any] = field(default_factory=dict)
    # Fields in BERT_TRAITS in which members differ; embedding_size if it may be the hidden size.
    options: tuple[str, ...] = ()
    # Fields in OPTIONAL_SIZES that are above 0 in every member. The others there are 0, except for
    # those in `options`.
    sizes: tuple[str, ...] = ("num_segments",)

    class_prefix: str  # start of the class names in transformers and keras_hub: "DistilBert"
    # Ends of the class names in transformers, by our model class, where they are not those of BERT;
    # "" if the family has no such class.
    class_names: Mapping[str, str] = field(default_factory=dict)
    has_pooler: bool = True  # whether the class of the bare encoder in transformers has a pooler
    prefix: str = ""  # start of the encoder's weight names in task models; "" means `kind`
    # Names of weights in transformers. A name that begins with a dot follows the prefix.
    weight_names: Mapping[str, str]
    # Names that apply to one model only, by the name of our model class.
    model_weight_names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # Keys of BERT's config.json and this family's keys for the same values.
    config_keys: Mapping[str, str] = field(default_factory=dict)
    activation_keys: tuple[str, ...] = ("hidden_act",)  # config.json keys, all of one value
    # Defaults of absent config.json keys, by this family's keys, where they differ from BERT's.
    defaults: Mapping[str, Any] = field(default_factory=dict)
    dropout_keys: tuple[str, ...] = ()  # config.json keys of the dropout rates of heads
    # config.json keys of which only one value is supported, and that value.
    fixed_values: Mapping[str, Any] = field(default_factory=dict)
    # Whether the masked-LM head computes GELU with every activation of the encoder.
    has_gelu_head: bool = False
    # Returns the fields of BertConfig that values of config.json without BERT's keys state, and
    # the values to write for a configuration and a vocabulary.
    read_values: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
    written_values: Callable[[BertConfig, Vocabulary | None], dict[str, Any]] | None = None

    keras_hub: KerasHub | None = None  # None if keras_hub has no models of the family

    def includes(self, config: BertConfig) -> bool:
        """Returns whether an encoder with this configuration belongs to the family."""
        if self.has_optional_projection and config.embedding_size == config.hidden_size:
            return False
        values = {**BERT_TRAITS, **self.traits}
        return all(
            getattr(config, name) == value or name in self.options for name, value in values.items()
        ) and all(
            (getattr(config, name) > 0) == (name in self.sizes) or name in self.options
            for name in OPTIONAL_SIZES
        )

    @property
    def has_optional_projection(self) -> bool:
        """Whether only embeddings of another size than the hidden states have a projection."""
        return "embedding_size" in self.options
