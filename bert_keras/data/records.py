"""Reads record files and returns a `tf.data.Dataset` of batches for `model.fit`."""

import glob
import os
from collections.abc import Sequence

import tensorflow as tf

from bert_keras.data.objectives import MASKED_AND_LABELLED, DynamicMasking, Examples
from bert_keras.data.record_file import num_records
from bert_keras.data.schema import PretrainingSchema, schema_of
from bert_keras.errors import check
from bert_keras.files import StrPath

SHUFFLE_BUFFER = 50_000  # records; about 1 KB each at 128 positions
PLAIN_IDS = "plain ids, which bert-tfrecords build --max-predictions 0 writes"
FILES_AT_ONCE = 16  # files that are read interleaved


def record_files(records: StrPath | Sequence[StrPath]) -> list[str]:
    """Returns the sorted paths of the record files that folders, patterns or file names match.

    Args:
        records: A folder, a glob pattern, a file, or a sequence of these. A folder stands for its
            `train*.tfrecord` files; without such files, for all its `*.tfrecord` files.

    Raises:
        InputError: One of `records` matches no file.
    """
    if isinstance(records, (str, os.PathLike)):
        records = [records]
    files = {file for pattern in records for file in _files_of(os.fspath(pattern))}
    return sorted(files)


def _files_of(pattern: str) -> list[str]:
    if os.path.isdir(pattern):
        folder = glob.escape(pattern)
        files = glob.glob(f"{folder}/train*.tfrecord") or glob.glob(f"{folder}/*.tfrecord")
    else:
        files = [file for file in (pattern, *glob.glob(pattern)) if os.path.isfile(file)]
    check(files, f"{pattern} contains or matches no *.tfrecord files; expected record files")
    return files


def common_schema(files: Sequence[str]) -> PretrainingSchema:
    """Returns the schema that all files share; it is read from the first record of each file.

    Raises:
        InputError: The files have different schemas, or `schema_of` refuses one of them.
    """
    first, *others = files
    expected = schema_of(first)
    for file in others:
        schema = schema_of(file)
        check(schema == expected, f"{file} has records of {schema}, but {first} of {expected}")
    return expected


def pretraining_dataset(  # noqa: PLR0913 - public; each argument is optional
    files: StrPath | Sequence[StrPath],
    *,
    batch_size: int,
    seed: int | None = None,
    repeat: bool = False,
    drop_remainder: bool = True,
    masking: DynamicMasking | None = None,
    objective: Examples = MASKED_AND_LABELLED,
    most: int | None = None,
):
    """Reads record files as a `tf.data.Dataset` of (inputs, targets, weights).

    `inputs` holds int32 `input_ids`, `input_mask` and `segment_ids` [B, L] and
    `masked_lm_positions` [B, P]; `targets` holds int32 `masked_lm` [B, P] and `next_sentence` [B];
    `weights` holds float32 arrays with the names and shapes of `targets`. If several sequences
    share a record, `inputs` also holds `position_ids` and `sequence_ids` [B, L] and
    `next_sentence_positions` [B, S], and `next_sentence` is [B, S]. Records without labels give no
    `next_sentence`.

    The same seed gives the same batches, so a run can resume with `.skip(n)` on a new dataset; a
    second iterator of one dataset continues its random numbers. A seed set by `tf.random.set_seed`
    also influences the order. Without `repeat` and `most`, all files are read once to count the
    batches. A file that is damaged later raises an error of TensorFlow (see `readable_records`).

    Args:
        files: A folder with training records, or file names or glob patterns.
        batch_size: Records of a batch.
        seed: Shuffles files and records, differently in each epoch; None keeps their order.
        repeat: Whether the dataset repeats without end.
        drop_remainder: Whether to drop a last batch with fewer records.
        masking: Masks records of plain ids while they are read, differently in each epoch. Without
            `repeat`, each pass over the dataset gives the same masks.
        objective: The objective of bert_keras/data/objectives.py. `MASKED` gives no
            `next_sentence`; `NEXT_TOKENS` needs plain ids and has a target at each of P = L - 1
            positions.
        most: Maximum number of records to read; None reads all.

    Raises:
        InputError: A file is missing or not a record file, files differ in their features, or
            `masking` and `objective` do not fit the records.

    Example:

    ```python
    records = pretraining_dataset("records", batch_size=32, seed=1, repeat=True)
    inputs, targets, weights = next(iter(records))
    ```
    """
    files = record_files(files)
    schema = common_schema(files)
    check_examples(files[0], schema, objective)
    has_masks = schema.max_predictions > 0 or not objective.reads_masks
    check(not (has_masks and masking), f"{files[0]} needs no masks; leave out `masking`")
    check(has_masks or masking, f"{files[0]} contains records of plain ids; pass `masking`")
    spec = schema.parsing_spec()
    names = tf.data.Dataset.from_tensor_slices(files)
    if seed is None:
        records = names.flat_map(tf.data.TFRecordDataset)
    else:
        records = (
            names.shuffle(len(files), seed=seed)
            .interleave(
                tf.data.TFRecordDataset,
                cycle_length=min(len(files), FILES_AT_ONCE),
                block_length=16,
                num_parallel_calls=tf.data.AUTOTUNE,
            )
            .shuffle(SHUFFLE_BUFFER, seed=seed)
        )
    if most is not None:
        records = records.take(most)
    if repeat:
        records = records.repeat()
    batches = records.batch(batch_size, drop_remainder=drop_remainder).map(
        lambda serialized: tf.io.parse_example(serialized, spec),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    if not repeat and most is None:
        # If Keras does not know the number of batches, it runs one step too many and includes it
        # in the mean losses.
        total = sum(num_records(file) for file in files)
        num_batches = total // batch_size if drop_remainder else -(-total // batch_size)
        batches = batches.apply(tf.data.experimental.assert_cardinality(num_batches))
    batches = without_autotuning(batches)
    if masking:
        batches = batches.enumerate().map(masking.masked)
    return batches.map(objective.from_features).prefetch(2)


def check_examples(file: str, schema: PretrainingSchema, objective: Examples) -> None:
    """Raises InputError if `file` contains masked records and the objective needs plain ids."""
    is_usable = not (schema.max_predictions and objective.needs_plain_ids)
    check(is_usable, f"{file} contains masked records; this objective needs {PLAIN_IDS}")


def without_autotuning(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Turns off tf.data's autotuning for a dataset and for what is built on it.

    With autotuning, the end of an iterator can wait for a sleeping thread, for up to ten seconds
    in long runs. Without it, `num_parallel_calls=tf.data.AUTOTUNE` means one call for each core, 16
    at most.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
