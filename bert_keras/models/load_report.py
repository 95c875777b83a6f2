"""Compares the weights of a checkpoint with those of a model, and reports their use."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from bert_keras.checkpoints.checkpoint import Checkpoint, part
from bert_keras.checkpoints.mapping import weight_problems
from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.checkpoints.weight_rows import rows
from bert_keras.errors import InputError, listed, printable


@dataclass(frozen=True)
class LoadReport:
    """Reports which weights of a model come from a checkpoint."""

    source: str  # path of the checkpoint
    loaded: tuple[str, ...]  # names of the weights that the checkpoint provides
    new: tuple[str, ...]  # names of the weights with random initial values
    unused: tuple[str, ...]  # names of the weights in the checkpoint that the model does not use
    notes: tuple[str, ...] = ()  # other differences, one sentence each

    def __str__(self) -> str:
        rows = {"loaded": self.loaded, "new": self.new, "unused": self.unused}
        table = [f"{name:<12}{_parts(names)}" for name, names in rows.items()]
        notes = [f"{'note':<12}{note}" for note in self.notes]
        return printable("\n".join([self.source, *table, *notes]))


def _parts(names: Sequence[str]) -> str:
    counts = Counter(part(name) for name in names)
    return ", ".join(f"{name} ({count})" for name, count in counts.items()) or "none"


def load_report(
    checkpoint: Checkpoint, *, metadata: ModelMetadata, source: str, new: Collection[str]
) -> LoadReport:
    """Checks the weights and returns the report of `from_checkpoint`, with the same errors."""
    shapes, stored = {row.name: row.shape for row in rows(metadata)}, checkpoint.tensors
    parts = set(map(part, shapes))
    if unknown := sorted(set(new) - parts):
        raise InputError(f"new contains {', '.join(unknown)}; known: {', '.join(sorted(parts))}")
    if absent := sorted(parts - set(map(part, stored)) - set(new)):
        raise InputError(
            f"{source} is a {checkpoint.metadata.model} without weights of {', '.join(absent)}; to "
            f"start with random ones: new={tuple(sorted({*absent, *new}))}"
        )
    loaded = {name: shape for name, shape in shapes.items() if part(name) not in new}
    unused = [name for name in stored if name not in loaded]
    problems = weight_problems(stored, loaded)
    problems += [f"{n} is unexpected" for n in unused if part(n) in parts - set(new)]
    if problems:
        raise InputError(f"{source} does not fit the model: {listed(problems)}")
    random = tuple(name for name in shapes if name not in loaded)
    names = (*unused, *checkpoint.unused)
    return LoadReport(source, tuple(loaded), random, names, checkpoint.notes)
