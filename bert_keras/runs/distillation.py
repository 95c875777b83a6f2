"""Configures knowledge distillation and checks that checkpoints fit a run."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from bert_keras.checkpoints.checkpoint import TextCheckpoint
from bert_keras.checkpoints.formats import open_text_checkpoint
from bert_keras.config import ModelMetadata
from bert_keras.downstream.task import fixed
from bert_keras.errors import InputError, check_range, print_field
from bert_keras.fields import setting
from bert_keras.files import StrPath
from bert_keras.text.vocab import Vocabulary

if TYPE_CHECKING:  # both import Keras
    from bert_keras.models.distiller import Distiller
    from bert_keras.models.task_models import TaskModel


@dataclass(frozen=True, kw_only=True)
class Distillation:
    """Settings of a distillation: the teacher's checkpoint and the weights of the losses."""

    teacher: str = fixed()  # absolute path of the teacher's checkpoint folder
    temperature: float = setting(2.0, "divisor of the logits of teacher and student")
    alpha_soft: float = field(metadata={"help": "weight of the divergence from the teacher"})
    alpha_labels: float = field(metadata={"help": "weight of the loss of the labels"})
    alpha_cosine: float = field(metadata={"help": "weight of the last hidden states' cosine loss"})

    def __post_init__(self):
        check_range(self, "a number above 0", "temperature")
        check_range(self, "0 or a number above it", "alpha_soft", "alpha_labels", "alpha_cosine")


# DistilBERT's pretraining (README of its code) and fine-tuning (run_squad_w_distillation.py)
OF_PRETRAINING = {"alpha_soft": 5.0, "alpha_labels": 2.0, "alpha_cosine": 1.0}
OF_TASK = {"alpha_soft": 0.5, "alpha_labels": 0.5, "alpha_cosine": 0.0}


class Teacher:
    """The checkpoint of a teacher, whose vocabulary and labels must be the student's."""

    def __init__(
        self, distillation: Distillation, *, student: ModelMetadata, vocabulary: Vocabulary
    ):
        self.distillation, source = distillation, distillation.teacher
        self.checkpoint = open_text_checkpoint(source)
        metadata, config = self.checkpoint.metadata, self.checkpoint.metadata.config
        check_same_vocabulary(self.checkpoint, vocabulary, source=source)
        needed = {
            "lowercase": (metadata.lowercase, student.lowercase),
            "is_causal": (config.is_causal, student.config.is_causal),
            "labels": (metadata.labels, student.labels),
        }
        check_fit(needed, source=source, remedy="choose another teacher")

    def teach(self, student: "TaskModel", *, metadata: ModelMetadata) -> "Distiller":
        """Loads the teacher and combines it with the student into a Distiller, not yet compiled."""
        from bert_keras.checkpoints.pretrained import build_model
        from bert_keras.models.distiller import Distiller

        settings = dataclasses.asdict(self.distillation)
        path = settings.pop("teacher")
        metadata = dataclasses.replace(metadata, config=self.checkpoint.metadata.config)
        model = build_model(type(student), self.checkpoint, metadata=metadata, source=path)
        print_field("teacher", f"{path}: {model.count_params():,} parameters")
        return Distiller(student, model, **settings)


def check_fit(needed: Mapping[str, tuple[Any, Any]], *, source: StrPath, remedy: str) -> None:
    """Raises InputError if a checkpoint does not fit a run.

    Args:
        needed: Name of a setting -> the checkpoint's value and the value of the run.
        source: The name of the checkpoint.
        remedy: What the user can do.
    """
    for name, (actual, expected) in needed.items():
        if actual != expected:
            raise InputError(f"{source} has {name}={actual}; expected {expected}; {remedy}")


def check_same_vocabulary(
    checkpoint: TextCheckpoint, expected: Vocabulary, *, source: StrPath
) -> None:
    """Raises InputError, with the first different line, if the vocabularies differ."""
    ours = checkpoint.vocabulary
    if ours == expected:
        return
    place = "in the rules of tokenizer.json"
    for line, (token, other) in enumerate(zip_longest(ours.tokens, expected.tokens), start=1):
        if token != other:
            place = f"at line {line:,}"
            break
    raise InputError(f"the vocabulary of {source} differs from the run's {place}; use the same one")
