"""A checkpoint of one format in, a folder of another out, read back and compared."""

import dataclasses
import os
from collections import Counter
from collections.abc import Collection, Mapping
from math import prod

from bert_keras.architectures import ARCHITECTURES
from bert_keras.checkpoints.checkpoint import Checkpoint, StoredTensor, TrainingState, part
from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.checkpoints.mapping import rows
from bert_keras.checkpoints.student import student_of
from bert_keras.errors import InputError


def convert(
    source: str | os.PathLike,
    destination: str | os.PathLike,
    *,
    format: str,
    model: str | None = None,
    num_layers: int | None = None,
    ignore: Collection[str] = (),
    pad_vocabulary: bool = False,
) -> str:
    """Write `destination`, a new folder; returns a table of what went there. `model` names what of
    `source` to take where that is not all of it, such as the BertEncoder of a BertPretrainer, and
    `num_layers` makes a student of it; see `student_of`.

    Raises InputError as `open_checkpoint` and `write_checkpoint` do, and RuntimeError where a
    weight does not come back from `destination` bit for bit.
    """
    checkpoint = open_checkpoint(source, ignore=ignore, pad_vocabulary=pad_vocabulary)
    if model is not None:
        checkpoint = _taken(checkpoint, model)
    if num_layers is not None:
        checkpoint = student_of(checkpoint, num_layers=num_layers)
    notes = write_checkpoint(checkpoint, destination, format=format)
    written = open_checkpoint(destination)
    return "\n".join([f"{source} -> {destination}", *_table(checkpoint, written, notes)])


def _taken(checkpoint: Checkpoint, model: str) -> Checkpoint:
    """The checkpoint with the heads of `model` alone. Raises InputError where one is not there."""
    found, parts = checkpoint.card, set(map(part, checkpoint.tensors))
    row = ARCHITECTURES.get(model)
    if absent := set(row.heads if row else ()) - parts:
        raise InputError(
            f"a {found.model} has no weights of {', '.join(sorted(absent))} for a {model}; known "
            f"of it: {', '.join(sorted(parts))}"
        )
    labels = found.labels if row and row.is_labelled else ()
    said = {} if model == found.model else {"problem_type": "", "task": {}}
    card = dataclasses.replace(found, model=model, labels=labels, **said)
    wanted = [row.ours for row in rows(card)]

    def of(tensors: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
        return {name: tensors[name] for name in wanted if name in tensors}

    state, left = checkpoint.state, [name for name in checkpoint.tensors if name not in wanted]
    if state is not None:
        state = TrainingState(
            step=state.step, momentums=of(state.momentums), velocities=of(state.velocities)
        )
    return dataclasses.replace(
        checkpoint,
        card=card,
        tensors=of(checkpoint.tensors),
        state=state,
        left_over=(*checkpoint.left_over, *left),
    )


def _table(checkpoint: Checkpoint, written: Checkpoint, notes: tuple[str, ...]) -> list[str]:
    card, vocabulary, state = checkpoint.card, checkpoint.vocabulary, checkpoint.state
    tensors = Counter(part(name) for name in checkpoint.tensors)
    weights = Counter()
    for name, tensor in checkpoint.tensors.items():
        weights[part(name)] += prod(tensor.shape)
    rows = [
        ("model", f"{card.model}, {card.config.num_layers} layers of {card.config.hidden_size}")
    ]
    rows += [(name, f"{tensors[name]:>5} tensors {weights[name]:>14,} weights") for name in tensors]
    if vocabulary is not None:
        case = "lower case" if card.lowercase else "cased"
        rows.append(("vocabulary", f"{len(vocabulary):,} pieces, {case}"))
    if card.labels:
        rows.append(("labels", ", ".join(card.labels)))
    if state is not None:
        told = (
            "Adam's averages" if written.state is not None else "which the format has no place for"
        )
        rows.append(("training", f"step {state.step:,}, {told}"))
    rows += [("left over", name) for name in checkpoint.left_over]
    rows += [("note", note) for note in (*checkpoint.notes, *notes)]
    rows.append(("read back", "every tensor equal, bit for bit"))
    width = 2 + max(len(name) for name, _ in rows)
    return [f"  {name:<{width}}{text}" for name, text in rows]
