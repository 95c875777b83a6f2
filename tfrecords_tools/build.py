"""Builds a folder of pretraining records from text files and a vocabulary, on one machine.

Each stage is a list of jobs that write files to the folder OUTPUT.partial/work, in one or several
processes. The receipt of a job states what the job returned and the SHA-256 of each file that it
wrote. A job whose receipt matches its files is not run again.
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
from typing import Any, TypeVar, cast

import numpy as np
from tqdm import tqdm

from bert_keras.errors import InputError
from bert_keras.files import (
    StoppedError,
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
from tfrecords_tools.corpus import build_units, check_outside, corpus_files, input_entry
from tfrecords_tools.instances import FindInstances, check_shards, plan_layouts, shard_file
from tfrecords_tools.settings import (
    MANIFEST,
    BuildSettings,
    GoogleSettings,
    Settings,
    check_same_build,
    folder_files,
    manifest_head,
    shards_of,
)
from tfrecords_tools.shards import WriteShard
from tfrecords_tools.store import TokenStore, check_has_text, join_stores, ranges_of
from tfrecords_tools.tokens import TokenizeUnit

# Each of several processes gets at least this much text, because starting one takes as long as
# writing the records of about 3 MB.
BYTES_PER_WORKER = 8 << 20
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

    The output appears under its name only when it is complete. An interrupted call continues if it
    is repeated with the same arguments.

    Args:
        corpus: Files, folders, globs or URLs; see `corpus_files`.
        vocabulary: The vocabulary of the records, which is written beside them.
        output: The folder to write, on this machine.
        workers: The maximum number of processes; the records do not depend on it.
    """
    if is_remote(output):
        raise InputError(f"{output} is not on this machine; write a local folder, or add --beam")
    corpus, settings = list(corpus), settings.for_vocabulary(vocabulary)
    check_outside(output, corpus)
    # Our own .partial folder is skipped, because a glob such as `*` may match it.
    partial = Path(f"{os.path.abspath(output)}.partial").resolve()
    paths = corpus_files(corpus)
    paths = [path for path in paths if partial not in Path(path).resolve().parents]
    with resumed_folder(output) as (work, result_folder):
        plan = work / "plan.json"
        inputs = [input_entry(path) for path in tqdm(paths, "read inputs")]
        head = manifest_head(settings, vocabulary, inputs)
        if plan.exists():
            check_same_build(plan, head, folder=work.parent)
        else:
            shutil.rmtree(work, ignore_errors=True)  # left by a run whose arguments are unknown
        work.mkdir(exist_ok=True)
        write_json(plan, head)
        for path in result_folder.glob("*.tfrecord"):  # complete shards of an interrupted run
            os.replace(path, work / path.name)
        if isinstance(settings, GoogleSettings):
            store_folder = work / "store"
            if finished_result(store_folder) is None:
                tokenizer = WordPieceTokenizer(vocabulary, lowercase=settings.lowercase)
                google.tokenize(paths, store_folder, tokenizer=tokenizer)
                write_receipt(store_folder, {})
            entries = google.write_records(store_folder, vocabulary=vocabulary, settings=settings)
        else:
            workers = num_workers(workers, num_bytes=sum(entry["bytes"] for entry in inputs))
            with Workers(workers) as pool:
                entries = _write_splits(work, paths, settings, vocabulary, pool)
        manifest = {**head, **entries}
        shutil.rmtree(result_folder, ignore_errors=True)  # partial result of an interrupted run
        result_folder.mkdir()
        for name in shards_of(manifest):
            os.replace(work / name, result_folder / name)
        for name, text in folder_files(manifest, vocabulary).items():
            write_text(result_folder / name, text)
        return json_object(result_folder / MANIFEST)


