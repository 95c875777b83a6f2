"""Builds a folder of pretraining records from text files and a vocabulary, on one machine.

Each stage is a set of jobs that write files to the folder OUTPUT.partial. Existing files are not
written again, so an interrupted run continues and its records have the same bytes.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.files import is_remote, json_object, resumed_folder, write_text
from bert_keras.text.fast_tokenizer import VOCABULARY_FILE, vocabulary_file, write_vocabulary
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.google.write import write_google
from tfrecords_tools.inputs.corpus import digest, fingerprint, units
from tfrecords_tools.inputs.corpus_files import files
from tfrecords_tools.inputs.decoding import Repairs
from tfrecords_tools.inputs.parts import Unit
from tfrecords_tools.jobs import Workers
from tfrecords_tools.manifest import MANIFEST, expect_unchanged, known_entries, planned_inputs
from tfrecords_tools.records.buckets import bucket_sizes
from tfrecords_tools.records.examples import FindInstances
from tfrecords_tools.records.layout import Layout, layout_of, shard_file
from tfrecords_tools.records.splits import TRAIN, ranges_of, split_size, splits_of
from tfrecords_tools.records.write_shard import WriteShard
from tfrecords_tools.settings import BuildSettings, GoogleSettings, Settings
from tfrecords_tools.text.store import TokenStore, join_stores
from tfrecords_tools.text.tokens import TokenizeUnit, counts_of
from tfrecords_tools.tfds_metadata import tfds_metadata

COUNTS = "counts.json"
UNIT_BYTES = 1 << 20  # larger for a corpus of more than MAX_UNITS units
MAX_UNITS = 1000


def build(
    corpus: Iterable[str | os.PathLike],
    *,
    vocabulary: Vocabulary,
    output: str | os.PathLike,
    settings: Settings,
    workers: int = 1,
) -> dict:
    """Writes a folder of records and returns its manifest.

    The folder gets its name when it is complete. An interrupted call continues if it is repeated
    with the same arguments.

    Args:
        corpus: Files, folders, glob patterns, URLs or TFDS names of the corpus.
        vocabulary: The vocabulary.
        output: The folder, on this machine.
        settings: The settings of the records.
        workers: The number of processes, which does not change the records.

    Raises:
        InputError: The settings, the output or the corpus are not usable, or an interrupted run had
            other arguments.
    """
    if is_remote(output):
        raise InputError(
            f"{output} is not on this machine; write to a local folder and copy it there, or add "
            "--beam"
        )
    settings = settings.for_vocabulary(vocabulary)
    paths = files(list(corpus))
    with resumed_folder(output) as folder, Workers(workers) as pool:
        if (folder / MANIFEST).exists():
            _check_finished(folder / MANIFEST, paths, settings, vocabulary)
        else:
            if not (folder / "work").exists():
                _check_empty(folder)
            manifest = _build(folder, paths, settings, vocabulary, pool)
            for name, text in tfds_metadata(manifest).items():
                (folder / name).write_text(text, encoding="utf-8")
            write_text(folder / MANIFEST, json.dumps(manifest, indent=2) + "\n")
        shutil.rmtree(folder / "work", ignore_errors=True)
        return json_object(folder / MANIFEST)


def _check_finished(
    manifest: Path, paths: Sequence[str], settings: Settings, vocabulary: Vocabulary
) -> None:
    """Raises InputError if the finished records were made from other inputs or settings."""
    expected = known_entries(settings, vocabulary, list(map(digest, paths)))
    entries = json_object(manifest)
    if any(entries.get(name) != value for name, value in expected.items()):
        raise InputError(
            f"{manifest.parent} contains finished records of other options, inputs or versions; "
            "use those that it was started with, or remove it to start again"
        )


def _build(
    folder: Path,
    paths: Sequence[str],
    settings: Settings,
    vocabulary: Vocabulary,
    pool: Workers,
) -> dict:
    """Writes all files except the manifest, which it returns."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    inputs = planned_inputs(work, files=paths, settings=settings, vocabulary=vocabulary)
    write_vocabulary(vocabulary, folder)
    if isinstance(settings, GoogleSettings):
        entries = _google(folder, paths, settings, pool)
    else:
        entries = _corrected(folder, paths, settings, vocabulary, pool)
    return {**known_entries(settings, vocabulary, inputs), **entries}


def _check_empty(folder: Path) -> None:
    """Raises InputError if a folder in which no run was started is not empty."""
    names = sorted({path.name for path in folder.iterdir()} - {".lock"})
    if names:
        raise InputError(
            f"{folder} contains {names[0]}, which no build wrote; remove it, or choose another "
            "output"
        )


