"""Defines the features of a pretraining record: their names, types and lengths.

The names are those of google-research/bert `create_pretraining_data.py`, so the files that it
writes can be used unchanged. `next_sentence_labels` is 1 for a random second text and 0 for the
actual next text.

Legend: L positions of a record, P predictions of a record, S sequences of a record.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bert_keras.errors import InputError, check, check_least, counted
from bert_keras.files import StrPath, existing_file

SEQUENCE_FEATURES = ("input_ids", "input_mask", "segment_ids")  # int64 [L]
PREDICTION_FEATURES = ("masked_lm_positions", "masked_lm_ids")  # int64 [P], padded with 0
WEIGHTS_FEATURE = "masked_lm_weights"  # float32 [P], 0 where padded
LABEL_FEATURE = "next_sentence_labels"  # int64 [S]
# Features of records with several sequences. A token attends only to tokens with the same
# `sequence_ids`, which count from 1 and are 0 for padding. `position_ids` restart at 0 at each
# [CLS].
PACKING_FEATURES = ("position_ids", "sequence_ids")  # int64 [L]
LABEL_POSITIONS_FEATURE = "next_sentence_positions"  # int64 [S], of each [CLS], padded with 0
LABEL_WEIGHTS_FEATURE = "next_sentence_weights"  # float32 [S], 0 where padded
_PACKED_LABEL_FEATURES = (LABEL_POSITIONS_FEATURE, LABEL_WEIGHTS_FEATURE)
_FLOATS = (WEIGHTS_FEATURE, LABEL_WEIGHTS_FEATURE)
SHORTEST_RECORD = 5  # [CLS] A [SEP] B [SEP]
LONGEST_RECORD = 2**16  # positions; a batch of 1,024 records then takes 0.5 GB for each feature


@dataclass(frozen=True)
class PretrainingSchema:
    """The shape of the records of a file.

    Raises:
        InputError: A field is too small; the message names it.
    """

    max_length: int = 128  # positions of a record (L)
    # Predictions of a record (P). With 0, records hold plain ids and are masked when they are read.
    max_predictions: int = 20
    has_labels: bool = True  # whether each sequence has a next sentence label
    # Maximum number of sequences that share a record (S). A record without labels does not depend
    # on this number, so any value above 1 becomes max(2, L // 3), the largest possible number.
    max_sequences: int = 1

    def __post_init__(self):
        check_least(self, SHORTEST_RECORD, "max_length", most=LONGEST_RECORD)
        check_least(self, 0, "max_predictions", most=LONGEST_RECORD)
        check_least(self, 1, "max_sequences", most=LONGEST_RECORD)
        if self.max_sequences > 1 and not self.has_labels:
            object.__setattr__(self, "max_sequences", max(2, self.max_length // 3))

    @property
    def lengths(self) -> dict[str, int]:
        """The number of values of each feature, in the order in which records are written."""
        lengths: dict[str, int] = dict.fromkeys(SEQUENCE_FEATURES, self.max_length)
        if self.max_predictions:
            lengths |= dict.fromkeys((*PREDICTION_FEATURES, WEIGHTS_FEATURE), self.max_predictions)
        if self.is_packed:
            lengths |= dict.fromkeys(PACKING_FEATURES, self.max_length)
        if self.has_labels:
            lengths[LABEL_FEATURE] = self.max_sequences
        if self.has_labels and self.is_packed:
            lengths |= dict.fromkeys(_PACKED_LABEL_FEATURES, self.max_sequences)
        return dict(sorted(lengths.items()))

    @property
    def is_packed(self) -> bool:
        """Whether several sequences share a record."""
        return self.max_sequences > 1

    def __str__(self) -> str:
        labels = "with" if self.has_labels else "without"
        packed = f", up to {self.max_sequences} sequences each" if self.is_packed else ""
        return (
            f"{self.max_length} positions and {counted(self.max_predictions, 'prediction')}, "
            f"{labels} next sentence labels{packed}"
        )

    def parsing_spec(self) -> dict[str, Any]:
        """Returns the `features` argument of `tf.io.parse_example`, which parses whole batches."""
        import tensorflow as tf

        return {
            name: tf.io.FixedLenFeature([length], tf.as_dtype(feature_dtype(name)))
            for name, length in self.lengths.items()
        }


def feature_dtype(name: str) -> str:
    """Returns the dtype of a feature of a record, "int64" or "float32"."""
    return "float32" if name in _FLOATS else "int64"


def schema_of(path: StrPath) -> PretrainingSchema:
    """Returns the schema of a record file, from its first record.

    Raises:
        InputError: The file is missing, empty or damaged, or its records have other features.
    """
    import tensorflow as tf

    path = os.fspath(existing_file(path))
    try:
        (first,) = tf.data.TFRecordDataset([path]).take(1).as_numpy_iterator()
        features = tf.train.Example.FromString(first).features.feature
    except Exception as error:  # of TensorFlow or protobuf, or the ValueError of an empty file
        raise InputError(
            f"{path} is empty, compressed, damaged or no TFRecord file; write the records again"
        ) from error
    kinds = {"int64": "int64_list", "float32": "float_list"}
    counts = {
        name: len(getattr(values, kinds[feature_dtype(name)]).value)
        for name, values in features.items()
    }
    schema = _nearest_schema(counts)
    wrong = [
        f"{name} ({counts.get(name, 0)}, not {length})"
        for name, length in schema.lengths.items()
        if counts.get(name) != length
    ]
    check(not wrong, f"{path} has no pretraining records, by the number of {', '.join(wrong)}")
    return schema


def _nearest_schema(counts: Mapping[str, int]) -> PretrainingSchema:
    """Returns the schema that fits these numbers of values best; features may be missing."""

    def has_any(*features):
        return any(name in counts for name in features)

    is_packed = has_any(*PACKING_FEATURES, *_PACKED_LABEL_FEATURES)
    has_predictions = has_any(*PREDICTION_FEATURES, WEIGHTS_FEATURE)
    return PretrainingSchema(
        max(SHORTEST_RECORD, counts.get("input_ids", 0)),
        counts.get("masked_lm_positions", int(has_predictions)),
        has_labels=has_any(LABEL_FEATURE, *_PACKED_LABEL_FEATURES),
        max_sequences=max(2, counts.get(LABEL_FEATURE, 0)) if is_packed else 1,
    )
