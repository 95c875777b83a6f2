"""Describes a folder of records, for `check` and for builds that continue.

The manifest is written last, so a folder with a manifest is complete.
"""

import glob
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bert_keras.errors import InputError, check
from bert_keras.files import StrPath, json_object
from bert_keras.text import fast_tokenizer
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.records.objectives import NEXT_SENTENCE, RECORD_OBJECTIVES
from tfrecords_tools.settings import GoogleSettings, Settings

MANIFEST = "manifest.json"
FORMAT = 2
SHARD_FIELDS = ("file", "records", "bytes", "sha256")  # of a record file
_LIBRARIES = ("bert-keras", "numpy", "tokenizers", "sentencex")  # that affect the bytes of records


def read_manifest(folder: StrPath) -> dict[str, Any] | None:
    """Reads the manifest of a folder; returns None without one."""
    path = Path(folder) / MANIFEST
    if not path.is_file():
        return None
    values = json_object(path)
    keys = {"splits", "schema", "vocabulary", "settings"}
    check(
        values.get("format") == FORMAT and values.keys() >= keys,
        f"{path} is no manifest of the format {FORMAT}: another version of bert-tfrecords or "
        "another program wrote it; write the records again",
    )
    return values


def shards_of(manifest: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the entries of all record files of a manifest by name."""
    return {each["file"]: each for split in manifest["splits"].values() for each in split["shards"]}


def label_names(file: StrPath) -> Sequence[str]:
    """Returns the meanings of labels 0 and 1; without a manifest those of next sentences."""
    manifest = read_manifest(Path(file).parent) or {"settings": {}}
    return RECORD_OBJECTIVES[manifest["settings"].get("objective", "nsp")].labels or NEXT_SENTENCE


def vocabulary_of_files(records: Sequence[StrPath], *, file: str | None = None) -> Vocabulary:
    """Reads a vocabulary `file`, by default that in the folder of the first records."""
    if file:
        return fast_tokenizer.vocabulary_from(file)
    pattern = os.fspath(records[0])
    matches = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern))
    check(matches, f"{pattern} does not exist; expected a folder of records or record files")
    first = Path(matches[0])
    folder = first if first.is_dir() else first.parent
    vocabulary = fast_tokenizer.vocabulary_in(folder)
    if vocabulary is None:
        found = f"{pattern} is no record file and no folder of records (*.tfrecord)"
        check(any(folder.glob("*.tfrecord")), found)
        raise InputError(
            f"{folder} contains no vocab.txt or tokenizer.json; name the vocabulary of the records "
            "with --vocab"
        )
    return vocabulary


def manifest_head(settings: Settings, vocabulary: Vocabulary, inputs: Sequence[dict]) -> dict:
    """Returns the entries of a manifest that are known before the records are written."""
    libraries = {name: version(name) for name in _LIBRARIES}
    return {
        "format": FORMAT,
        "compat": "google" if isinstance(settings, GoogleSettings) else None,
        "settings": asdict(settings),
        "versions": {"python": platform.python_version(), **libraries},
        "inputs": inputs,
        "vocabulary": {
            "file": fast_tokenizer.vocabulary_file(vocabulary)[0],
            "size": len(vocabulary),
            "sha256": fast_tokenizer.vocabulary_sha256(vocabulary),
        },
        "schema": asdict(settings.schema),
    }


def expect_same(plan: Path, head: Mapping[str, Any], *, folder: Path) -> None:
    """Raises InputError for the first value of `head` that differs in the `plan` of a build."""
    try:
        before, now = (
            {
                "format": each["format"],
                "compat": each["compat"],
                **each["settings"],
                **each["versions"],
                "vocabulary": each["vocabulary"]["sha256"],
                **{f"the SHA-256 of {entry['path']}": entry["sha256"] for entry in each["inputs"]},
                "the order of the files": [entry["path"] for entry in each["inputs"]],
            }
            for each in (json_object(plan), head)
        )
    except (InputError, KeyError, TypeError) as error:
        raise InputError(f"{plan} is damaged; remove {folder} to start again") from error
    for name in [*now, *before]:
        check(
            now.get(name) == before.get(name),
            f"{name} is {now.get(name)}, but was {before.get(name)} when {folder} was begun; "
            "repeat the command that began it, or remove that folder to start again",
        )


def split_summary(shards: Sequence[dict], *, summed: Sequence[str], **totals: int) -> dict:
    """Returns the entry of a split: `totals`, counts `summed` over the shards, and the shards."""
    return {
        **totals,
        **{name: sum(each[name] for each in shards) for name in summed},
        "shards": [{name: each[name] for name in SHARD_FIELDS} for each in shards],
    }


def folder_files(manifest: Mapping[str, Any], vocabulary: Vocabulary) -> dict[str, str]:
    """Returns the texts of the vocabulary and, last, of the manifest, by the names of the files."""
    text = json.dumps(manifest, indent=2) + "\n"
    return dict([fast_tokenizer.vocabulary_file(vocabulary), (MANIFEST, text)])
