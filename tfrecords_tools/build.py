"""Text files and a vocabulary come in; a whole folder of pretraining records goes out.

Each stage is a set of jobs that leave files in the folder OUTPUT.partial. What is there is not made
again: a run that was killed goes on where it stopped, and its records are the same bytes.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from bert_keras.errors import InputError
from bert_keras.storage import json_object, resumed_folder, whole_file
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.buckets import bucket_sizes
from tfrecords_tools.corpus import fingerprint, units
from tfrecords_tools.examples import FindInstances
from tfrecords_tools.google import GoogleSettings, write_google
from tfrecords_tools.jobs import Workers
from tfrecords_tools.manifest import FORMAT, MANIFEST, vocabulary_sha256
from tfrecords_tools.places import files
from tfrecords_tools.plan import planned, unchanged, versions
from tfrecords_tools.records import WriteShard
from tfrecords_tools.repairs import Repairs
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.splits import TRAIN, Split, ranges_of, split_size, splits_of
from tfrecords_tools.store import TokenStore, joined
from tfrecords_tools.tokens import TextSettings, TokenizeUnit, counts_of

Settings = BuildSettings | GoogleSettings
VOCABULARY = "vocab.txt"
COUNTS = "counts.json"
SHARD_COUNTS = ("file", "records", "bytes", "sha256")
UNIT_BYTES = 2 << 20  # at least; a corpus becomes about MOST_UNITS units at most
MOST_UNITS = 1000
RECORDS_PER_BUCKET = 100_000
RECORDS_PER_SHARD_AT_LEAST = 250  # where the number of shards is not given


def build(
    places: Iterable[str | os.PathLike],
    *,
    vocabulary: Vocabulary,
    output: str | os.PathLike,
    settings: Settings,
    workers: int = 1,
) -> dict:
    """Writes `output` whole, by `workers` processes; returns the manifest that it leaves there."""
    paths = files(list(places))
    with resumed_folder(output) as folder, Workers(workers) as pool:
        if not (folder / MANIFEST).exists():
            vocabulary.save(folder / VOCABULARY)
            manifest = _built(folder, paths, settings, pool)
            with whole_file(folder / MANIFEST) as part:
                part.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        shutil.rmtree(folder / "work", ignore_errors=True)
        return json_object(folder / MANIFEST)


def _built(folder: Path, paths: Sequence[str], settings: Settings, pool: Workers) -> dict:
    """Everything but the manifest, which it returns."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    vocabulary = Vocabulary.from_file(folder / VOCABULARY)
    inputs = planned(work, files=paths, settings=settings, vocabulary=vocabulary)
    is_google = isinstance(settings, GoogleSettings)
    return {
        "format": FORMAT,
        "compat": "google" if is_google else None,
        "settings": asdict(settings),
        "versions": versions(),
        "inputs": inputs,
        "vocabulary": {
            "file": VOCABULARY,
            "size": len(vocabulary),
            "sha256": vocabulary_sha256(vocabulary),
        },
        "schema": asdict(settings.schema),
        **(_google if is_google else _corrected)(folder, paths, settings, pool),
    }


def _google(folder: Path, paths: Sequence[str], settings: GoogleSettings, pool: Workers) -> dict:
    """The records of the original writer, and what the manifest says of them."""
    written = write_google(
        paths,
        vocabulary=folder / VOCABULARY,
        settings=settings,
        outputs=[_shard(folder, TRAIN, n, settings.shards) for n in range(settings.shards)],
        work=folder / "work",
        workers=pool,
    )
    unchanged(folder / "work")
    return {"remarks": [], "splits": {TRAIN: written}}


def _corrected(folder: Path, paths: Sequence[str], settings: BuildSettings, pool: Workers) -> dict:
    """The records of this writer's own ways, and what the manifest says of them."""
    work = folder / "work"
    text = TextSettings(
        vocabulary=folder / VOCABULARY,
        lowercase=settings.lowercase,
        splitter=settings.splitter,
        segmenter=settings.segmenter,
        errors=settings.errors,
        longest=settings.max_length - 3,
    )
    if not (work / "store").exists():
        _tokenize(work, paths, text, pool, text_field=settings.text_field)
    store = TokenStore(work / "store", dtype=text.dtype)
    splits = splits_of(
        store.num_documents, held_out_rate=settings.held_out_rate, seed=settings.seed
    )
    return {
        **json_object(work / COUNTS)["manifest"],
        "splits": {split.name: _written(split, folder, store, settings, pool) for split in splits},
    }


def _shard(folder: Path, split: str, number: int, num_shards: int) -> Path:
    return folder / f"{split}-{number:05d}-of-{num_shards:05d}.tfrecord"


