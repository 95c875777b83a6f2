"""Defines `Family`, which describes a relative of BERT as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bert_keras.config import BertConfig

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
class Family:
    """A kind of encoder: the configuration values of its members and its Hugging Face names.

    The names of weights and config.json keys are those of the transformers library.
    """

    kind: str  # model_type in config.json
    # `Specials.word_start` of the vocabularies of its members, if another family has the same
    # configurations; None otherwise.
    word_start: str | None = None
    # Prefix of the encoder's weight names in task models, without a dot; "" means `kind`.
    prefix: str = ""
    class_prefix: str  # start of the class names, such as "DistilBert", also in keras_hub
    # Ends of the class names in transformers, by our model, where they are not those of
    # `architectures`; "" if the family has no such class.
    class_names: Mapping[str, str] = field(default_factory=dict)
    # Values of BertConfig fields that all members share and that differ from `BERT_TRAITS`.
    traits: Mapping[str, object] = field(default_factory=dict)
    # Fields in BERT_TRAITS in which members differ; embedding_size if it may be the hidden size.
    options: tuple[str, ...] = ()
    # Fields in OPTIONAL_SIZES that are above 0 in every member. The others there are 0, except for
    # those in `options`.
    sizes: tuple[str, ...] = ("num_segments",)
    has_pooler: bool = True  # whether the class of the bare encoder has a pooler
    # Parts of BERT's weight names and their replacements. `weight_name` applies them in order,
    # those of `model_weight_names` first. A weight that the family does not have gets the name "".
    weight_names: Mapping[str, str] = field(default_factory=dict)
    # Replacements that apply to one model only, by the name of our model.
    model_weight_names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # Keys of BERT's config.json and this family's keys for the same values.
    config_keys: Mapping[str, str] = field(default_factory=dict)
    # Defaults of absent config.json keys, by this family's keys, where they differ from BERT's.
    defaults: Mapping[str, Any] = field(default_factory=dict)
    dropout_keys: tuple[str, ...] = ()  # config.json keys of the dropout rates of heads
    # config.json keys of which only one value is supported, and that value.
    fixed_values: Mapping[str, Any] = field(default_factory=dict)
    ignored_keys: tuple[str, ...] = ()  # config.json keys that have no effect here

    def includes(self, config: "BertConfig") -> bool:
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

    @property
    def weight_prefix(self) -> str:
        """The prefix of the encoder's weight names in task models, such as `bert.`."""
        return f"{self.prefix or self.kind}."

    def weight_name(self, name: str, *, model: str) -> str:
        """Returns this family's name of a weight.

        Args:
            name: The name of the weight in Hugging Face's BERT.
            model: The name of our model class that has the weight.

        Returns:
            The name, or "" if models of this family do not have the weight.
        """
        for names in (self.model_weight_names.get(model, {}), self.weight_names):
            for old, new in names.items():
                name = name.replace(old, new)
        return name

    def config_key(self, name: str) -> str:
        """Returns this family's config.json key for the BERT key `name`."""
        return self.config_keys.get(name, name)
