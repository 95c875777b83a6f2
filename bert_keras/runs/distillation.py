"""A teacher's folder and how to learn from it in; what `fit` takes out, all checked before."""

import dataclasses
import math
import os
from dataclasses import dataclass

from bert_keras.architectures import ARCHITECTURES
from bert_keras.checkpoints.card import ModelCard
from bert_keras.checkpoints.checkpoint import Checkpoint, part
from bert_keras.errors import InputError
from bert_keras.models.task_models import TaskModel
from bert_keras.options import fixed
from bert_keras.runs.starting_point import difference, open_start
from bert_keras.text.vocab import Vocabulary
from bert_keras.training.distiller import Distiller


@dataclass(frozen=True, kw_only=True)
class Distillation:
    """`teacher` is a checkpoint's folder, the others are Distiller's: how much the teacher's
    answers, softened by `temperature`, the labels and the hidden states weigh in the loss.
    """

    teacher: str = fixed()
    temperature: float = 2.0
    alpha_soft: float
    alpha_labels: float
    alpha_cosine: float

    def __post_init__(self):
        if not 0 < self.temperature < math.inf:
            raise InputError(f"temperature is {self.temperature}; expected a number above 0")
        for name in ("alpha_soft", "alpha_labels", "alpha_cosine"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(
                    f"{name} is {getattr(self, name)}; expected 0 or a number above it"
                )

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


def open_teacher(
    distillation: Distillation, *, student: ModelCard, vocabulary: Vocabulary
) -> Checkpoint:
    """The teacher of a `student` whose texts are pieces of the `vocabulary`. Raises InputError
    where it reads or answers otherwise, and as `open_start` does."""
    path, card = distillation.teacher, student
    checkpoint = open_start(path)
    heads = ARCHITECTURES[card.model].heads
    found, missing = checkpoint.card, {*heads} - {*map(part, checkpoint.tensors)}
    if missing:
        raise InputError(
            f"the teacher {path} is a {found.model} without {', '.join(sorted(missing))}, which a "
            f"{card.model} learns from it; take one that was trained on the same task"
        )
    if checkpoint.vocabulary is None:
        raise InputError(f"the teacher {path} has no vocabulary; put that of the student there")
    if checkpoint.vocabulary != vocabulary:
        raise InputError(
            f"the teacher {path} has another vocabulary than the student "
            f"{difference(checkpoint.vocabulary, vocabulary)}; take a teacher of the same"
        )
    for name, known in (
        ("lowercase", [found.lowercase, card.lowercase]),
        ("is_causal", [found.config.is_causal, card.config.is_causal]),
        ("labels", [", ".join(found.labels), ", ".join(card.labels)]),
    ):
        if known[0] != known[1]:
            theirs, ours = known
            raise InputError(
                f"{name} of the teacher {path}: {theirs}; of the student: {ours}; expected the same"
            )
    sizes = [each.config.hidden_size for each in (found, card)]
    if distillation.alpha_cosine and sizes[0] != sizes[1]:
        raise InputError(
            f"the teacher {path} has a hidden size of {sizes[0]}, the student of {sizes[1]}; take "
            "another, or alpha_cosine=0, which compares no hidden states"
        )
    if found.config.max_positions < card.max_length:
        raise InputError(
            f"the teacher {path} has {found.config.max_positions} positions, and texts are of up "
            f"to {card.max_length} pieces; take another, or shorter texts"
        )
    return checkpoint


def taught(
    student: TaskModel, distillation: Distillation, *, card: ModelCard, teacher: Checkpoint
) -> Distiller:
    """The student under its teacher; `card` is the student's."""
    settings = dataclasses.asdict(distillation)
    path = settings.pop("teacher")
    card = dataclasses.replace(card, config=teacher.card.config)
    model = type(student).from_checkpoint(teacher, card=card, source=path)
    print(f"{'teacher':<12}{path}: {model.count_params():,} parameters")
    return Distiller(student, model, **settings)
