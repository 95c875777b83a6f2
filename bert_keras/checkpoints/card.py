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
        if ARCHITECTURES[self.model].is_labelled != bool(self.labels):
            expected = "none" if self.labels else "at least one"
            raise InputError(
                f"{self.model} comes with {len(self.labels)} labels; expected {expected}"
            )

    def of_model(self, model: str, *, keeps_head: bool, **changes: Any) -> "ModelCard":
        """Returns the metadata of another model of the same encoder. Unless it keeps the head, what
        was learned from labelled data goes."""
        of_head: dict[str, Any] = {"labels": (), "text_columns": (), "problem_type": "", "task": {}}
        return dataclasses.replace(self, model=model, **({} if keeps_head else of_head) | changes)


def numbered_labels(count: int) -> tuple[str, ...]:
    """Returns Hugging Face's names of labels, for a checkpoint that has none."""
    return tuple(f"LABEL_{index}" for index in range(count))


def seems_lowercase(vocabulary: Vocabulary | None) -> bool:
    """Returns whether no token has a capital letter, for a checkpoint that does not state its
    letter case; True without a vocabulary, because most BERTs are uncased.

    Tokens in brackets, such as [MASK] and the <S> of Google's Chinese model, do not count.
    """
    tokens = () if vocabulary is None else vocabulary.pieces
    return all(
        token == token.lower() or (token[0], token[-1]) in {("[", "]"), ("<", ">")}
        for token in tokens
    )
