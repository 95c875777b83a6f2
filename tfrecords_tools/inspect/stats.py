"""Computes histograms over all records of files."""

import os
from collections.abc import Sequence

import numpy as np

from bert_keras.data.records import common_schema
from bert_keras.data.schema import LABEL_FEATURE, WEIGHTS_FEATURE
from bert_keras.progress import progress
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.inspect.histograms import Histogram
from tfrecords_tools.inspect.verify import every_file, is_labelled, verified_batches
from tfrecords_tools.manifest import label_names

LABELS, INPUTS = "labels", "input at predicted positions"
POSITIONS, SEQUENCE_LENGTHS = "position of predictions", "tokens in a sequence"
# What is counted, by title; in all other histograms "records".
_COUNTED = {
    LABELS: "sequences",
    INPUTS: "predictions",
    POSITIONS: "predictions",
    SEQUENCE_LENGTHS: "sequences",
}


def record_histograms(
    records: str | os.PathLike | Sequence[str | os.PathLike], *, vocabulary: Vocabulary
) -> list[Histogram]:
    """Reads all records and returns histograms of lengths, predictions, labels and sequences."""
    files = every_file(records)
    schema = common_schema(files)
    names = {LABELS: label_names(files[0]), INPUTS: ("[MASK]", "another token", "same token")}
    totals: dict[str, np.ndarray] = {}
    with progress(stage="read", unit="record") as bar:
        for file in files:
            for _, features in verified_batches(file, schema=schema, vocabulary=vocabulary):
                for title, values in _values(features, vocabulary).items():
                    num_values = max(len(totals.get(title, ())), len(names.get(title, ())))
                    counts = np.bincount(values.ravel(), minlength=num_values)
                    if title in totals:
                        counts[: len(totals[title])] += totals[title]
                    totals[title] = counts
                bar.update(len(features["input_ids"]))
    return [
        Histogram(title, _COUNTED.get(title, "records"), counts, names.get(title, ()))
        for title, counts in totals.items()
    ]


def _values(features: dict[str, np.ndarray], vocabulary: Vocabulary) -> dict[str, np.ndarray]:
    """Returns the values of a batch by the title of their histogram."""
    ids = features["input_ids"]
    values = {"tokens in a record": features["input_mask"].sum(axis=1)}
    if "sequence_ids" in features:
        sequences = features["sequence_ids"]
        values["sequences in a record"] = sequences.max(axis=1)
        rows = np.arange(len(ids))[:, None] * (ids.shape[1] + 1)
        lengths = np.bincount((rows + sequences)[sequences > 0])
        values[SEQUENCE_LENGTHS] = lengths[lengths > 0]
    if WEIGHTS_FEATURE in features:
        is_counted, positions = features[WEIGHTS_FEATURE] > 0, features["masked_lm_positions"]
        inputs = np.take_along_axis(ids, positions, axis=1)
        is_kept = inputs == features["masked_lm_ids"]
        kinds = np.where(inputs == vocabulary.mask_id, 0, np.where(is_kept, 2, 1))
        values["predictions in a record"] = is_counted.sum(axis=1)
        values[POSITIONS] = positions[is_counted]
        values[INPUTS] = kinds[is_counted]
    if LABEL_FEATURE in features:
        values[LABELS] = features[LABEL_FEATURE][is_labelled(features)]
    return values
