"""Converts a checkpoint, a part of its model, or a student with fewer layers to another format."""

import dataclasses
import os
import re
from collections import Counter
from collections.abc import Collection, Mapping
from math import prod

import numpy as np

from bert_keras.architectures import ARCHITECTURES, BERT, family_of
from bert_keras.checkpoints.checkpoint import Checkpoint, part
from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.checkpoints.mapping import rows
from bert_keras.checkpoints.tensors import StoredTensor
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
    """Writes a checkpoint as a folder of another format, reads it back and compares.

    Args:
        source: A checkpoint of any format.
        destination: The folder to write, which must not exist yet or be empty.
        format: "bert-keras", "google", "huggingface" or "keras-hub".
        model: The model class to write if it is only a part of the model in `source`, such as the
            BertEncoder of a BertPretrainer; None converts all.
        num_layers: Converts a student with this number of layers; see `student_of`.
        ignore: Names of tensors, configuration keys and tokenizer rules to ignore. Error messages
            state the name where this is possible.
        pad_vocabulary: Whether to append unused tokens if the token table has more rows than the
            vocabulary has tokens.

    Returns:
        A table of what was written.

    Raises:
        InputError: The source cannot be read, lacks a head of `model`, or has a model that the
            format cannot store; or `destination` has contents.
        RuntimeError: A weight read back from `destination` differs.
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
    """Returns the checkpoint of `model`, whose heads must be a part of `checkpoint`.

    Raises:
        InputError: `checkpoint` lacks a head of `model`.
    """
    found, parts = checkpoint.card, set(map(part, checkpoint.tensors))
    row = ARCHITECTURES.get(model)
    if absent := set(row.heads if row else ()) - parts:
        raise InputError(
            f"a {found.model} has no weights of {', '.join(sorted(absent))} for a {model}; known "
            f"of it: {', '.join(sorted(parts))}"
        )
    columns = found.text_columns
    card = found.of_model(model, keeps_head=model == found.model, text_columns=columns)
    wanted = {row.name for row in rows(card)}

    def of(tensors: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
        return {name: tensor for name, tensor in tensors.items() if name in wanted}

    if (state := checkpoint.state) is not None:
        averages = {"momentums": of(state.momentums), "velocities": of(state.velocities)}
        state = dataclasses.replace(state, **averages)
    left_over = (*checkpoint.left_over, *(n for n in checkpoint.tensors if n not in wanted))
    tensors = of(checkpoint.tensors)
    return dataclasses.replace(
        checkpoint, card=card, tensors=tensors, state=state, left_over=left_over
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
        kept = "Adam's averages" if written.state else "which the format has no place for"
        rows.append(("training", f"step {state.step:,}, {kept}"))
    rows += [("left over", name) for name in checkpoint.left_over]
    rows += [("note", note) for note in (*checkpoint.notes, *notes)]
    rows.append(("read back", "every tensor equal, bit for bit"))
    width = 2 + max(len(name) for name, _ in rows)
    return [f"  {name:<{width}}{text}" for name, text in rows]


def layers_taken(num_layers: int, *, of: int) -> list[int]:
    """Chooses the layers of a teacher from which a student starts.

    The layers are spaced evenly from the first to the last. For 6 of 12 layers they are 0, 2, 4, 7,
    9, 11, as in DistilBERT (Sanh et al. 2019; extract_distilbert.py).

    Args:
        num_layers: The number of layers of the student.
        of: The number of layers of the teacher.

    Returns:
        The indices of the chosen layers, counted from 0.

    Raises:
        InputError: `num_layers` is not between 1 and `of`.
    """
    if not 1 <= num_layers <= of:
        raise InputError(f"{num_layers} layers are asked of a model of {of}; expected 1 to {of}")
    return np.linspace(0, of - 1, num_layers).round().astype(int).tolist()


def student_of(teacher: Checkpoint, *, num_layers: int) -> Checkpoint:
    """Builds a student with fewer layers from the weights of a teacher.

    The student has the layers that `layers_taken` chooses. It has no pooler, no head that reads the
    pooler, and no training state.

    A student of a BERT is a DistilBERT, which has no segment embeddings. The vector of segment 0 is
    therefore added to every position embedding, so that the embeddings of a single text equal the
    teacher's. (extract_distilbert.py drops that vector.) Students of other families keep their
    segment embeddings.

    Args:
        teacher: The checkpoint of the teacher.
        num_layers: The number of layers of the student.

    Raises:
        InputError: `num_layers` is not between 1 and the number of layers of the teacher.
    """
    card, config = teacher.card, teacher.card.config
    taken = layers_taken(num_layers, of=config.num_layers)
    notes = [f"of the layers 0 to {config.num_layers - 1}: {', '.join(map(str, taken))}"]
    changes = {"num_layers": num_layers, "has_pooler": False}
    if family_of(config) is BERT:
        changes |= {"num_segments": 0, "pooler_activation": "relu"}
        notes.append("no segments; the vector of the first is added to every position")
    model = ARCHITECTURES[card.model].student or card.model
    student = dataclasses.replace(config, **changes)
    card = card.of_model(model, keeps_head=model == card.model, config=student)

    def of_teacher(name: str) -> StoredTensor:
        if not config.shares_layers:
            name = re.sub(r"(?<=/layer_)\d+", lambda found: str(taken[int(found[0])]), name)
        return teacher.tensors[name]

    tensors = {row.name: of_teacher(row.name) for row in rows(card)}
    if config.num_segments and not card.config.num_segments:
        positions = tensors["encoder/embeddings/position"]
        segments = teacher.tensors["encoder/embeddings/segment"]
        tensors["encoder/embeddings/position"] = StoredTensor(
            positions.shape, lambda: positions.read() + segments.read()[0]
        )
    return dataclasses.replace(
        teacher, card=card, tensors=tensors, state=None, notes=(*teacher.notes, *notes)
    )
