"""Builds a folder of pretraining records from text files and a vocabulary, on one machine.

Each stage is a set of jobs that write files to the folder OUTPUT.partial/work, in one or several
processes. A job is not run again if its receipt, which states what it returned and the SHA-256 of
each file that it wrote, fits its files.
"""

import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from signal import SIG_BLOCK, SIG_SETMASK, SIGINT, pthread_sigmask
from typing import Any, TypeVar

import numpy as np
from tqdm import tqdm

from bert_keras.errors import InputError
from bert_keras.files import (
    StrPath,
    file_sha256,
    is_remote,
    json_object,
    resumed_folder,
    write_json,
    write_text,
)
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools import google
from tfrecords_tools.corpus import build_units, digest, files
from tfrecords_tools.instances import FindInstances, expect_records, layouts_of, shard_file
from tfrecords_tools.settings import (
    MANIFEST,
    BuildSettings,
    GoogleSettings,
    Settings,
    expect_same,
    folder_files,
    manifest_head,
    shards_of,
)
from tfrecords_tools.shards import WriteShard
from tfrecords_tools.store import TokenStore, expect_text, join_stores, ranges_of
from tfrecords_tools.tokens import TokenizeUnit

Item = TypeVar("Item")
Result = TypeVar("Result")


def build(
    corpus: Iterable[StrPath],
    *,
    vocabulary: Vocabulary,
    output: StrPath,
    settings: Settings,
    workers: int = 1,
) -> dict[str, Any]:
    """Writes a new folder of records and returns its manifest.

    The folder gets its name when it is complete. An interrupted call continues if it is repeated
    with the same arguments.

    Args:
        corpus: Files, folders, globs, URLs or TFDS names; see `files`.
        vocabulary: The vocabulary of the records, which is written beside them.
        output: The folder to write, on this machine.
        workers: The number of processes; the records do not depend on it.
    """
    if is_remote(output):
        raise InputError(f"{output} is not on this machine; write a local folder, or add --beam")
    corpus, settings = list(corpus), settings.for_vocabulary(vocabulary)
    for folder in filter(os.path.isdir, corpus):
        if Path(folder).resolve() in Path(output).resolve().parents:
            raise InputError(f"{output} is in {folder}, a folder of the corpus; choose another")
    # A glob may match the folder of an interrupted run.
    partial = Path(f"{os.path.abspath(output)}.partial").resolve()
    paths = [path for path in files(corpus) if partial not in Path(path).resolve().parents]
    with resumed_folder(output) as (work, folder), Workers(workers) as pool:
        plan, inputs = work / "plan.json", [digest(path) for path in tqdm(paths, "read inputs")]
        head = manifest_head(settings, vocabulary, inputs)
        if plan.exists():
            expect_same(plan, head, folder=work.parent)
        else:
            shutil.rmtree(work, ignore_errors=True)  # of unknown arguments
        work.mkdir(exist_ok=True)
        write_json(plan, head)
        if isinstance(settings, GoogleSettings):
            store = work / "store"
            if result_of(store) is None:
                tokenizer = WordPieceTokenizer(vocabulary, lowercase=settings.lowercase)
                google.tokenize(paths, store, tokenizer=tokenizer)
                write_receipt(store, {})
            entries = google.write_records(store, vocabulary=vocabulary, settings=settings)
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


def _splits(
    work: Path,
    paths: Sequence[str],
    settings: BuildSettings,
    vocabulary: Vocabulary,
    pool: "Workers",
) -> dict[str, Any]:
    """Writes the records of `BuildSettings` and returns their entries of the manifest."""
    folder = work / "store"
    tokenized = result_of(folder)
    if tokenized is None:
        jobs = [
            TokenizeUnit(unit, work / f"tokens-{number:05d}", vocabulary, settings)
            for number, unit in enumerate(build_units(paths, text_field=settings.text_field))
        ]
        results = pool.run(jobs, stage="tokenize", unit="B")
        documents = [each["documents"] for each in results]
        tokenized = {"unit_documents": documents, "entries": text_entries(results)}
        join_stores([job.output for job in jobs], folder)
        write_receipt(folder, tokenized)
        for job in jobs:
            shutil.rmtree(job.output)
    store, splits = TokenStore(folder), {}
    rules = {"settings": settings, "num_separators": vocabulary.specials.num_separators}
    for layout in layouts_of(store.document_sizes(), **rules):
        name = layout.split.name
        find = [
            FindInstances(each, layout, work / f"{name}-{each.unit:05d}-{each.part:05d}", folder)
            for each in ranges_of(store, tokenized["unit_documents"])
        ]
        found = pool.run(find, stage=f"find {name}", unit="sentence")
        bucket_sizes = np.sum([each["sizes"] for each in found], axis=0)
        shard_sizes = [int(bucket_sizes[each.start : each.stop].sum()) for each in layout.shards]
        expect_records(map(bool, shard_sizes), split=name, num_shards=len(layout.shards))
        write = [
            WriteShard(
                output=work / shard_file(name, shard, len(layout.shards)),
                instances=tuple(job.output for job in find),
                layout=layout,
                shard=shard,
                store=folder,
                vocabulary=vocabulary,
                size=size // (2 if settings.schema.has_labels else 1),
            )
            for shard, size in enumerate(shard_sizes)
        ]
        splits[name] = layout.summary(pool.run(write, stage=f"write {name}", unit="record"))
    return {**tokenized["entries"], "splits": splits}


