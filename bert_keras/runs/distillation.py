"""Configures knowledge distillation and checks that a teacher fits its student."""

import dataclasses
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bert_keras.checkpoints.checkpoint import Checkpoint, part
from bert_keras.checkpoints.formats import absolute_path, open_text_checkpoint
from bert_keras.config import ModelMetadata
from bert_keras.downstream.task import fixed
from bert_keras.errors import check, check_range, say
from bert_keras.text.vocab import Vocabulary

if TYPE_CHECKING:  # both import Keras
    from bert_keras.models.distiller import Distiller
    from bert_keras.models.task_models import TaskModel


@dataclass(frozen=True, kw_only=True)
class Distillation:
    """Settings of a distillation: the teacher's checkpoint and the weights of the losses."""

    teacher: str = fixed()  # absolute path of the teacher's checkpoint folder
    temperature: float = 2.0  # divisor of the logits of teacher and student
    alpha_soft: float  # weight of the divergence from the teacher's predictions
    alpha_labels: float  # weight of the loss of the labels
    alpha_cosine: float  # weight of the cosine loss between the last hidden states

    def __post_init__(self):
        check_range(self, "a number above 0", "temperature")
        check_range(self, "0 or a number above it", "alpha_soft", "alpha_labels", "alpha_cosine")

    @classmethod
    def of_pretraining(cls, teacher: str | os.PathLike) -> "Distillation":
        """Returns the settings of DistilBERT's pretraining (the README of its code)."""
        weights = {"alpha_soft": 5.0, "alpha_labels": 2.0, "alpha_cosine": 1.0}
        return cls(teacher=absolute_path(teacher), **weights)

    @classmethod
    def of_task(cls, teacher: str | os.PathLike) -> "Distillation":
        """Returns those of its fine-tuning (run_squad_w_distillation.py of its code)."""
        weights = {"alpha_soft": 0.5, "alpha_labels": 0.5, "alpha_cosine": 0.0}
        return cls(teacher=absolute_path(teacher), **weights)


@dataclass(frozen=True)
class Teacher:
    """A checkpoint that `open_teacher` has checked against its student."""

    checkpoint: Checkpoint
    distillation: Distillation

    def teach(self, student: "TaskModel", *, metadata: ModelMetadata) -> "Distiller":
        """Loads the teacher and combines it with the student into a Distiller, not yet compiled."""
        from bert_keras.models.distiller import Distiller

        settings = dataclasses.asdict(self.distillation)
        path = settings.pop("teacher")
        metadata = dataclasses.replace(metadata, config=self.checkpoint.metadata.config)
        model = type(student).from_checkpoint(self.checkpoint, metadata=metadata, source=path)
        say("teacher", f"{path}: {model.count_params():,} parameters")
        return Distiller(student, model, **settings)


def open_teacher(
    distillation: Distillation, *, student: ModelMetadata, vocabulary: Vocabulary
) -> Teacher:
    """Opens the checkpoint of a teacher.

    Raises:
        InputError: The teacher lacks a head of the student, has another vocabulary, letter case,
            attention direction or other labels, has fewer positions than the student's texts need,
            or, with `alpha_cosine`, has another hidden size.
    """
    from bert_keras.models import MODELS
    from bert_keras.runs.starting_point import check_vocabulary

    path = distillation.teacher
    checkpoint = open_text_checkpoint(path)
    metadata, config = checkpoint.metadata, checkpoint.metadata.config
    missing = sorted({*MODELS[student.model].heads} - {*map(part, checkpoint.tensors)})
    found = f"the teacher {path} is a {metadata.model} without {', '.join(missing)}"
    needed = f"which the student, a {student.model}, needs; choose a teacher of the same task"
    check(not missing, f"{found}, {needed}")
    check_vocabulary(checkpoint, vocabulary, source=f"the teacher {path}", of="the student")
    pairs = {
        "lowercase": (metadata.lowercase, student.lowercase),
        "is_causal": (config.is_causal, student.config.is_causal),
        "labels": (metadata.labels, student.labels),
    }
    if distillation.alpha_cosine:  # compares hidden states
        pairs["hidden_size"] = (config.hidden_size, student.config.hidden_size)
    for name, (teacher_value, student_value) in pairs.items():
        found = f"the teacher {path} has {name}={teacher_value}"
        remedy = "choose another teacher" + ", or set alpha_cosine=0" * (name == "hidden_size")
        expected = f"but the student has {name}={student_value}"
        check(teacher_value == student_value, f"{found}, {expected}; {remedy}")
    found = f"the teacher {path} has {config.max_positions} positions"
    expected = f"texts have up to {student.max_length} tokens"
    remedy = "choose another teacher or a smaller max_length"
    check(config.max_positions >= student.max_length, f"{found}, but {expected}; {remedy}")
    return Teacher(checkpoint, distillation)
