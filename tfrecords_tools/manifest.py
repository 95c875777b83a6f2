"""Reads and writes the manifest of record files and the plan of a build.

Both state the inputs, the settings and the versions. `build` writes the plan first; a run that
continues must have the same plan. It writes the manifest last, so a folder with a manifest is
complete. `check` compares record files with the manifest.
"""

import glob
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from bert_keras.data.schema import PretrainingSchema
from bert_keras.errors import InputError
from bert_keras.files import atomic_file, json_object
from bert_keras.progress import progress
from bert_keras.text.fast_tokenizer import (
    vocabulary_file,
    vocabulary_from,
    vocabulary_in,
    vocabulary_sha256,
)
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.inputs.corpus import digest, fingerprint
from tfrecords_tools.settings import BuildSettings, GoogleSettings, Settings

MANIFEST = "manifest.json"
FORMAT = 2
NEXT_SENTENCE = ("true next", "random next")  # labels 0 and 1
SHARD_FIELDS = ("file", "records", "bytes", "sha256")  # of a record file


@dataclass(frozen=True)
class Shard:
    """The entry of one record file in the manifest."""

    file: str
    records: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The part of a manifest that record files are compared with."""

    path: Path
    shards: dict[str, Shard]  # by file name
    schema: PretrainingSchema
    vocabulary_sha256: str
    objective: str

    @classmethod
    def of_folder(cls, folder: str | os.PathLike) -> "Manifest | None":
        """Reads the manifest of a folder, or returns None if there is none.

        Raises:
            InputError: The file was not written by this version of `build`.
        """
        path = Path(folder) / MANIFEST
        if not path.is_file():
            return None
        values = json_object(path)
        if values.get("format") != FORMAT:
            raise InputError(
                f"{path} has the format {values.get('format')}; expected {FORMAT}: another version "
                "of bert-tfrecords wrote it; write the records again"
            )
        try:
            shards = [shard for split in values["splits"].values() for shard in split["shards"]]
            return cls(
                path=path,
                shards={
                    shard["file"]: Shard(**{name: shard[name] for name in SHARD_FIELDS})
                    for shard in shards
                },
                schema=PretrainingSchema(**values["schema"]),
                vocabulary_sha256=values["vocabulary"]["sha256"],
                # The original has no other objective than "nsp".
                objective=values["settings"].get("objective", "nsp"),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{path} is not a manifest of bert-tfrecords build; write the records again"
            ) from error


_LABELS = {"nsp": NEXT_SENTENCE, "sop": ("true order", "changed order")}


def label_names(file: str | os.PathLike) -> tuple[str, str]:
    """Returns the meanings of the labels 0 and 1 of a record file.

    Without a manifest they are the labels of next sentence prediction.
    """
    manifest = Manifest.of_folder(Path(file).parent)
    objective = manifest.objective if manifest else "nsp"
    return _LABELS.get(objective, NEXT_SENTENCE)


def records_vocabulary(
    records: Sequence[str | os.PathLike], *, file: str | None = None
) -> Vocabulary:
    """Reads a vocabulary file, or if `file` is None, the file in the folder of the first records.

    Args:
        records: Folders, glob patterns or files.
        file: The vocabulary file.

    Raises:
        InputError: There is no such file.
    """
    if file:
        return vocabulary_from(file)
    pattern = os.fspath(records[0])
    matches = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern))
    if not matches:
        raise InputError(f"{pattern} does not exist; expected a folder of records or record files")
    first = Path(matches[0])
    folder = first if first.is_dir() else first.parent
    vocabulary = vocabulary_in(folder)
    if vocabulary is None:
        raise InputError(
            f"{folder} contains no vocab.txt or tokenizer.json; name the vocabulary of the records "
            "with --vocab"
        )
    return vocabulary


def known_entries(settings: Settings, vocabulary: Vocabulary, inputs: Sequence[dict]) -> dict:
    """Returns the entries of the manifest that are known before the records are written.

    Args:
        settings: The settings of the records.
        vocabulary: The vocabulary.
        inputs: The digests of the inputs.
    """
    return {
        "format": FORMAT,
        "compat": "google" if isinstance(settings, GoogleSettings) else None,
        "settings": asdict(settings),
        "versions": versions(),
        "inputs": inputs,
        "vocabulary": {
            "file": vocabulary_file(vocabulary)[0],
            "size": len(vocabulary),
            "sha256": vocabulary_sha256(vocabulary),
        },
        "schema": asdict(settings.schema),
    }


def split_summary(shards: Sequence[dict], *, summed: Sequence[str], **totals: int) -> dict:
    """Returns the entry of a split in the manifest.

    Args:
        shards: The counts of each shard.
        summed: The names of the counts that are summed over the shards.
        totals: Other counts of the split.
    """
    return {
        **totals,
        **{name: sum(each[name] for each in shards) for name in summed},
        "shards": [{name: each[name] for name in SHARD_FIELDS} for each in shards],
    }


_LIBRARIES = ("bert-keras", "numpy", "tokenizers", "sentencex")


def planned_inputs(
    folder: Path, *, files: Sequence[str], settings: Settings, vocabulary: Vocabulary
) -> list[dict]:
    """Returns the digests of the input files, and writes the plan or compares it with the old one.

    Args:
        folder: The work folder; it has a plan if the run was interrupted.
        files: The input files.
        settings: The settings of the records.
        vocabulary: The vocabulary.

    Raises:
        InputError: The run was started with other settings, inputs or versions.
    """
    path = folder / "plan.json"
    plan = {
        "settings": {
            "compat": None if isinstance(settings, BuildSettings) else "google",
            **asdict(settings),
        },
        "vocabulary": vocabulary_sha256(vocabulary),
        "versions": versions(),
        "files": [fingerprint(file) for file in files],
    }
    if path.exists():
        old_plan = json_object(path)
        _compare(old_plan, plan, folder)
        plan["inputs"] = old_plan["inputs"]
    else:
        plan["inputs"] = []
        num_bytes = sum(file["bytes"] for file in plan["files"])
        with progress(stage="read inputs", unit="B", total=num_bytes) as bar:
            for file in files:
                plan["inputs"].append(digest(file))
                bar.update(plan["inputs"][-1]["bytes"])
    with atomic_file(path) as partial:
        partial.write_text(json.dumps(plan), encoding="utf-8")
    return plan["inputs"]


def expect_unchanged(folder: Path) -> None:
    """Raises InputError if an input was changed after the plan was written."""
    for file in json_object(folder / "plan.json")["files"]:
        if fingerprint(file["path"]) != file:
            raise InputError(
                f"{file['path']} changed while it was read; run again, after removing "
                f"{folder.parent} if it exists"
            )


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the libraries that affect the bytes of records."""
    return {"python": platform.python_version(), **{name: version(name) for name in _LIBRARIES}}


def _compare(old_plan: dict, plan: dict, folder: Path) -> None:
    remedy = f"repeat the command that began {folder.parent}, or remove that folder to start again"
    for name in ("settings", "versions"):
        for key, value in plan[name].items():
            old_value = old_plan[name].get(key)
            if old_value != value:
                raise InputError(
                    f"{key} is {value}, but was {old_value} before the interruption; {remedy}"
                )
    if old_plan["vocabulary"] != plan["vocabulary"]:
        raise InputError(f"the vocabulary was changed after the interruption; {remedy}")
    before, after = ({file["path"]: file for file in each["files"]} for each in (old_plan, plan))
    digests = {file["path"]: file for file in old_plan["inputs"]}
    for path in [*before, *after]:
        if before.get(path) == after.get(path):
            continue
        if path not in before or path not in after or digest(path) != digests[path]:
            raise InputError(
                f"{path} was changed, added or removed after the interruption; {remedy}"
            )
    if list(before) != list(after):
        raise InputError(f"the order of the files was changed after the interruption; {remedy}")
