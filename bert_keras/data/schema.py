"""The contract between the writer and the reader: names, types and lengths of a record's features.

The names are those of google-research/bert `create_pretraining_data.py`, so its files train as
they are. `next_sentence_labels` is 1 for a random next text and 0 for the true one.
"""

import os
from dataclasses import dataclass

from bert_keras.errors import InputError

SEQUENCE_FEATURES = ("input_ids", "input_mask", "segment_ids")  # int64 [L]
PREDICTION_FEATURES = ("masked_lm_positions", "masked_lm_ids")  # int64 [P], padded with 0
WEIGHTS_FEATURE = "masked_lm_weights"  # float32 [P], 0 where padded
LABEL_FEATURE = "next_sentence_labels"  # int64 [1]


@dataclass(frozen=True)
class PretrainingSchema:
    """Records of `max_length` positions (L) with room for `max_predictions` answers (P)."""

    max_length: int = 128
    max_predictions: int = 20

    def __post_init__(self):
        if self.max_length < 5:
            raise InputError(
                f"max_length is {self.max_length}; expected at least 5: [CLS] A [SEP] B [SEP]"
            )
        if self.max_predictions < 1:
            raise InputError(f"max_predictions is {self.max_predictions}; expected at least 1")

    @property
    def lengths(self) -> dict[str, int]:
        """How many values each feature holds, in the order in which records are written."""
        return dict(
            sorted(
                [(name, self.max_length) for name in SEQUENCE_FEATURES]
                + [(name, self.max_predictions) for name in PREDICTION_FEATURES]
                + [(WEIGHTS_FEATURE, self.max_predictions), (LABEL_FEATURE, 1)]
            )
        )

    def parsing_spec(self) -> dict:
        """What `tf.io.parse_example` needs to read whole batches."""
        import tensorflow as tf

        return {
            name: tf.io.FixedLenFeature([length], _dtype(name))
            for name, length in self.lengths.items()
        }


def schema_of(path: str | os.PathLike) -> PretrainingSchema:
    """The schema of a record file, read off its first record.

    Raises InputError for a file that is missing, empty, broken, or of other features.
    """
    import tensorflow as tf

    path = os.fspath(path)
    try:
        first = next(iter(tf.data.TFRecordDataset([path]).take(1).as_numpy_iterator()), None)
    except tf.errors.NotFoundError as error:
        raise InputError(f"{path} does not exist; expected a TFRecord file") from error
    except (tf.errors.DataLossError, tf.errors.OutOfRangeError) as error:
        raise InputError(
            f"{path} is not a whole TFRecord file (its first record is truncated or corrupt); "
            "write it again"
        ) from error
    except tf.errors.FailedPreconditionError as error:
        raise InputError(f"{path} is a folder; expected a TFRecord file") from error
    if first is None:
        raise InputError(f"{path} holds no records; expected a TFRecord file")
    try:
        features = tf.train.Example.FromString(first).features.feature
    except Exception as error:  # protobuf's DecodeError has moved between versions
        raise InputError(f"{path} holds records that are not tf.train.Example") from error
    return _checked(path, features)


def _checked(path: str, features) -> PretrainingSchema:
    """The schema that the features of one parsed record fit, or an InputError."""
    needed = PretrainingSchema().lengths
    missing = [name for name in needed if name not in features]
    if missing:
        found = ", ".join(sorted(features)) or "no features"
        raise InputError(
            f"{path} does not hold pretraining records: it lacks {', '.join(missing)} "
            f"(it has {found})"
        )
    values = {name: getattr(features[name], _field(name)).value for name in needed}
    schema = PretrainingSchema(len(values["input_ids"]), len(values["masked_lm_positions"]))
    for name, length in schema.lengths.items():
        if len(values[name]) != length:
            raise InputError(
                f"{path}: {name} holds {len(values[name])} {_field(name)} values; expected {length}"
            )
    return schema


def _field(name: str) -> str:
    return "float_list" if name == WEIGHTS_FEATURE else "int64_list"


def _dtype(name: str):
    import tensorflow as tf

    return tf.float32 if name == WEIGHTS_FEATURE else tf.int64
