"""Record files come in; shuffled batches for `fit` go out as a `tf.data.Dataset`, parsed whole."""

import contextlib
import glob
import os
from collections.abc import Iterator, Sequence

from bert_keras.data.schema import (
    LABEL_FEATURE,
    PREDICTION_FEATURES,
    SEQUENCE_FEATURES,
    WEIGHTS_FEATURE,
    PretrainingSchema,
    schema_of,
)
from bert_keras.errors import InputError

SHUFFLE_BUFFER = 50_000  # records; about 1 KB each at 128 positions
FILES_AT_ONCE = 16


def record_files(records: str | os.PathLike | Sequence[str | os.PathLike]) -> list[str]:
    """The sorted record files of a folder, a pattern, or a list of these.

    Of a folder it takes `train*.tfrecord`, and where there are none every `*.tfrecord`.
    """
    if isinstance(records, (str, os.PathLike)):
        records = [records]
    found = {file for each in records for file in _files_of(os.fspath(each))}
    if not found:
        raise InputError("no record files were named; expected a folder, a pattern or files")
    return sorted(found)


def _files_of(place: str) -> list[str]:
    if os.path.isdir(place):
        folder = glob.escape(place)
        found = glob.glob(f"{folder}/train*.tfrecord") or glob.glob(f"{folder}/*.tfrecord")
        if not found:
            raise InputError(
                f"{place} holds no *.tfrecord files; write some or name another folder"
            )
        return found
    found = [place] if os.path.isfile(place) else [f for f in glob.glob(place) if os.path.isfile(f)]
    if not found:
        raise InputError(f"{place} matches no file; expected record files")
    return found


def common_schema(files: Sequence[str]) -> PretrainingSchema:
    """The one schema of all files, read off their first records; InputError where they differ."""
    schemas = {file: schema_of(file) for file in files}
    first = files[0]
    for file, schema in schemas.items():
        if schema != schemas[first]:
            raise InputError(
                f"{file} holds records of {schema}, but {first} of {schemas[first]}; give one kind"
            )
    return schemas[first]


def pretraining_dataset(
    files: str | os.PathLike | Sequence[str | os.PathLike],
    *,
    batch_size: int,
    seed: int | None = None,
    repeat: bool = False,
    drop_remainder: bool = True,
):
    """A `tf.data.Dataset` of (x, y, w), checked on the first record of every file.

    x: int32 `input_ids`, `input_mask`, `segment_ids` [B,L], `masked_lm_positions` [B,P];
    y: int32 `masked_lm` [B,P], `next_sentence` [B]; w: float32, the same names and shapes as y.
    With a seed files and records are shuffled, anew each epoch, and the same seed gives the same
    batches, so a run resumes with `.skip(n)`; a seed given to `tf.random.set_seed` takes part in
    this. Without a seed they come in the order of the files. Unless it repeats, the data set knows
    its number of batches; for that all files are read once.
    """
    import tensorflow as tf

    if batch_size < 1:
        raise InputError(f"batch_size is {batch_size}; expected at least 1")
    files = record_files(files)
    spec = common_schema(files).parsing_spec()
    if seed is None:
        records = tf.data.TFRecordDataset(files)
    else:
        records = (
            tf.data.Dataset.from_tensor_slices(files)
            .shuffle(len(files), seed=seed)
            .interleave(
                tf.data.TFRecordDataset,
                cycle_length=min(len(files), FILES_AT_ONCE),
                block_length=16,
                num_parallel_calls=tf.data.AUTOTUNE,
            )
            .shuffle(SHUFFLE_BUFFER, seed=seed)
        )
    if repeat:
        records = records.repeat()

    def parsed(serialized):
        return inputs_targets_weights(tf.io.parse_example(serialized, spec))

    batches = records.batch(batch_size, drop_remainder=drop_remainder).map(
        parsed, num_parallel_calls=tf.data.AUTOTUNE
    )
    if not repeat:
        # Where Keras does not know the number of batches, it runs a step more than there are and
        # counts it in the means of the losses.
        num_records = _num_records(files)
        num_batches = num_records // batch_size if drop_remainder else -(-num_records // batch_size)
        batches = batches.apply(tf.data.experimental.assert_cardinality(num_batches))
    return batches.prefetch(tf.data.AUTOTUNE)


def _num_records(files: list[str]) -> int:
    """Counted by reading them, unparsed: about 170,000 a second on one core."""
    import tensorflow as tf

    count = 0
    for file in files:
        with readable_records(file):
            count += sum(len(batch) for batch in tf.data.TFRecordDataset(file).batch(1024))
    return count


def inputs_targets_weights(features: dict) -> tuple[dict, dict, dict]:
    """(x, y, w) as `fit` takes them, of a parsed batch of features."""
    import tensorflow as tf

    positions, answers = PREDICTION_FEATURES
    inputs = {name: tf.cast(features[name], tf.int32) for name in (*SEQUENCE_FEATURES, positions)}
    labels = tf.cast(features[LABEL_FEATURE][:, 0], tf.int32)
    targets = {"masked_lm": tf.cast(features[answers], tf.int32), "next_sentence": labels}
    weights = {
        "masked_lm": features[WEIGHTS_FEATURE],
        "next_sentence": tf.ones_like(labels, tf.float32),
    }
    return inputs, targets, weights


@contextlib.contextmanager
def readable_records(
    file: str = "a record file (`bert-tfrecords check` names it)",
) -> Iterator[None]:
    """Turns what TensorFlow raises on a broken record while it reads `file` into InputError."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.DataLossError as error:
        raise InputError(f"{file} is truncated or corrupt; write it again") from error
    except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:
        # TensorFlow quotes the bytes of what it cannot parse, which Python then cannot decode.
        if "ParseExample" not in str(error) and not isinstance(error, UnicodeDecodeError):
            raise  # not about a record
        raise InputError(
            f"{file} holds a record without the features of the first one; write it again"
        ) from error
