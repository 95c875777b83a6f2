"""How a student learns from a teacher, and which teacher is fit for it."""

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
    """The settings of a Distiller, which documents the weights, and the folder of its teacher."""

    teacher: str = fixed()
    temperature: float = 2.0
    alpha_soft: float
    alpha_labels: float
    alpha_cosine: float

    def __post_init__(self):
        check_range(self, "a number above 0", "temperature")
        check_range(self, "0 or a number above it", "alpha_soft", "alpha_labels", "alpha_cosine")

    @classmethod
    def of_pretraining(cls, teacher: str | os.PathLike) -> "Distillation":
        """As DistilBERT was trained (the README of its code)."""
        return cls(
            teacher=os.path.abspath(teacher), alpha_soft=5.0, alpha_labels=2.0, alpha_cosine=1.0
        )

    @classmethod
    def of_task(cls, teacher: str | os.PathLike) -> "Distillation":
        """As DistilBERT was fine-tuned with a teacher (run_squad_w_distillation.py)."""
        return cls(
            teacher=os.path.abspath(teacher), alpha_soft=0.5, alpha_labels=0.5, alpha_cosine=0.0
        )


@dataclass(frozen=True)
class Teacher:
    """A checkpoint that is fit to teach a student."""

    checkpoint: Checkpoint
    distillation: Distillation

    def teach(self, student: TaskModel, *, card: ModelCard) -> Distiller:
        """Returns the student, whose metadata is `card`, with its teacher."""
        settings = dataclasses.asdict(self.distillation)
        path = settings.pop("teacher")
        card = dataclasses.replace(card, config=self.checkpoint.card.config)
        model = type(student).from_checkpoint(self.checkpoint, card=card, source=path)
        print(f"{'teacher':<12}{path}: {model.count_params():,} parameters")
        return Distiller(student, model, **settings)


def open_teacher(
    distillation: Distillation, *, student: ModelCard, vocabulary: Vocabulary
) -> Teacher:
    """Opens the teacher of a student with this metadata and vocabulary.

    Raises:
        InputError: The teacher reads or predicts otherwise than the student, or as `open_start`.
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
