"""Record files and their vocabulary come in; counts go out, or an error at the first wrong record.

TensorFlow's own reader is used on purpose: what passes here, it can read.
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from bert_keras.data.records import common_schema, readable_records, record_files
from bert_keras.data.schema import LABEL_FEATURE, PretrainingSchema
from bert_keras.errors import InputError
from bert_keras.progress import progress
from bert_keras.storage import json_object
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.build import MANIFEST

BATCH = 1024


def check(
    records: str | os.PathLike | Sequence[str | os.PathLike], *, vocabulary: Vocabulary
) -> dict[str, int]:
    """Counts over all records; InputError at the first record that cannot be right."""
    files = every_file(records)
    schema = common_schema(files)
    counts: Counter[str] = Counter(files=len(files))
    with progress(stage="check", unit="record") as bar:
        for file in files:
            first = 0
            for features in parsed_batches(file, schema=schema):
                verify(features, file=file, first=first, vocabulary=vocabulary)
                counts.update(counted(features, vocabulary=vocabulary))
                first += len(features["input_ids"])
                bar.update(len(features["input_ids"]))
            _compare_with_manifest(file, first)
    return dict(counts)


def _compare_with_manifest(file: str, num_records: int) -> None:
    """A file cut between two records shows only in the counts of the manifest beside it."""
    manifest = Path(file).with_name(MANIFEST)
    if not manifest.is_file():
        return
    for split in json_object(manifest).get("splits", {}).values():
        for shard in split["shards"]:
            if shard["file"] == os.path.basename(file) and shard["records"] != num_records:
                raise InputError(
                    f"{file} holds {num_records} records, but {MANIFEST} beside it says "
                    f"{shard['records']}; write it again"
                )


def every_file(records: str | os.PathLike | Sequence[str | os.PathLike]) -> list[str]:
    """The record files that were named; of a folder all splits, held-out records too."""
    places = [records] if isinstance(records, (str, os.PathLike)) else records
    return record_files(
        [os.path.join(each, "*.tfrecord") if os.path.isdir(each) else each for each in places]
    )


def parsed_batches(file: str, *, schema: PretrainingSchema) -> Iterator[dict[str, np.ndarray]]:
    """The features of one file, arrays [B,n], in the order of the file."""
    import tensorflow as tf

    spec = schema.parsing_spec()
    records = tf.data.TFRecordDataset([file]).batch(BATCH)
    with readable_records(file):
        yield from records.map(lambda batch: tf.io.parse_example(batch, spec)).as_numpy_iterator()


def verify(
    features: dict[str, np.ndarray], *, file: str, first: int, vocabulary: Vocabulary
) -> None:
    """Raises InputError naming the first record of the batch that breaks the contract, and how.

    `first` is the number of records that stand before this batch in `file`.
    """
    ids, answers = features["input_ids"], features["masked_lm_ids"]
    positions, is_counted = features["masked_lm_positions"], features["masked_lm_weights"] > 0
    lengths = features["input_mask"].sum(axis=1, keepdims=True)
    size = len(vocabulary)
    column, slot = np.arange(ids.shape[1]), np.arange(positions.shape[1])
    distinct = np.sort(np.where(is_counted, positions, -1 - slot), axis=1)
    faults = {
        f"an id is outside the vocabulary of {size} pieces": np.concatenate(
            [(ids < 0) | (ids >= size), (answers < 0) | (answers >= size)], axis=1
        ),
        "input_mask is not ones and then zeros": features["input_mask"] != (column < lengths),
        "a segment is neither 0 nor 1": ~np.isin(features["segment_ids"], (0, 1)),
        "a masked position is outside the sequence": (
            is_counted & ((positions < 0) | (positions >= lengths))
        ),
        "a position is masked twice": np.diff(distinct, axis=1) == 0,
        "nothing is to be predicted": ~is_counted.any(axis=1, keepdims=True),
        "the sequence does not begin with [CLS]": ids[:, :1] != vocabulary.cls_id,
        "the next sentence label is neither 0 nor 1": ~np.isin(features[LABEL_FEATURE], (0, 1)),
    }
    for fault, places in faults.items():
        if places.any():
            number = first + int(places.any(axis=1).argmax()) + 1
            raise InputError(f"{file}, record {number}: {fault}; is this the right vocabulary?")


def counted(features: dict[str, np.ndarray], *, vocabulary: Vocabulary) -> dict[str, int]:
    """What a batch adds to the counts."""
    ids, answers = features["input_ids"], features["masked_lm_ids"]
    is_counted = features["masked_lm_weights"] > 0
    shown = np.take_along_axis(ids, features["masked_lm_positions"], axis=1)
    is_text = (
        (features["input_mask"] == 1) & (ids != vocabulary.cls_id) & (ids != vocabulary.sep_id)
    )
    counts = {
        "records": len(ids),
        "positions": ids.size,
        "tokens": features["input_mask"].sum(),
        "text": is_text.sum(),
        "unknown": (is_text & (ids == vocabulary.unk_id)).sum(),
        "random_next": features[LABEL_FEATURE].sum(),
        "predicted": is_counted.sum(),
        "masked": (is_counted & (shown == vocabulary.mask_id)).sum(),
        "kept": (is_counted & (shown == answers)).sum(),
    }
    return {name: int(count) for name, count in counts.items()}


def report(counts: dict[str, int]) -> str:
    """The counts as lines a person reads."""
    replaced = counts["predicted"] - counts["masked"] - counts["kept"]
    shares = {
        "random next": counts["random_next"] / counts["records"],
        "padding": 1 - counts["tokens"] / counts["positions"],
        "predicted": counts["predicted"] / counts["tokens"],
        "  shown as [MASK]": counts["masked"] / counts["predicted"],
        "  shown as another": replaced / counts["predicted"],
        "  shown as it is": counts["kept"] / counts["predicted"],
        "[UNK] in the text": counts["unknown"] / counts["text"],
    }
    lines = [f"{'files':<20}{counts['files']:>12,}", f"{'records':<20}{counts['records']:>12,}"]
    return "\n".join([*lines, *(f"{name:<20}{share:>12.2%}" for name, share in shares.items())])
