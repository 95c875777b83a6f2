"""Converts a checkpoint, or what is made of one (a part, a student), to another format."""

import dataclasses
import os
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import prod

import numpy as np

from bert_keras.architectures import ARCHITECTURES, MASKED_LM, REPLACED_TOKENS
from bert_keras.checkpoints.checkpoint import Checkpoint, part
from bert_keras.checkpoints.extension import extended
from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.checkpoints.generator import generator_of
from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.checkpoints.weight_rows import rows
from bert_keras.errors import InputError
from bert_keras.families import BERT, family_of


def convert(  # noqa: PLR0913 - public; each argument is optional
    source: str | os.PathLike,
    destination: str | os.PathLike,
    *,
    format: str = "bert-keras",
    model: str | None = None,
    num_layers: int | None = None,
    new_tokens: Sequence[str] = (),
    ignore: Collection[str] = (),
    pad_vocabulary: bool = False,
) -> str:
    """Writes a checkpoint as a folder of another format, reads it back and compares.

    `bert-keras convert` calls this function.

    Args:
        source: A checkpoint of any format.
        destination: The folder to write, which must not exist yet or be empty.
        format: "bert-keras", "google", "huggingface", "keras-hub" or "sentence-transformers".
        model: The model class to write if it is only a part of the model in `source`, such as the
            BertEncoder of a BertPretrainer; None converts all.
        num_layers: Converts a student with this number of layers; see `student_of`.
        new_tokens: Tokens to add to a WordPiece vocabulary, instead of its [unusedN] tokens and
            then at its end. Their embeddings are the means of those of their former subtokens.
        ignore: Names of tensors, configuration keys and tokenizer rules to ignore. Error messages
            state the name where this is possible.
        pad_vocabulary: Whether to append unused tokens if the token table has more rows than the
            vocabulary has tokens.

    Returns:
        A table of what was written.

    Raises:
        InputError: The source cannot be read, lacks a head of `model`, or has a model that the
            format cannot store; or a new token is invalid; or `destination` has contents.
        RuntimeError: A weight read back from `destination` differs.

    Example:

    ```python
    print(convert("film-critic", "film-critic-huggingface", format="huggingface"))
    ```
    """
    checkpoint = open_checkpoint(source, ignore=ignore, pad_vocabulary=pad_vocabulary)
    if model is not None:
        checkpoint = _model_part(checkpoint, model)
    if num_layers is not None:
        checkpoint = student_of(checkpoint, num_layers=num_layers)
    if new_tokens:
        checkpoint = extended(checkpoint, new_tokens)
    notes = write_checkpoint(checkpoint, destination, format=format)
    written = open_checkpoint(destination)
    return "\n".join([f"{source} -> {destination}", *_table(checkpoint, written, notes)])


def _model_part(checkpoint: Checkpoint, model: str) -> Checkpoint:
    """Returns the checkpoint of `model`, whose heads must be a part of `checkpoint`.

    The BertMaskedLM of a replaced-token model is its generator.

    Raises:
        InputError: `checkpoint` lacks a head of `model`.
    """
    source, parts = checkpoint.metadata, set(map(part, checkpoint.tensors))
    if (source.model, model) == (REPLACED_TOKENS.name, MASKED_LM.name):
        return generator_of(checkpoint)
    row = ARCHITECTURES.get(model)
    if absent := set(row.heads if row else ()) - parts:
        raise InputError(
            f"a {model} needs weights of {', '.join(sorted(absent))}, which the {source.model} "
            f"does not have; it has {', '.join(sorted(parts))}"
        )
    metadata = source.of_model(
        model, keeps_head=model == source.model, text_columns=source.text_columns
    )
    names = {row.name for row in rows(metadata)}

    def selected(tensors: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
        return {name: tensor for name, tensor in tensors.items() if name in names}

    if (state := checkpoint.state) is not None:
        state = dataclasses.replace(
            state, momentums=selected(state.momentums), velocities=selected(state.velocities)
        )
    return dataclasses.replace(
        checkpoint,
        metadata=metadata,
        tensors=selected(checkpoint.tensors),
        state=state,
        unused=(*checkpoint.unused, *(n for n in checkpoint.tensors if n not in names)),
    )


def _table(checkpoint: Checkpoint, written: Checkpoint, notes: tuple[str, ...]) -> list[str]:
    metadata, vocabulary, state = checkpoint.metadata, checkpoint.vocabulary, checkpoint.state
    config, tensors, weights = metadata.config, Counter(), Counter()
    for name, tensor in checkpoint.tensors.items():
        tensors[part(name)] += 1
        weights[part(name)] += prod(tensor.shape)
    rows = [("model", f"{metadata.model}, {config.num_layers} layers of {config.hidden_size}")]
    rows += [(name, f"{tensors[name]:>5} tensors {weights[name]:>14,} weights") for name in tensors]
    if vocabulary is not None:
        case = "lower case" if metadata.lowercase else "cased"
        rows.append(("vocabulary", f"{len(vocabulary):,} tokens, {case}"))
    if metadata.embedding is not None:
        rows.append(("embedding", metadata.embedding.summary))
    if metadata.labels:
        rows.append(("labels", ", ".join(metadata.labels)))
    if state is not None:
        averages = "with Adam's averages" if written.state else "which the format cannot store"
        rows.append(("training", f"step {state.step:,}, {averages}"))
    rows += [("unused", name) for name in checkpoint.unused]
    rows += [("note", note) for note in (*checkpoint.notes, *notes)]
    rows.append(("read back", "every tensor equal, bit for bit"))
    width = 2 + max(len(name) for name, _ in rows)
    return [f"  {name:<{width}}{text}" for name, text in rows]


def student_layers(num_layers: int, *, of: int) -> list[int]:
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
        raise InputError(
            f"the student has {num_layers} layers; expected 1 to {of}, the layers of the teacher"
        )
    return np.linspace(0, of - 1, num_layers).round().astype(int).tolist()


def student_of(teacher: Checkpoint, *, num_layers: int) -> Checkpoint:
    """Builds a student with fewer layers from the weights of a teacher.

    The student has the layers that `student_layers` chooses. It has no pooler, no head that reads
    the pooler, and no training state.

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
    metadata, config = teacher.metadata, teacher.metadata.config
    layers = student_layers(num_layers, of=config.num_layers)
    indices = ", ".join(map(str, layers))
    notes = [f"the student has layers {indices} of 0 to {config.num_layers - 1}"]
    changes = {"num_layers": num_layers, "has_pooler": False}
    if family_of(config) is BERT:
        changes |= {"num_segments": 0, "pooler_activation": "relu"}
        notes.append(
            "the student has no segment embeddings; that of segment 0 is added to every position"
        )
    model = ARCHITECTURES[metadata.model].student or metadata.model
    student = dataclasses.replace(config, **changes)
    metadata = metadata.of_model(model, keeps_head=model == metadata.model, config=student)

    def of_teacher(name: str) -> StoredTensor:
        if not config.shares_layers:
            name = re.sub(r"(?<=/layer_)\d+", lambda match: str(layers[int(match[0])]), name)
        return teacher.tensors[name]

    tensors = {row.name: of_teacher(row.name) for row in rows(metadata)}
    if config.num_segments and not metadata.config.num_segments:
        positions = tensors["encoder/embeddings/position"]
        segments = teacher.tensors["encoder/embeddings/segment"]
        tensors["encoder/embeddings/position"] = StoredTensor(
            positions.shape, lambda: positions.read() + segments.read()[0]
        )
    return dataclasses.replace(
        teacher, metadata=metadata, tensors=tensors, state=None, notes=(*teacher.notes, *notes)
    )