def _google(folder: Path, paths: Sequence[str], settings: GoogleSettings, pool: Workers) -> dict:
    """Writes the records of the original writer and returns their entries of the manifest."""
    split = write_google(
        paths,
        vocabulary=folder / VOCABULARY_FILE,
        settings=settings,
        outputs=[folder / shard_file(TRAIN, n, settings.shards) for n in range(settings.shards)],
        work=folder / "work",
        workers=pool,
    )
    expect_unchanged(folder / "work")
    return {"remarks": [], "splits": {TRAIN: split}}


def _corrected(
    folder: Path,
    paths: Sequence[str],
    settings: BuildSettings,
    vocabulary: Vocabulary,
    pool: Workers,
) -> dict:
    """Writes the records of `BuildSettings` and returns their entries of the manifest."""
    work = folder / "work"
    num_separators = vocabulary.specials.num_separators
    file = folder / vocabulary_file(vocabulary)[0]
    if not (work / "store").exists():
        _tokenize(work, paths, file, settings, pool)
    store = TokenStore(work / "store")
    splits = {}
    for split in splits_of(
        store.num_documents, held_out_rate=settings.held_out_rate, seed=settings.seed
    ):
        size = split_size(split, store)
        layout = layout_of(split, *size, settings=settings, num_separators=num_separators)
        splits[split.name] = _write_split(layout, file, store, pool)
    return {**json_object(work / COUNTS)["manifest"], "splits": splits}


def _tokenize(
    work: Path, paths: Sequence[str], vocabulary: Path, settings: BuildSettings, pool: Workers
) -> None:
    """Writes the token store of the corpus and the counts and repairs."""
    jobs = [
        TokenizeUnit(unit, work / f"tokens-{number:05d}", vocabulary, settings)
        for number, unit in enumerate(units_of(paths, text_field=settings.text_field))
    ]
    pool.run(jobs, stage="tokenize", unit="B")
    expect_unchanged(work)
    unit_counts = [counts_of(job.output) for job in jobs]
    counts = {
        "unit_documents": [counts["documents"] for counts, _ in unit_counts],
        "manifest": reported_counts(unit_counts),
    }
    write_text(work / COUNTS, json.dumps(counts))
    join_stores([job.output for job in jobs], work / "store")
    for job in jobs:
        shutil.rmtree(job.output)


def units_of(paths: Sequence[str], *, text_field: str) -> list[Unit]:
    """Divides the corpus into units, which affect the records: their numbers are part of seeds."""
    num_bytes = sum(fingerprint(path)["bytes"] for path in paths)
    unit_bytes = max(UNIT_BYTES, num_bytes // MAX_UNITS)
    return units(paths, unit_bytes=unit_bytes, text_field=text_field)


def reported_counts(unit_counts: Iterable[tuple[Counter, Repairs]]) -> dict:
    """Combines the counts of `TokenizeUnit` to the entries of the manifest about the text.

    Raises:
        InputError: The corpus has no text.
    """
    counts, repairs = Counter(), Repairs()
    for counts_of_unit, repairs_of_unit in unit_counts:
        counts.update(counts_of_unit)
        repairs += repairs_of_unit
    repairs.expect_text()
    return {
        "counts": {name: counts[name] for name in ("unknown", "long_sentences_cut")},
        "repairs": repairs.summary(),
        "remarks": repairs.remarks(),
    }


def _write_split(layout: Layout, vocabulary: Path, store: TokenStore, pool: Workers) -> dict:
    """Writes the shards of a split and returns its entry of the manifest."""
    folder, name = vocabulary.parent, layout.split.name
    work = folder / "work"
    find_jobs = [
        FindInstances(
            documents=documents,
            layout=layout,
            output=work / f"instances-{name}-{documents.unit:05d}-{documents.part:05d}",
            store=work / "store",
        )
        for documents in ranges_of(store, json_object(work / COUNTS)["unit_documents"])
    ]
    pool.run(find_jobs, stage=f"find {name}", unit="sentence")
    instances = tuple(job.output for job in find_jobs)
    sizes = bucket_sizes(instances, num_buckets=layout.num_buckets)
    layout.expect_records(bool(sizes[buckets].any()) for buckets in layout.shards)
    write_jobs = [
        WriteShard(
            output=folder / layout.file(shard),
            counts=work / f"{name}-{shard:05d}.json",
            instances=instances,
            layout=layout,
            shard=shard,
            store=work / "store",
            vocabulary=vocabulary,
            size=int(sizes[buckets].sum()) // (2 if layout.settings.schema.has_labels else 1),
        )
        for shard, buckets in enumerate(layout.shards)
    ]
    pool.run(write_jobs, stage=f"write {name}", unit="record")
    return layout.summary([json_object(job.counts) for job in write_jobs])
