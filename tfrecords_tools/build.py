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
from bert_keras.storage import is_remote, json_object, resumed_folder, whole_file
from bert_keras.text.fast_tokenizer import PIECES, vocabulary_file, write_vocabulary
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.google.write import write_google
from tfrecords_tools.inputs.corpus import digest, fingerprint, units
from tfrecords_tools.inputs.decoding import Repairs
from tfrecords_tools.inputs.parts import Unit
from tfrecords_tools.inputs.places import files
from tfrecords_tools.jobs import Workers
from tfrecords_tools.manifest import MANIFEST, made_from, planned, unchanged
from tfrecords_tools.records.buckets import bucket_sizes
from tfrecords_tools.records.examples import FindInstances
from tfrecords_tools.records.layout import Layout, layout_of, shard_file
from tfrecords_tools.records.splits import TRAIN, ranges_of, split_size, splits_of
from tfrecords_tools.records.write_shard import WriteShard
from tfrecords_tools.settings import BuildSettings, GoogleSettings, Settings
from tfrecords_tools.text.store import TokenStore, joined
from tfrecords_tools.text.tokens import TokenizeUnit, counts_of

COUNTS = "counts.json"
UNIT_BYTES = 1 << 20  # the least; larger for a corpus of more than MOST_UNITS units
MOST_UNITS = 1000


def build(
    places: Iterable[str | os.PathLike],
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
        places: Files, folders, glob patterns, URLs or TFDS names of the corpus.
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
            f"{output} is not on this machine, where build writes; give a local folder and copy it "
            "there, or add --beam"
        )
    settings = settings.for_vocabulary(vocabulary)
    paths = files(list(places))
    with resumed_folder(output) as folder, Workers(workers) as pool:
        if (folder / MANIFEST).exists():
            _expect(folder / MANIFEST, paths, settings, vocabulary)
        else:
            if not (folder / "work").exists():
                _expect_nothing_else(folder)
            manifest = _built(folder, paths, settings, vocabulary, pool)
            with whole_file(folder / MANIFEST) as part:
                part.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        shutil.rmtree(folder / "work", ignore_errors=True)
        return json_object(folder / MANIFEST)


def _expect(manifest: Path, paths: Sequence[str], settings: Settings, vocabulary: Vocabulary):
    """Raises InputError if the finished records were made from other inputs or settings."""
    expected = made_from(settings, vocabulary, list(map(digest, paths)))
    told = json_object(manifest)
    if any(told.get(name) != value for name, value in expected.items()):
        raise InputError(
            f"{manifest.parent} holds finished records of other options, inputs or versions; give "
            "what it was begun with, or remove it to begin anew"
        )


