"""Compares the names, sizes and digests of record files with the manifests beside them."""

import glob
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from bert_keras.data.schema import PretrainingSchema
from bert_keras.progress import progress
from bert_keras.text.fast_tokenizer import vocabulary_sha256
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.inputs.corpus_files import digest
from tfrecords_tools.manifest import MANIFEST, Manifest, Shard
from tfrecords_tools.records.writer import framed_length

SUFFIX = ".tfrecord"


def has_records(path: str | os.PathLike) -> bool:
    """Returns whether a file, folder or glob pattern contains records, by name or by content.

    A TFRecord file starts with the length of a record, 8 bytes, and its masked CRC-32C
    (tensorflow/core/lib/io/record_writer.h).
    """
    path = os.fspath(path)
    if os.path.isdir(path):
        return any(name.endswith(SUFFIX) for name in os.listdir(path))
    if SUFFIX in os.path.basename(path):
        return True
    files = [path] if os.path.isfile(path) else sorted(filter(os.path.isfile, glob.glob(path)))
    if not files:
        return False
    with open(files[0], "rb") as file:
        head = file.read(12)
    return head == framed_length(int.from_bytes(head[:8], "little"))


class Shards:
    """The record files that the user named and the manifests of their folders.

    Args:
        files: The record files.
        folders: Folders whose files must match their manifest exactly.
    """

    def __init__(self, files: Sequence[str], *, folders: Iterable[str | os.PathLike]):
        self.files = list(files)
        self.manifests = {
            folder: manifest
            for folder in sorted({Path(file).parent for file in files})
            if (manifest := Manifest.of_folder(folder))
        }
        self._folders = {Path(folder) for folder in folders}
        self._sizes = {file: os.path.getsize(file) for file in files}

    def manifest_entry(self, file: str) -> Shard | None:
        """Returns the entry of a file in its manifest, if there is one."""
        manifest = self.manifests.get(Path(file).parent)
        return manifest.shards.get(os.path.basename(file)) if manifest else None

    def folder_problems(self, *, schema: PretrainingSchema, vocabulary: Vocabulary) -> list[str]:
        """Returns missing or unknown shards, and differences in vocabulary and schema."""
        problems = []
        for folder, manifest in self.manifests.items():
            if manifest.vocabulary_sha256 != vocabulary_sha256(vocabulary):
                problems.append(
                    f"{manifest.path} states another vocabulary than this one of {len(vocabulary)} "
                    "tokens; give the vocabulary that the records were written with"
                )
            if manifest.schema != schema:
                problems.append(
                    f"the records in {folder} have {schema}, but {MANIFEST} states "
                    f"{manifest.schema}; write the records again"
                )
            if folder in self._folders:
                names = {Path(file).name for file in self.files if Path(file).parent == folder}
                problems += [
                    f"{folder / name} is missing; write the records again"
                    for name in manifest.shards.keys() - names
                ]
                problems += [
                    f"{folder / name} is not among the shards in {MANIFEST}; remove it"
                    for name in names - manifest.shards.keys()
                ]
        return sorted(problems)

    def size_problem(self, file: str) -> str | None:
        """Returns a description if the file is shorter or longer than its manifest states."""
        shard, size = self.manifest_entry(file), self._sizes[file]
        if shard is None or size == shard.bytes:
            return None
        problem = "truncated or replaced" if size < shard.bytes else "longer than it was written"
        return (
            f"{file} is {problem}: it has {size:,} bytes, but {MANIFEST} states {shard.bytes:,}; "
            "write the records again"
        )

    def content_problems(self) -> list[str]:
        """Returns the files that were altered or are copies of another file."""
        problems, first_files = [], {}
        num_of_size = Counter(self._sizes.values())
        for file in progress(self.files, stage="digest", unit="file"):
            shard = self.manifest_entry(file)
            if not shard and num_of_size[self._sizes[file]] == 1:
                continue
            sha256 = digest(file)["sha256"]
            first = first_files.setdefault(sha256, file)
            if first != file:
                problems.append(f"{file} contains the same records as {first}; remove one of them")
            if shard and sha256 != shard.sha256 and self._sizes[file] == shard.bytes:
                problems.append(
                    f"{file} was altered: its SHA-256 is not the one in {MANIFEST}; write the "
                    "records again"
                )
        return problems

    def num_records(self, files: Sequence[str]) -> int | None:
        """Returns the number of records of files, or None if one of them has no manifest."""
        shards = [shard for file in files if (shard := self.manifest_entry(file))]
        return sum(shard.records for shard in shards) if len(shards) == len(files) else None
