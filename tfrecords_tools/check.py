"""Verifies every record of files, and compares files with their manifest."""

import glob
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from tqdm import tqdm

from bert_keras.data import record_file
from bert_keras.data.record_file import PretrainingSchema, RecordParser, common_schema
from bert_keras.errors import InputError
from bert_keras.files import StrPath, file_sha256
from bert_keras.text.fast_tokenizer import vocabulary_sha256
from bert_keras.text.packing import packing_features
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.settings import MANIFEST, read_manifest, shards_of

BATCH = 1024  # records
Features = dict[str, np.ndarray]
Problem = tuple[str, np.ndarray]  # a description; bool [B,n], which elements are wrong


def check_records(
    records: StrPath | Sequence[StrPath], *, vocabulary: Vocabulary
) -> dict[str, int]:
    """Verifies records and returns how many `files`, `records` and `manifests` there are."""
    files, num_records = every_file(records), 0
    for _, _, features in verified_batches(files, vocabulary=vocabulary, stage="check"):
        num_records += len(features["input_ids"])
    digests: dict[Path, dict[str, str]] = defaultdict(dict)  # folder -> name -> SHA-256
    for file in files:
        digests[Path(file).parent][Path(file).name] = file_sha256(file)
    paths = [records] if isinstance(records, (str, os.PathLike)) else records
    whole, num_manifests = {Path(path) for path in paths if os.path.isdir(path)}, 0
    for folder, actual in digests.items():
        if manifest := read_manifest(folder):
            num_manifests += 1
            stated = {name: shard["sha256"] for name, shard in shards_of(manifest).items()}
            stated["vocabulary"] = manifest["vocabulary"]["sha256"]
            actual["vocabulary"] = vocabulary_sha256(vocabulary)
            for name in sorted(actual.keys() | stated.keys() if folder in whole else actual):
                if actual.get(name) != stated.get(name):
                    raise InputError(
                        f"{folder / name} is missing, was changed or does not belong to these "
                        f"records: it differs from its SHA-256 in {MANIFEST}"
                    )
    return {"files": len(files), "records": num_records, "manifests": num_manifests}


def every_file(records: StrPath | Sequence[StrPath]) -> list[str]:
    """Returns the named record files; a folder includes all splits, held-out records too."""
    paths = [records] if isinstance(records, (str, os.PathLike)) else records
    return record_file.record_files(
        [f"{glob.escape(os.fspath(p))}/*.tfrecord" if os.path.isdir(p) else p for p in paths]
    )


def verified_batches(
    files: Sequence[str], *, vocabulary: Vocabulary, stage: str
) -> Iterator[tuple[str, int, Features]]:
    """Yields (file, index in the file of the first record, features) of verified batches."""
    schema = common_schema(files)
    for file in tqdm(files, desc=stage, unit=" file", disable=not stage):
        first = 0
        for features in parsed_batches(file, schema=schema, vocab_size=len(vocabulary)):
            if row_and_problem := first_problem(features, vocabulary):
                row, problem = row_and_problem
                raise InputError(f"{file}, record {first + row + 1}: {problem}")
            yield file, first, features
            first += len(features["input_ids"])


def parsed_batches(file: str, *, schema: PretrainingSchema, vocab_size: int) -> Iterator[Features]:
    """Yields the features of a file, arrays [B,n], in the order of the file."""
    parse = RecordParser(schema, limits=schema.limits(vocab_size))
    records = record_file.read_records(file)
    while batch := [(file, record) for record in islice(records, BATCH)]:
        yield parse(batch)


def is_labelled(features: Features) -> np.ndarray:
    """Returns bool [B,S]: which labels are used. Records with one sequence use all of them."""
    labels = features["next_sentence_labels"]
    return features.get("next_sentence_weights", np.ones_like(labels)) > 0


def first_problem(features: Features, vocabulary: Vocabulary) -> tuple[int, str] | None:
    """Returns the row and the problem of the first wrong record found, or None if all are right."""
    for problem, is_wrong in _problems(features, vocabulary):
        if is_wrong.any():
            return int(is_wrong.any(axis=1).argmax()), problem
    return None


def _problems(features: Features, vocabulary: Vocabulary) -> Iterator[Problem]:
    ids, mask = features["input_ids"], features["input_mask"]
    is_real = np.arange(ids.shape[1]) < mask.sum(axis=1, keepdims=True)
    yield "input_mask is not ones and then zeros", mask != is_real
    without_cls = "the sequence does not start with [CLS]; is this the right vocabulary?"
    yield without_cls, ids[:, :1] != vocabulary.cls_id
    if "masked_lm_weights" in features:
        positions, is_counted = features["masked_lm_positions"], features["masked_lm_weights"] > 0
        ends = np.where(is_counted, mask.sum(axis=1, keepdims=True), mask.shape[1])
        distinct = np.where(is_counted, positions, -1 - np.arange(positions.shape[1]))
        yield "a masked position is outside the sequence", positions >= ends
        yield "a position is masked twice", np.diff(np.sort(distinct, axis=1), axis=1) == 0
        yield "no position is predicted", is_counted.sum(axis=1, keepdims=True) == 0
    if "sequence_ids" not in features:
        return
    expected = packing_features(features, cls_id=vocabulary.cls_id)
    for name, values in expected.items():
        yield f"{name} do not restart or count on at each [CLS]", features[name] != values
    if "next_sentence_positions" in features:
        is_counted, sequences = features["next_sentence_weights"] > 0, features["sequence_ids"]
        sequence_id = 1 + np.arange(is_counted.shape[1])  # of each label
        is_wrong = is_counted != (sequence_id <= sequences.max(axis=1, keepdims=True))
        yield "the labels do not match the sequences", is_wrong
        positions = features["next_sentence_positions"]
        started = np.where(ids == vocabulary.cls_id, sequences, 0)  # the sequence of each [CLS]
        is_wrong = is_counted & (np.take_along_axis(started, positions, axis=1) != sequence_id)
        yield "the position of a label is not the [CLS] of its sequence", is_wrong