def _built(
    folder: Path,
    paths: Sequence[str],
    settings: Settings,
    vocabulary: Vocabulary,
    pool: Workers,
) -> dict:
    """Writes all files except the manifest, which it returns."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    inputs = planned(work, files=paths, settings=settings, vocabulary=vocabulary)
    write_vocabulary(vocabulary, folder)
    if isinstance(settings, GoogleSettings):
        made = _google(folder, paths, settings, pool)
    else:
        made = _corrected(folder, paths, settings, vocabulary, pool)
    return {**made_from(settings, vocabulary, inputs), **made}


def _expect_nothing_else(folder: Path) -> None:
    """Raises InputError if a folder that no run has begun is not empty."""
    others = sorted({path.name for path in folder.iterdir()} - {".lock"})
    if others:
        raise InputError(
            f"{folder} holds {others[0]}, which no build left there; remove it, or choose another "
            "output"
        )


def _google(folder: Path, paths: Sequence[str], settings: GoogleSettings, pool: Workers) -> dict:
    """Writes the records of the original writer and returns their entries of the manifest."""
    written = write_google(
        paths,
        vocabulary=folder / PIECES,
        settings=settings,
        outputs=[folder / shard_file(TRAIN, n, settings.shards) for n in range(settings.shards)],
        work=folder / "work",
        workers=pool,
    )
    unchanged(folder / "work")
    return {"remarks": [], "splits": {TRAIN: written}}


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
    written = {}
    for split in splits_of(
        store.num_documents, held_out_rate=settings.held_out_rate, seed=settings.seed
    ):
        size = split_size(split, store)
        layout = layout_of(split, *size, settings=settings, num_separators=num_separators)
        written[split.name] = _written(layout, file, store, pool)
    return {**json_object(work / COUNTS)["manifest"], "splits": written}


def _tokenize(
    work: Path, paths: Sequence[str], vocabulary: Path, settings: BuildSettings, pool: Workers
) -> None:
    """Writes the token store of the corpus and the counts and repairs."""
    jobs = [
        TokenizeUnit(unit, work / f"tokens-{number:05d}", vocabulary, settings)
        for number, unit in enumerate(units_of(paths, text_field=settings.text_field))
    ]
    pool.run(jobs, stage="tokenize", unit="B")
    unchanged(work)
    unit_counts = [counts_of(job.output) for job in jobs]
    told = {
        "unit_documents": [counts["documents"] for counts, _ in unit_counts],
        "manifest": told_of(unit_counts),
    }
    with whole_file(work / COUNTS) as part:
        part.write_text(json.dumps(told), encoding="utf-8")
    joined([job.output for job in jobs], work / "store")
    for job in jobs:
        shutil.rmtree(job.output)


def units_of(paths: Sequence[str], *, text_field: str) -> list[Unit]:
    """Divides the corpus into units, which affect the records: their numbers are part of seeds."""
    num_bytes = sum(fingerprint(path)["bytes"] for path in paths)
    unit_bytes = max(UNIT_BYTES, num_bytes // MOST_UNITS)
    return units(paths, unit_bytes=unit_bytes, text_field=text_field)


def told_of(unit_counts: Iterable[tuple[Counter, Repairs]]) -> dict:
    """Combines the counts of `TokenizeUnit` to the entries of the manifest about the text.

    Raises:
        InputError: The corpus has no text.
    """
    counts, repairs = Counter(), Repairs()
    for of_unit, repairs_of_unit in unit_counts:
        counts.update(of_unit)
        repairs += repairs_of_unit
    repairs.expect_text()
    return {
        "counts": {name: counts[name] for name in ("unknown", "long_sentences_cut")},
        "repairs": repairs.summary(),
        "remarks": repairs.remarks(),
    }


def _written(layout: Layout, vocabulary: Path, store: TokenStore, pool: Workers) -> dict:
    """Writes the shards of a split and returns its entry of the manifest."""
    folder, name = vocabulary.parent, layout.split.name
    work = folder / "work"
    found = [
        FindInstances(
            documents=documents,
            layout=layout,
            output=work / f"instances-{name}-{documents.unit:05d}-{documents.part:05d}",
            store=work / "store",
        )
        for documents in ranges_of(store, json_object(work / COUNTS)["unit_documents"])
    ]
    pool.run(found, stage=f"find {name}", unit="sentence")
    instances = tuple(job.output for job in found)
    sizes = bucket_sizes(instances, num_buckets=layout.num_buckets)
    layout.expect_records(bool(sizes[buckets].any()) for buckets in layout.shards)
    jobs = [
        WriteShard(
            output=folder / layout.file(place),
            counts=work / f"{name}-{place:05d}.json",
            instances=instances,
            layout=layout,
            place=place,
            store=work / "store",
            vocabulary=vocabulary,
            size=int(sizes[buckets].sum()) // (2 if layout.settings.schema.has_labels else 1),
        )
        for place, buckets in enumerate(layout.shards)
    ]
    pool.run(jobs, stage=f"write {name}", unit="record")
    return layout.summary([json_object(job.counts) for job in jobs])
