"""The numbers of one encoder, checked when made: every layer is built from them."""

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bert_keras.errors import InputError
from bert_keras.storage import json_object, write_text
from bert_keras.text.vocab import SPECIAL_PIECES

ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "silu", "tanh")
POOLER_ACTIVATIONS = ("tanh", "relu")
MAY_BE_NONE = ("num_segments", "embedding_size", "position_offset", "num_lstm_layers")
# BERT's own values: files of a BERT do without them.
OF_OTHERS = {
    "embedding_size": 0,
    "shares_layers": False,
    "position_offset": 0,
    "pooler_activation": "tanh",
    "is_causal": False,
    "num_lstm_layers": 0,
}


@dataclass(frozen=True, kw_only=True)
class BertConfig:
    """BERT's encoder; the defaults are BERT-base, uncased (Devlin et al. 2018, section 3).

    `intermediate_size` is 4 x `hidden_size` unless given. `activation` "gelu" is the exact one
    (erf), "gelu_tanh" its approximation. Without `has_pooler` there is no pooled vector: models of
    single words have no use for it. Raises InputError, naming the field, for what cannot be.

    BERT's relatives are the same encoder in other numbers. ALBERT (Lan et al. 2019): tables of
    `embedding_size`, projected to `hidden_size`, and `shares_layers`, one block used `num_layers`
    times. RoBERTa (Liu et al. 2019): the first position is row `position_offset` of a table that
    has so many rows more than `max_positions`. DistilBERT (Sanh et al. 2019): no segments,
    `num_segments` 0, and a pooler, where there is one, of `pooler_activation` "relu".

    Where it `is_causal`, each token hears itself and those before it alone, and the pooled vector
    is the last token's, the only one that hears all: the left-to-right model of section 5.1. On
    its blocks there may be a BiLSTM of `num_lstm_layers`, half of `hidden_size` a direction.
    """

    vocab_size: int = 30_522
    hidden_size: int = 768
    num_layers: int = 12
    num_heads: int = 12
    intermediate_size: int = 0
    max_positions: int = 512
    num_segments: int = 2
    activation: str = "gelu"
    hidden_dropout_rate: float = 0.1
    attention_dropout_rate: float = 0.1
    layer_norm_epsilon: float = 1e-12
    initializer_stddev: float = 0.02
    has_pooler: bool = True
    embedding_size: int = 0
    shares_layers: bool = False
    position_offset: int = 0
    pooler_activation: str = "tanh"
    is_causal: bool = False
    num_lstm_layers: int = 0

    def __post_init__(self) -> None:
        if self.intermediate_size == 0:
            object.__setattr__(self, "intermediate_size", 4 * self.hidden_size)
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            right = type(value) is field.type or (field.type is float and type(value) is int)
            if not right:
                raise InputError(f"{field.name} is {value!r}; expected {field.type.__name__}")
            least = 0 if field.name in MAY_BE_NONE else 1
            if field.type is int and value < least:
                raise InputError(f"{field.name} is {value}; expected at least {least}")
        if self.vocab_size < len(SPECIAL_PIECES):
            raise InputError(
                f"vocab_size is {self.vocab_size}; expected at least {len(SPECIAL_PIECES)}, "
                f"room for {' '.join(SPECIAL_PIECES)}"
            )
        if self.hidden_size % self.num_heads:
            raise InputError(
                f"hidden_size {self.hidden_size} is not a multiple of num_heads {self.num_heads}"
            )
        if self.num_lstm_layers and self.hidden_size % 2:
            raise InputError(
                f"hidden_size {self.hidden_size} is odd; the two directions of a BiLSTM share it"
            )
        if self.activation not in ACTIVATIONS:
            raise InputError(f"activation is {self.activation!r}; expected one of {ACTIVATIONS}")
        if self.pooler_activation not in POOLER_ACTIVATIONS:
            raise InputError(
                f"pooler_activation is {self.pooler_activation!r}; expected one of "
                f"{POOLER_ACTIVATIONS}"
            )
        for name in ("hidden_dropout_rate", "attention_dropout_rate"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; expected a rate in [0, 1)")
        for name in ("layer_norm_epsilon", "initializer_stddev"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} is {getattr(self, name)}; expected more than 0")

    def to_dict(self) -> dict[str, Any]:
        """Without what tells another encoder from BERT's, where it is BERT's."""
        values = dataclasses.asdict(self)
        return {n: v for n, v in values.items() if n not in OF_OTHERS or v != OF_OTHERS[n]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "BertConfig":
        """Raises InputError for names that are no fields: nothing is dropped in silence."""
        known = {field.name for field in dataclasses.fields(cls)}
        if unknown := sorted(set(values) - known):
            raise InputError(
                f"unknown in a BertConfig: {', '.join(unknown)}; known: {sorted(known)}"
            )
        return cls(**values)

    def save(self, path: str | os.PathLike) -> None:
        write_text(path, json.dumps(self.to_dict(), indent=2) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike) -> "BertConfig":
        return cls.from_dict(json_object(path))