def num_workers(maximum: int, *, num_bytes: int) -> int:
    """Returns how many processes, up to `maximum`, make the work on a corpus faster."""
    return min(maximum, max(1, num_bytes // BYTES_PER_WORKER))


def _write_splits(
    work: Path,
    paths: Sequence[str],
    settings: BuildSettings,
    vocabulary: Vocabulary,
    pool: "Workers",
) -> dict[str, Any]:
    """Writes the records of `BuildSettings` and returns their entries of the manifest."""
    store_folder = work / "store"
    tokenized = finished_result(store_folder)
    if tokenized is None:
        jobs = [
            TokenizeUnit(unit, work / f"tokens-{index:05d}", vocabulary, settings)
            for index, unit in enumerate(build_units(paths, text_field=settings.text_field))
        ]
        results = pool.run(jobs, stage="tokenize", unit="B")
        unit_documents = [result["documents"] for result in results]
        tokenized = {"unit_documents": unit_documents, "entries": text_entries(results)}
        join_stores([job.output for job in jobs], store_folder)
        write_receipt(store_folder, tokenized)
        for job in jobs:
            shutil.rmtree(job.output)
    store, splits = TokenStore(store_folder), {}
    separators = {"num_separators": vocabulary.specials.num_separators}
    # The instances of a split are put into random buckets, and each shard has some of the buckets.
    for layout in plan_layouts(store.document_sizes(), settings=settings, **separators):
        name = layout.split.name
        find_jobs = []
        for documents in ranges_of(store, tokenized["unit_documents"]):
            output = work / f"{name}-{documents.unit:05d}-{documents.part:05d}"
            find_jobs.append(FindInstances(documents, layout, output, store_folder))
        results = pool.run(find_jobs, stage=f"find {name}", unit="sentence")
        bucket_sizes = np.sum([result["sizes"] for result in results], axis=0)
        shard_sizes = [int(bucket_sizes[each.start : each.stop].sum()) for each in layout.shards]
        check_shards(map(bool, shard_sizes), split=name, num_shards=len(layout.shards))
        # The size of a bucket is its number of spans. A labelled instance has two spans, and any
        # other instance one or several. This estimates the number of records for the progress bar.
        spans_per_record = 2 if settings.schema.has_labels else 1
        write_jobs = [
            WriteShard(
                output=work / shard_file(name, shard, len(layout.shards)),
                instances=tuple(job.output for job in find_jobs),
                layout=layout,
                shard=shard,
                store_folder=store_folder,
                vocabulary=vocabulary,
                size=size // spans_per_record,
            )
            for shard, size in enumerate(shard_sizes)
        ]
        splits[name] = layout.summary(pool.run(write_jobs, stage=f"write {name}", unit="record"))
    return {**tokenized["entries"], "splits": splits}


def text_entries(results: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Returns the manifest's entries about the text, from the results of `TokenizeUnit`."""
    counts, num_documents = Counter(), 0
    for result in results:
        counts.update(result["counts"])
        num_documents += result["documents"]
    check_has_text(num_documents)
    return {"counts": {name: counts[name] for name in ("unknown", "long_sentences_cut")}}


class Workers:
    """A context manager with `num_workers` processes; 1 means that this process does the work."""

    def __init__(self, num_workers: int):
        self._executor = None
        if num_workers > 1:
            context = get_context("spawn")
            # The workers end when `_sender` is closed, or when this process dies.
            receiver, self._sender = context.Pipe(duplex=False)
            self._executor = ProcessPoolExecutor(
                num_workers, mp_context=context, initializer=_start_worker, initargs=(receiver,)
            )

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, exc_type: type | None, *error) -> None:
        if self._executor:
            if exc_type:  # ends the workers now, because finishing jobs may take hours
                self._sender.close()
            self._executor.shutdown(cancel_futures=True)
            self._sender.close()

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
        """Runs the jobs that have no valid receipt and returns the results of all jobs in order.

        A job is a callable that writes its `output` (Path) and returns JSON; `size` is in `unit`s.
        """
        results = [finished_result(job.output) for job in jobs]
        missing = [index for index, result in enumerate(results) if result is None]
        total = sum(job.size for job in jobs)
        done = total - sum(jobs[index].size for index in missing)
        scale = {"total": total, "initial": done, "unit_scale": True, "disable": not total}
        with tqdm(desc=stage, unit=f" {unit}", **scale) as bar:
            new_results = self.map(_run_job, [jobs[index] for index in missing])
            try:
                for index, result in zip(missing, new_results, strict=True):
                    results[index] = result
                    bar.update(jobs[index].size)
            except InputError as error:
                if all(result is None for result in results):
                    raise
                raise StoppedError(str(error)) from error
        return cast(list[dict[str, Any]], results)


def finished_result(output: Path) -> dict[str, Any] | None:
    """Returns the result of the job of `output`, or None if it has no receipt that matches."""
    try:
        receipt = json_object(f"{output}.json")
        result = receipt["result"]
        return result if receipt == _make_receipt(output, result) else None
    except (OSError, ValueError, KeyError):
        return None


def write_receipt(output: Path, result: dict[str, Any]) -> dict[str, Any]:
    """Writes the receipt of a complete output and returns the result."""
    write_json(Path(f"{output}.json"), _make_receipt(output, result))
    return result


def _run_job(job: Any) -> dict[str, Any]:
    shutil.rmtree(job.output, ignore_errors=True)  # partial result of an interrupted run
    return write_receipt(job.output, job())


def _make_receipt(output: Path, result: dict[str, Any]) -> dict[str, Any]:
    paths = output.iterdir() if output.is_dir() else [output]
    files = {path.name: file_sha256(path) for path in sorted(paths)}
    return {"result": result, "files": files, "copy": result}  # a damaged result differs from it


def _start_worker(receiver: Connection) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes use all cores already

    def end_with_parent() -> None:  # `recv_bytes` ends when the parent closes its end or dies
        with suppress(EOFError, OSError):
            receiver.recv_bytes()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
