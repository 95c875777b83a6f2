"""Configures knowledge distillation and checks that a teacher fits its student."""

import dataclasses
import os
from dataclasses import dataclass

from bert_keras.architectures import ARCHITECTURES
from bert_keras.checkpoints.card import ModelCard
from bert_keras.checkpoints.checkpoint import Checkpoint, part
from bert_keras.errors import InputError
from bert_keras.models.task_models import TaskModel
from bert_keras.options import check_range, fixed
from bert_keras.runs.starting_point import difference, open_start
from bert_keras.text.vocab import Vocabulary
from bert_keras.training.distiller import Distiller


@dataclass(frozen=True, kw_only=True)
class Distillation:
    """Settings of a distillation: the teacher's checkpoint and the weights of the losses."""

    teacher: str = fixed()  # absolute path of the teacher's checkpoint folder
    temperature: float = 2.0  # divides the logits of teacher and student
    alpha_soft: float  # weight of the divergence from the teacher's predictions
    alpha_labels: float  # weight of the loss of the labels
    alpha_cosine: float  # weight of the cosine loss between the last hidden states

    def __post_init__(self):
        check_range(self, "a number above 0", "temperature")
        check_range(self, "0 or a number above it", "alpha_soft", "alpha_labels", "alpha_cosine")

    @classmethod
    def of_pretraining(cls, teacher: str | os.PathLike) -> "Distillation":
        """Returns the settings with which DistilBERT was pretrained.

        Args:
            teacher: The folder of the teacher's checkpoint.

        Source: the README of DistilBERT's code.
        """
        return cls(
            teacher=os.path.abspath(teacher), alpha_soft=5.0, alpha_labels=2.0, alpha_cosine=1.0
        )

    @classmethod
    def of_task(cls, teacher: str | os.PathLike) -> "Distillation":
        """Returns the settings with which DistilBERT was fine-tuned from a teacher.

        Args:
            teacher: The folder of the teacher's checkpoint.

        Source: run_squad_w_distillation.py of DistilBERT's code.
        """
        return cls(
            teacher=os.path.abspath(teacher), alpha_soft=0.5, alpha_labels=0.5, alpha_cosine=0.0
        )


@dataclass(frozen=True)
class Teacher:
    """A checkpoint that `open_teacher` has checked against its student."""

    checkpoint: Checkpoint
    distillation: Distillation

    def teach(self, student: TaskModel, *, card: ModelCard) -> Distiller:
        """Loads the teacher and combines it with the student into a Distiller.

        Args:
            student: The model to train.
            card: The metadata of the student.

        Returns:
            The Distiller, not yet compiled.
        """
        settings = dataclasses.asdict(self.distillation)
        path = settings.pop("teacher")
        card = dataclasses.replace(card, config=self.checkpoint.card.config)
        model = type(student).from_checkpoint(self.checkpoint, card=card, source=path)
        print(f"{'teacher':<12}{path}: {model.count_params():,} parameters")
        return Distiller(student, model, **settings)


def open_teacher(
    distillation: Distillation, *, student: ModelCard, vocabulary: Vocabulary
) -> Teacher:
    """Opens the checkpoint of a teacher and checks that it fits the student.

    Args:
        distillation: The settings, which contain the path of the teacher.
        student: The metadata of the student.
        vocabulary: The vocabulary of the student.

    Raises:
        InputError: `open_start` cannot open the checkpoint, or the teacher lacks a head of the
            student, has another vocabulary, letter case, attention direction or other labels, has
            fewer positions than the student's texts need, or, with `alpha_cosine`, has another
            hidden size.
    """
    path = distillation.teacher
    checkpoint = open_start(path)
    found, config = checkpoint.card, checkpoint.card.config
    missing = {*ARCHITECTURES[student.model].heads} - {*map(part, checkpoint.tensors)}
    if missing:
        raise InputError(
            f"the teacher {path} is a {found.model} without {', '.join(sorted(missing))}, which a "
            f"{student.model} learns from it; take one that was trained on the same task"
        )
    if checkpoint.vocabulary != vocabulary:
        raise InputError(
            f"the teacher {path} has another vocabulary than the student "
            f"{difference(checkpoint.vocabulary, vocabulary)}; take a teacher of the same"
        )
    for name, theirs, ours in (
        ("lowercase", found.lowercase, student.lowercase),
        ("is_causal", config.is_causal, student.config.is_causal),
        ("labels", ", ".join(found.labels), ", ".join(student.labels)),
    ):
        if theirs != ours:
            raise InputError(
                f"{name} of the teacher {path}: {theirs}; of the student: {ours}; expected the same"
            )
    if distillation.alpha_cosine and config.hidden_size != student.config.hidden_size:
        raise InputError(
            f"the teacher {path} has a hidden size of {config.hidden_size}, the student of "
            f"{student.config.hidden_size}; take another, or alpha_cosine=0, which compares no "
            "hidden states"
        )
    if config.max_positions < student.max_length:
        raise InputError(
            f"the teacher {path} has {config.max_positions} positions, and texts are of up to "
            f"{student.max_length} pieces; take another, or shorter texts"
        )
    return Teacher(checkpoint, distillation)