def text_entries(results: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Combines the results of `TokenizeUnit` into the manifest's entries about the text."""
    counts, num_documents = Counter(), 0
    for result in results:
        counts.update(result["counts"])
        num_documents += result["documents"]
    expect_text(num_documents)
    return {"counts": {name: counts[name] for name in ("unknown", "long_sentences_cut")}}


class Workers:
    """A context manager that maps functions in `number` spawned processes, or in this one if 1."""

    def __init__(self, number: int):
        self._executor = None
        if number > 1:
            context = get_context("spawn")
            parent, self._end_of_work = context.Pipe(duplex=False)
            self._executor = ProcessPoolExecutor(
                number, mp_context=context, initializer=_start_worker, initargs=(parent,)
            )

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, kind: type | None, *error) -> None:
        if self._executor:
            if kind:  # ends the processes at once: their jobs may take hours
                self._end_of_work.close()
            self._executor.shutdown(cancel_futures=True)
            self._end_of_work.close()

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yields the results in order; raises ChildProcessError if a process was killed."""
        if self._executor is None:
            yield from map(function, items)
            return
        # Only this process handles Ctrl-C; new processes inherit the signals that are blocked here.
        old_mask = pthread_sigmask(SIG_BLOCK, {SIGINT})
        try:
            results = self._executor.map(function, items)
        finally:
            pthread_sigmask(SIG_SETMASK, old_mask)
        try:
            yield from results
        except BrokenProcessPool as error:
            raise ChildProcessError(
                "a worker process was killed, possibly because memory was exhausted; repeat the "
                "command, with --workers 1 for the least memory"
            ) from error

    def run(self, jobs: Sequence[Any], *, stage: str, unit: str) -> list[dict[str, Any]]:
        """Runs the jobs without a valid receipt and returns the results of all jobs in order.

        A job is a function that writes its `output` and returns JSON; its `size` is in `unit`s.
        """
        results = [result_of(job.output) for job in jobs]
        missing = [number for number, result in enumerate(results) if result is None]
        total = sum(job.size for job in jobs)
        done = total - sum(jobs[number].size for number in missing)
        scale = {"total": total, "initial": done, "unit_scale": True, "disable": not total}
        with tqdm(desc=stage, unit=f" {unit}", **scale) as bar:
            new_results = self.map(_run_job, [jobs[number] for number in missing])
            for number, result in zip(missing, new_results, strict=True):
                results[number] = result
                bar.update(jobs[number].size)
        return [result for result in results if result is not None]


def result_of(output: Path) -> dict[str, Any] | None:
    """Returns what the job of `output` returned, or None without a receipt that fits the files."""
    try:
        receipt = json_object(f"{output}.json")
        result = receipt["result"]
        return result if receipt == _receipt(output, result) else None
    except (OSError, ValueError, KeyError):
        return None


def write_receipt(output: Path, result: dict[str, Any]) -> dict[str, Any]:
    """Writes the receipt of a complete output and returns the result."""
    write_json(Path(f"{output}.json"), _receipt(output, result))
    return result


def _run_job(job: Any) -> dict[str, Any]:
    shutil.rmtree(job.output, ignore_errors=True)  # a folder of an interrupted run
    return write_receipt(job.output, job())


def _receipt(output: Path, result: dict[str, Any]) -> dict[str, Any]:
    """Returns the content of the receipt of an output."""
    files = output.iterdir() if output.is_dir() else [output]
    return {"result": result, "files": {path.name: file_sha256(path) for path in sorted(files)}}


def _start_worker(parent: Connection) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes use all cores already
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # reading a TFDS corpus needs no GPU

    def end_with_parent() -> None:  # when it closes its end of the pipe or is killed
        with suppress(EOFError, OSError):
            parent.recv_bytes()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
