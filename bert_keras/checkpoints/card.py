"""Model metadata: what a checkpoint states about its model beside vocabulary and weights."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bert_keras.architectures import ARCHITECTURES
from bert_keras.config import BertConfig
from bert_keras.errors import InputError, check_name
from bert_keras.text.vocab import Vocabulary


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """Metadata of one model. Raises InputError for fields that contradict each other."""

    model: str  # a name in architectures.ARCHITECTURES
    config: BertConfig
    lowercase: bool  # whether its tokenizer lower-cases text
    max_length: int  # of an input sequence, in tokens
    text_columns: tuple[str, ...] = ()  # names of the one or two texts of a training example
    labels: tuple[str, ...] = ()  # in the order of the logits
    problem_type: str = ""  # "regression" or another one of Hugging Face's, "" where unknown
    # Name and settings of the task that it was fine-tuned on, {} without one.
    task: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name(self.model, ARCHITECTURES, what="model")
        if not 3 <= self.max_length <= self.config.max_positions:
            raise InputError(
                f"max_length is {self.max_length}; expected 3 to {self.config.max_positions}, "
                "the encoder's positions"
            )
        if any(not isinstance(label, str) or not label for label in self.labels):
            raise InputError(f"the labels are {self.labels}; expected texts, none of them empty")
        if len(set(self.labels)) < len(self.labels):
            raise InputError(f"the labels are {self.labels}; expected each once")
        is_labelled = ARCHITECTURES[self.model].is_labelled
        if is_labelled != bool(self.labels):
            expected = "at least one" if is_labelled else "none"
            raise InputError(
                f"{self.model} comes with {len(self.labels)} labels; expected {expected}"
            )


def numbered_labels(count: int) -> tuple[str, ...]:
    """Returns Hugging Face's names of labels, for a checkpoint that has none."""
    return tuple(f"LABEL_{index}" for index in range(count))


def trained_card(card: ModelCard, *, has_pooler: bool) -> ModelCard:
    """Returns the card whose weights a training state must cover: `card`, without a pooler that was
    not trained because no head reads it. `has_pooler`: whether the state has one.
    """
    if ARCHITECTURES[card.model].reads_pooled_output or has_pooler:
        return card
    return dataclasses.replace(card, config=dataclasses.replace(card.config, has_pooler=False))


def seems_lowercase(vocabulary: Vocabulary | None) -> bool:
    """Returns whether no token has a capital letter, for a checkpoint that does not state its
    letter case; True without a vocabulary, because most BERTs are uncased.

    Tokens in brackets, such as [MASK] and the <S> of Google's Chinese model, do not count.
    """
    tokens = () if vocabulary is None else vocabulary.pieces
    return all(token == token.lower() for token in tokens if not _is_in_brackets(token))


def _is_in_brackets(token: str) -> bool:
    return len(token) > 1 and (token[0], token[-1]) in {("[", "]"), ("<", ">")}
