"""Compares the names, sizes and digests of record files with the manifests beside them."""

import glob
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from bert_keras.data.schema import PretrainingSchema
from bert_keras.progress import progress
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.inputs.places import digest
from tfrecords_tools.manifest import MANIFEST, Manifest, Shard
from tfrecords_tools.records.writer import framed_length

SUFFIX = ".tfrecord"


def holds_records(place: str | os.PathLike) -> bool:
    """Returns whether a file, folder or glob pattern contains records, by name or by content.

    A TFRecord file begins with the length of a record, 8 bytes, and its masked CRC-32C
    (tensorflow/core/lib/io/record_writer.h).
    """
    place = os.fspath(place)
    if os.path.isdir(place):
        return any(name.endswith(SUFFIX) for name in os.listdir(place))
    if SUFFIX in os.path.basename(place):
        return True
    files = [place] if os.path.isfile(place) else sorted(filter(os.path.isfile, glob.glob(place)))
    if not files:
        return False
    with open(files[0], "rb") as file:
        head = file.read(12)
    return head == framed_length(int.from_bytes(head[:8], "little"))


class Shards:
    """The record files that the user named and the manifests of their folders.

    Args:
        files: The record files.
        whole_folders: Folders whose files must match their manifest exactly.
    """

    def __init__(self, files: Sequence[str], *, whole_folders: Iterable[str | os.PathLike]):
        self.files = list(files)
        self.manifests = {
            folder: manifest
            for folder in sorted({Path(file).parent for file in files})
            if (manifest := Manifest.of_folder(folder))
        }
        self._whole_folders = {Path(folder) for folder in whole_folders}
        self._sizes = {file: os.path.getsize(file) for file in files}

    def promised(self, file: str) -> Shard | None:
        """Returns the entry of a file in its manifest, if there is one."""
        manifest = self.manifests.get(Path(file).parent)
        return manifest.shards.get(os.path.basename(file)) if manifest else None

    def faults_of_folders(self, *, schema: PretrainingSchema, vocabulary: Vocabulary) -> list[str]:
        """Returns missing or unknown shards, and differences in vocabulary and schema."""
        faults = []
        for folder, manifest in self.manifests.items():
            if not manifest.is_vocabulary(vocabulary):
                faults.append(
                    f"{manifest.path} names another vocabulary than this one of {len(vocabulary)} "
                    "pieces; give the one that the records were written with"
                )
            if manifest.schema != schema:
                faults.append(
                    f"the records in {folder} are of {schema}, but {MANIFEST} beside them says "
                    f"{manifest.schema}"
                )
            if folder in self._whole_folders:
                here = {Path(file).name for file in self.files if Path(file).parent == folder}
                faults += [
                    f"{folder / name} is missing; write these records again"
                    for name in manifest.shards.keys() - here
                ]
                faults += [
                    f"{folder / name} is not one of the shards that {MANIFEST} beside it names"
                    for name in here - manifest.shards.keys()
                ]
        return sorted(faults)

    def size_fault(self, file: str) -> str | None:
        """Returns a fault if the file is shorter or longer than its manifest states."""
        shard, size = self.promised(file), self._sizes[file]
        if shard is None or size == shard.bytes:
            return None
        what = "truncated, or another file" if size < shard.bytes else "longer than it was written"
        return (
            f"{file} is {what}: it has {size:,} bytes, {MANIFEST} says {shard.bytes:,}; write it "
            "again"
        )

    def faults_of_contents(self) -> list[str]:
        """Returns faults of files that were altered or are copies of another file."""
        faults, first_with = [], {}
        num_of_size = Counter(self._sizes.values())
        for file in progress(self.files, stage="digest", unit="file"):
            shard = self.promised(file)
            if not shard and num_of_size[self._sizes[file]] == 1:
                continue
            sha256 = digest(file)["sha256"]
            twin = first_with.setdefault(sha256, file)
            if twin != file:
                faults.append(f"{file} holds the same records as {twin}; remove one of them")
            if shard and sha256 != shard.sha256 and self._sizes[file] == shard.bytes:
                faults.append(
                    f"{file} was altered: its SHA-256 is not the one in {MANIFEST}; write it again"
                )
        return faults

    def num_records(self, files: Sequence[str]) -> int | None:
        """Returns the number of records of files, or None if one of them has no manifest."""
        shards = [shard for file in files if (shard := self.promised(file))]
        return sum(shard.records for shard in shards) if len(shards) == len(files) else None
