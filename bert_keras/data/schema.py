"""Defines the features of a pretraining record: their names, types and lengths.

The names are those of google-research/bert `create_pretraining_data.py`, whose files can be used
unchanged. `next_sentence_labels` is 1 for a random second text and 0 for the actual next text.

Legend: L positions of a record, P predictions of a record, S sequences of a record.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bert_keras.data.record_file import FLOATS, INTEGERS, packed_features, read_records
from bert_keras.errors import InputError, check_least, counted
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
    """The shape of the records of a file; raises InputError for a field that is too small."""

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

    def limits(self, vocab_size: int | None) -> dict[str, int]:
        """Returns the number that all values of a feature of integers are below."""
        positions = ("position_ids", "masked_lm_positions", LABEL_POSITIONS_FEATURE)
        limits: dict[str, int] = dict.fromkeys(positions, self.max_length)
        limits |= dict.fromkeys(("input_ids", "masked_lm_ids"), vocab_size or 2**31)
        limits |= dict.fromkeys(("input_mask", "segment_ids", LABEL_FEATURE), 2)
        return limits | {"sequence_ids": self.max_length + 1}


def feature_kind(name: str) -> int:
    """Returns the kind of a feature of a record, `FLOATS` or `INTEGERS`."""
    return FLOATS if name in _FLOATS else INTEGERS


def schema_of(path: StrPath) -> PretrainingSchema:
    """Returns the schema of a record file, from its first record.

    Raises:
        InputError: The file is missing, empty or damaged, or its records have other features.
    """
    path = os.fspath(existing_file(path))
    try:
        features = packed_features(next(read_records(path)))
    except (StopIteration, ValueError) as error:
        raise InputError(
            f"{path} is empty, damaged, or not a TFRecord file; write the records again"
        ) from error
    counts = {name: _num_values(name, *feature) for name, feature in features.items()}
    schema = _nearest_schema(counts)
    wrong = [
        f"{name} ({counts.get(name, 0)}, not {length})"
        for name, length in schema.lengths.items()
        if counts.get(name) != length
    ]
    if wrong:
        raise InputError(f"{path} has no pretraining records, by the number of {', '.join(wrong)}")
    return schema


def _num_values(name: str, kind: int, values: bytes) -> int:
    if kind != feature_kind(name):
        return 0
    return len(values) // 4 if kind == FLOATS else sum(byte < 128 for byte in values)


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


def common_schema(files: Sequence[str]) -> PretrainingSchema:
    """Returns the schema of the first record of all files; InputError if they differ."""
    first, *others = files
    expected = schema_of(first)
    for file in others:
        if (schema := schema_of(file)) != expected:
            raise InputError(f"{file} has records of {schema}, but {first} of {expected}")
    return expected
