"""Reads record files in batches and verifies them; errors name the first wrong record.

The files are read with TensorFlow's reader, so that TensorFlow can read every file that passes.
"""

import glob
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bert_keras.data.record_file import check_end, readable_records, records_of, stored_bytes
from bert_keras.data.records import record_files
from bert_keras.data.schema import (
    LABEL_FEATURE,
    LABEL_POSITIONS_FEATURE,
    LABEL_WEIGHTS_FEATURE,
    WEIGHTS_FEATURE,
    PretrainingSchema,
)
from bert_keras.errors import InputError
from bert_keras.text.vocab import Vocabulary

BATCH = 1024
Features = dict[str, np.ndarray]
Problem = tuple[str, np.ndarray]  # a description; bool [B,n], which elements are wrong


def every_file(records: str | os.PathLike | Sequence[str | os.PathLike]) -> list[str]:
    """Returns the named record files; a folder includes all splits, held-out records too."""
    paths = [records] if isinstance(records, (str, os.PathLike)) else records
    return record_files(
        [
            os.path.join(glob.escape(os.fspath(path)), "*.tfrecord")
            if os.path.isdir(path)
            else path
            for path in paths
        ]
    )


def parsed_batches(file: str, *, schema: PretrainingSchema) -> Iterator[Features]:
    """Yields the features of a file, arrays [B,n], in the order of the file."""
    import tensorflow as tf

    spec, num_bytes = schema.parsing_spec(), 0
    with readable_records(file):
        parsed: Any = (
            records_of(file)
            .batch(BATCH)
            .map(lambda batch: (stored_bytes(batch), tf.io.parse_example(batch, spec)))
            .prefetch(2)
        )
        for size, features in parsed.as_numpy_iterator():
            num_bytes += int(size)
            yield features
        check_end(file, num_bytes)


def verified_batches(
    file: str, *, schema: PretrainingSchema, vocabulary: Vocabulary
) -> Iterator[tuple[int, Features]]:
    """Yields verified batches, each with the number of preceding records of the file.

    Raises:
        InputError: A record is wrong; see `verify`.
    """
    first = 0
    for features in parsed_batches(file, schema=schema):
        verify(features, file=file, first=first, vocabulary=vocabulary)
        yield first, features
        first += len(features["input_ids"])


def is_labelled(features: Features) -> np.ndarray:
    """Returns bool [B,S]: which labels are used; without packing all of them."""
    labels = features[LABEL_FEATURE]
    return features.get(LABEL_WEIGHTS_FEATURE, np.ones_like(labels)) > 0


def verify(features: Features, *, file: str, first: int, vocabulary: Vocabulary) -> None:
    """Raises InputError for the first wrong record of a batch.

    Args:
        features: Any features of `bert_keras.data.schema`; absent ones are not verified.
        file: The file, for the message.
        first: The number of preceding records of the file.
        vocabulary: The vocabulary of the records.
    """
    for problem, is_wrong in _problems(features, vocabulary):
        if is_wrong.any():
            number = first + int(is_wrong.any(axis=1).argmax()) + 1
            raise InputError(f"{file}, record {number}: {problem}")


def _problems(features: Features, vocabulary: Vocabulary) -> Iterator[Problem]:
    yield from _sequence_problems(features, vocabulary)
    if WEIGHTS_FEATURE in features:
        yield from _prediction_problems(features, vocabulary)
    if LABEL_FEATURE in features:
        labels = features[LABEL_FEATURE]
        yield "a label is neither 0 nor 1", (labels != 0) & (labels != 1)
    if "sequence_ids" in features:
        yield from _packing_problems(features, vocabulary)


def _sequence_problems(features: Features, vocabulary: Vocabulary) -> Iterator[Problem]:
    ids, mask, segments = (features[n] for n in ("input_ids", "input_mask", "segment_ids"))
    yield _id_problem(ids, vocabulary)
    is_real = np.arange(ids.shape[1]) < mask.sum(axis=1, keepdims=True)
    yield "input_mask is not ones and then zeros", mask != is_real
    yield "a segment is neither 0 nor 1", (segments != 0) & (segments != 1)
    yield (
        "the sequence does not start with [CLS]; is this the right vocabulary?",
        ids[:, :1] != vocabulary.cls_id,
    )


def _prediction_problems(features: Features, vocabulary: Vocabulary) -> Iterator[Problem]:
    positions, labels = features["masked_lm_positions"], features["masked_lm_ids"]
    is_counted = features[WEIGHTS_FEATURE] > 0
    lengths = features["input_mask"].sum(axis=1, keepdims=True)
    ends = np.where(is_counted, lengths, features["input_mask"].shape[1])
    slot = np.arange(positions.shape[1])
    distinct = np.sort(np.where(is_counted, positions, -1 - slot), axis=1)
    yield _id_problem(labels, vocabulary)
    yield "a masked position is outside the sequence", (positions < 0) | (positions >= ends)
    yield "a position is masked twice", np.diff(distinct, axis=1) == 0
    yield "no position is predicted", is_counted.sum(axis=1, keepdims=True) == 0


def _packing_problems(features: Features, vocabulary: Vocabulary) -> Iterator[Problem]:
    sequences, is_real = features["sequence_ids"], features["input_mask"] == 1
    steps = np.diff(sequences, axis=1, prepend=0)
    yield "sequence_ids are not 0 exactly at the padding", (sequences > 0) != is_real
    yield (
        "sequence_ids do not count 1, 2, 3 without a gap",
        is_real & ((steps < 0) | (steps > 1)),
    )
    is_start = is_real & (steps != 0)
    column = np.arange(sequences.shape[1])
    starts = np.maximum.accumulate(np.where(is_start, column, 0), axis=1)
    yield (
        "position_ids do not restart at 0 in every sequence",
        is_real & (features["position_ids"] != column - starts),
    )
    yield (
        "a sequence does not start with [CLS]",
        is_start & (features["input_ids"] != vocabulary.cls_id),
    )
    if LABEL_POSITIONS_FEATURE in features:
        is_counted = features[LABEL_WEIGHTS_FEATURE] > 0
        number = 1 + np.arange(is_counted.shape[1])
        yield (
            "the labels do not match the sequences",
            is_counted != (number <= sequences.max(1)[:, None]),
        )
        positions = np.clip(features[LABEL_POSITIONS_FEATURE], 0, column[-1])
        started = np.where(is_start, sequences, 0)
        yield (
            "the position of a label is not the [CLS] of its sequence",
            is_counted & (np.take_along_axis(started, positions, axis=1) != number),
        )


def _id_problem(ids: np.ndarray, vocabulary: Vocabulary) -> Problem:
    size = len(vocabulary)
    problem = f"an id is outside the vocabulary of {size} tokens; is it the right one?"
    return problem, (ids < 0) | (ids >= size)
