"""Builds a folder of pretraining records from text files and a vocabulary, on one machine.

Each stage is a set of jobs that write files to the folder OUTPUT.partial/work.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from bert_keras.errors import check
from bert_keras.files import StrPath, is_remote, json_object, resumed_folder, write_json, write_text
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.google import write_google
from tfrecords_tools.inputs.corpus import digest, files, size_of, units
from tfrecords_tools.inputs.text_files import Unit
from tfrecords_tools.jobs import Workers, result_of, write_receipt
from tfrecords_tools.manifest import MANIFEST, expect_same, folder_files, manifest_head, shards_of
from tfrecords_tools.records.examples import FindInstances
from tfrecords_tools.records.layout import layouts_of, ranges_of, shard_file
from tfrecords_tools.records.shards import WriteShard
from tfrecords_tools.settings import BuildSettings, GoogleSettings, Settings
from tfrecords_tools.text.store import TokenStore, join_stores
from tfrecords_tools.text.tokens import TokenizeUnit

UNIT_BYTES = 1 << 20  # larger for a corpus of more than MAX_UNITS units
MAX_UNITS = 1000


def build(
    corpus: Iterable[StrPath],
    *,
    vocabulary: Vocabulary,
    output: StrPath,
    settings: Settings,
    workers: int = 1,
) -> dict[str, Any]:
    """Writes a folder of records and returns its manifest.

    The folder, on this machine, gets its name when it is complete. An interrupted call continues if
    it is repeated with the same arguments. `corpus` has files, folders, glob patterns, URLs or TFDS
    names. The number of processes, `workers`, does not change the records. Raises InputError if the
    arguments are not usable, or an interrupted run had others.
    """
    found = f"{output} is not on this machine"
    check(not is_remote(output), f"{found}; write to a local folder and copy it, or add --beam")
    corpus, settings = list(corpus), settings.for_vocabulary(vocabulary)
    for folder in filter(os.path.isdir, corpus):
        is_inside = Path(folder).resolve() in Path(output).resolve().parents
        check(not is_inside, f"{output} is in {folder}, a folder of the corpus; choose another")
    # A glob may match the folder of an interrupted run.
    partial = Path(f"{os.path.abspath(output)}.partial").resolve()
    paths = [path for path in files(corpus) if partial not in Path(path).resolve().parents]
    with resumed_folder(output) as (work, folder), Workers(workers) as pool:
        head = _checked_head(work, paths, settings, vocabulary)
        if isinstance(settings, GoogleSettings):
            entries = write_google(paths, vocabulary=vocabulary, settings=settings, work=work)
        else:
            entries = _splits(work, paths, settings, vocabulary, pool)
        manifest = {**head, **entries}
        shutil.rmtree(folder, ignore_errors=True)  # of a run that ended here
        folder.mkdir()
        for name in shards_of(manifest):
            os.replace(work / name, folder / name)
        for name, text in folder_files(manifest, vocabulary).items():
            write_text(folder / name, text)
        return json_object(folder / MANIFEST)


def _checked_head(
    work: Path, paths: Sequence[str], settings: Settings, vocabulary: Vocabulary
) -> dict[str, Any]:
    """Returns the head of the manifest and stores it, or compares it with that of the first run."""
    plan = work / "plan.json"
    inputs = list(map(digest, tqdm(paths, desc="read inputs", unit=" file")))
    head = manifest_head(settings, vocabulary, inputs)
    if plan.exists():
        expect_same(plan, head, folder=work.parent)
    else:
        shutil.rmtree(work, ignore_errors=True)  # of unknown arguments
    work.mkdir(exist_ok=True)
    write_json(plan, head)
    return head


def _splits(
    work: Path, paths: Sequence[str], settings: BuildSettings, vocabulary: Vocabulary, pool: Workers
) -> dict[str, Any]:
    """Writes the records of `BuildSettings` and returns their entries of the manifest."""
    tokenized = result_of(work / "store") or _tokenize(work, paths, vocabulary, settings, pool)
    store, splits = TokenStore(work / "store"), {}
    num_separators = vocabulary.specials.num_separators
    sizes = store.document_sizes()
    for layout in layouts_of(sizes, settings=settings, num_separators=num_separators):
        name = layout.split.name
        find = [
            FindInstances(
                documents=documents,
                layout=layout,
                output=work / f"{name}-{documents.unit:05d}-{documents.part:05d}",
                store=work / "store",
            )
            for documents in ranges_of(store, tokenized["unit_documents"])
        ]
        found = pool.run(find, stage=f"find {name}", unit="sentence")
        bucket_sizes = np.sum([each["sizes"] for each in found], axis=0)
        shard_sizes = [int(bucket_sizes[each.start : each.stop].sum()) for each in layout.shards]
        layout.expect_records(map(bool, shard_sizes))
        write = [
            WriteShard(
                output=work / shard_file(name, shard, len(layout.shards)),
                instances=tuple(job.output for job in find),
                layout=layout,
                shard=shard,
                store=work / "store",
                vocabulary=vocabulary,
                size=size // (2 if settings.schema.has_labels else 1),
            )
            for shard, size in enumerate(shard_sizes)
        ]
        splits[name] = layout.summary(pool.run(write, stage=f"write {name}", unit="record"))
    return {**tokenized["entries"], "splits": splits}


def _tokenize(
    work: Path, paths: Sequence[str], vocabulary: Vocabulary, settings: BuildSettings, pool: Workers
) -> dict[str, Any]:
    """Writes the token store of the corpus and returns the counts of documents and repairs."""
    jobs = [
        TokenizeUnit(unit, work / f"tokens-{number:05d}", vocabulary, settings)
        for number, unit in enumerate(units_of(paths, text_field=settings.text_field))
    ]
    results = pool.run(jobs, stage="tokenize", unit="B")
    documents = [each["documents"] for each in results]
    result = {"unit_documents": documents, "entries": text_entries(results)}
    join_stores([job.output for job in jobs], work / "store")
    write_receipt(work / "store", result)
    for job in jobs:
        shutil.rmtree(job.output)
    return result


def units_of(paths: Sequence[str], *, text_field: str) -> list[Unit]:
    """Divides the corpus into units, which affect the records: their numbers are part of seeds."""
    unit_bytes = max(UNIT_BYTES, sum(map(size_of, paths)) // MAX_UNITS)
    return units(paths, unit_bytes=unit_bytes, text_field=text_field)


def text_entries(results: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Combines the results of `TokenizeUnit` to the entries of the manifest about the text."""
    counts, num_documents = Counter(), 0
    for result in results:
        counts.update(result["counts"])
        num_documents += result["documents"]
    check(num_documents, "the corpus contains no text; expected a paragraph or a sentence a line")
    return {"counts": {name: counts[name] for name in ("unknown", "long_sentences_cut")}}
