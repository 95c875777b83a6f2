"""A teacher's checkpoint in, that of a student to be distilled out: its layers, but fewer."""

import dataclasses
import re
from functools import partial

import numpy as np

from bert_keras.architectures import ARCHITECTURES, BERT, family_of
from bert_keras.checkpoints.checkpoint import Checkpoint, StoredTensor
from bert_keras.checkpoints.mapping import rows
from bert_keras.config import BertConfig
from bert_keras.errors import InputError


def layers_taken(num_layers: int, *, of: int) -> list[int]:
    """So many of a teacher's layers, counted from 0, evenly from its first to its last: of 12 the 6
    are 0, 2, 4, 7, 9, 11, which DistilBERT began with (Sanh et al. 2019; extract_distilbert.py).
    Raises InputError where the teacher has fewer."""
    if not 1 <= num_layers <= of:
        raise InputError(f"{num_layers} layers are asked of a model of {of}; expected 1 to {of}")
    return np.linspace(0, of - 1, num_layers).round().astype(int).tolist()


def student_of(teacher: Checkpoint, *, num_layers: int) -> Checkpoint:
    """The teacher with `layers_taken` alone, without pooler, heads that read it, training state.

    A BERT becomes a DistilBERT: it loses its segments, whose first vector is added to every
    position, so that the embeddings of single texts are the teacher's (extract_distilbert.py drops
    it). Relatives keep theirs.
    """
    card, config = teacher.card, teacher.card.config
    taken = layers_taken(num_layers, of=config.num_layers)
    notes = [f"of the layers 0 to {config.num_layers - 1}: {', '.join(map(str, taken))}"]
    changes = {"num_layers": num_layers, "has_pooler": False}
    if family_of(config) is BERT:
        changes |= {"num_segments": 0, "pooler_activation": "relu"}
        notes.append("no segments; the vector of the first is added to every position")
    model = ARCHITECTURES[card.model].student or card.model
    said = {"labels": (), "text_columns": (), "problem_type": "", "task": {}}
    card = dataclasses.replace(
        card,
        model=model,
        config=dataclasses.replace(config, **changes),
        **({} if model == card.model else said),
    )
    tensors = {row.ours: teacher.tensors[_name(row.ours, taken, config)] for row in rows(card)}
    if config.num_segments and not card.config.num_segments:
        positions = tensors["encoder/embeddings/position"]
        segments = teacher.tensors["encoder/embeddings/segment"]
        read = partial(_in_first_segment, positions, segments)
        tensors["encoder/embeddings/position"] = StoredTensor(positions.shape, read)
    return dataclasses.replace(
        teacher, card=card, tensors=tensors, state=None, notes=(*teacher.notes, *notes)
    )


def _name(name: str, taken: list[int], config: BertConfig) -> str:
    """The teacher's, of a weight of the student."""
    if config.shares_layers:
        return name
    return re.sub(r"(?<=/layer_)\d+", lambda found: str(taken[int(found[0])]), name)


def _in_first_segment(positions: StoredTensor, segments: StoredTensor) -> np.ndarray:
    return positions.read() + segments.read()[0]