def _tokenize(
    work: Path, paths: Sequence[str], text: TextSettings, pool: Workers, *, text_field: str
) -> None:
    """Leaves the token store of the corpus, and what was counted and repaired."""
    num_bytes = sum(fingerprint(path)["bytes"] for path in paths)
    unit_bytes = max(UNIT_BYTES, num_bytes // MOST_UNITS)
    jobs = [
        TokenizeUnit(unit, work / f"tokens-{number:05d}", text)
        for number, unit in enumerate(units(paths, unit_bytes=unit_bytes, text_field=text_field))
    ]
    pool.run(jobs, stage="tokenize", unit="B")
    unchanged(work)
    counts, repairs = Counter(), Repairs()
    for job in jobs:
        unit_counts, unit_repairs = counts_of(job.output)
        counts.update(unit_counts)
        repairs += unit_repairs
    repairs.expect_text()
    told = {
        "unit_documents": [counts_of(job.output)[0]["documents"] for job in jobs],
        "manifest": {
            "counts": {name: counts[name] for name in ("unknown", "long_sentences_cut")},
            "repairs": repairs.summary(),
            "remarks": repairs.remarks(),
        },
    }
    with whole_file(work / COUNTS) as part:
        part.write_text(json.dumps(told), encoding="utf-8")
    joined([job.output for job in jobs], work / "store")
    for job in jobs:
        shutil.rmtree(job.output)


def _written(
    split: Split, folder: Path, store: TokenStore, settings: BuildSettings, pool: Workers
) -> dict:
    """Writes the shards of a split; returns what the manifest says of it."""
    work, is_training = folder / "work", split.name == TRAIN
    if settings.objective == "nsp" and split.num_documents < 2:
        raise InputError(
            "next sentence prediction needs at least two documents, for a random next text comes "
            "from another one; put blank lines between documents or give more files"
        )
    num_sentences, num_pieces = split_size(split, store)
    passes = settings.passes if is_training else 1
    # An instance holds a record's pieces at most: there are this many at least.
    expected = passes * num_pieces // settings.max_length + 1
    num_shards = settings.shards if is_training else 1
    num_buckets = _num_buckets(expected, num_shards)
    number = 0 if is_training else 1
    found = [
        FindInstances(
            documents=documents,
            split=split,
            output=work / f"instances-{split.name}-{documents.unit:05d}-{documents.part:05d}",
            store=work / "store",
            dtype=store.dtype,
            objective=settings.objective,
            passes=passes,
            max_length=settings.max_length,
            short_rate=settings.short_sequence_rate,
            fills_records=settings.schema.is_packed,
            num_buckets=num_buckets,
            seeds=(settings.seed, number, 0, documents.unit, documents.part),
        )
        for documents in ranges_of(store, json_object(work / COUNTS)["unit_documents"])
    ]
    pool.run(found, stage=f"find {split.name}", unit="sentence")
    instances = tuple(job.output for job in found)
    sizes = bucket_sizes(instances, num_buckets=num_buckets)
    shards = np.array_split(np.arange(num_buckets), num_shards or num_buckets)
    if not all(sizes[buckets].any() for buckets in shards):
        raise InputError(
            f"the corpus gives too few records ({split.name}) for {len(shards)} shards; give more "
            "text or ask for fewer"
        )
    jobs = [
        WriteShard(
            output=_shard(folder, split.name, place, len(shards)),
            counts=work / f"{split.name}-{place:05d}.json",
            instances=instances,
            num_buckets=num_buckets,
            buckets=range(buckets[0], buckets[-1] + 1),
            store=work / "store",
            dtype=store.dtype,
            vocabulary=folder / VOCABULARY,
            schema=settings.schema,
            policy=settings.policy,
            seeds=(settings.seed, number, 1, place),
            size=int(sizes[buckets].sum()) // (2 if settings.schema.has_labels else 1),
        )
        for place, buckets in enumerate(shards)
    ]
    pool.run(jobs, stage=f"write {split.name}", unit="record")
    counts = [json_object(job.counts) for job in jobs]
    summed = ["records", "sequences", "tokens", *["labels_one"] * settings.schema.has_labels]
    return {
        "documents": split.num_documents,
        "sentences": num_sentences,
        "pieces": num_pieces,
        **{name: sum(each[name] for each in counts) for name in summed},
        "shards": [{name: each[name] for name in SHARD_COUNTS} for each in counts],
    }


def _num_buckets(expected_records: int, num_shards: int | None) -> int:
    """Buckets small enough for memory, as many in each shard."""
    if num_shards is None:
        fewest = min(4, max(1, expected_records // RECORDS_PER_SHARD_AT_LEAST))
        return max(fewest, -(-expected_records // RECORDS_PER_BUCKET))
    return num_shards * max(1, -(-expected_records // (num_shards * RECORDS_PER_BUCKET)))
