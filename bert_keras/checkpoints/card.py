"""What a checkpoint says of its model beside vocabulary and weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bert_keras.architectures import ARCHITECTURES
from bert_keras.config import BertConfig
from bert_keras.errors import InputError


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """Which model, its numbers, how text becomes its input, its labels.

    `text_columns` names the one or two texts of an example and `labels` the classes in the order of
    the logits; both are empty for a pretrainer. `max_length` counts pieces. `problem_type` is kept
    for Hugging Face's readers: "regression" and the like, "" where nothing is said. `task` is the
    name and the settings of the task that it was trained on, {} where it was on none.
    """

    model: str
    config: BertConfig
    lowercase: bool
    max_length: int
    text_columns: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    problem_type: str = ""
    task: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.model not in ARCHITECTURES:
            raise InputError(
                f"no model is called {self.model!r}; known: {', '.join(ARCHITECTURES)}"
            )
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
    """Names for the labels of a checkpoint that has none, those of Hugging Face."""
    return tuple(f"LABEL_{index}" for index in range(count))
