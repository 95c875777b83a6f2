"""Reads and writes the manifest of record files and the plan of a build.

Both state the inputs, the settings and the versions. `build` writes the plan first; a run that
continues must have the same plan. It writes the manifest last, so a folder with a manifest is
complete. `check` compares record files with the manifest.
"""

import hashlib
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from bert_keras.data.schema import PretrainingSchema
from bert_keras.errors import InputError
from bert_keras.progress import progress
from bert_keras.storage import json_object, whole_file
from bert_keras.text.fast_tokenizer import vocabulary_file, vocabulary_from, vocabulary_in
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

    split: str
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
                "of bert-tfrecords wrote it"
            )
        try:
            shards = [
                Shard(split=split, **{name: shard[name] for name in SHARD_FIELDS})
                for split, counts in values["splits"].items()
                for shard in counts["shards"]
            ]
            return cls(
                path=path,
                shards={shard.file: shard for shard in shards},
                schema=PretrainingSchema(**values["schema"]),
                vocabulary_sha256=values["vocabulary"]["sha256"],
                objective=values["settings"].get(
                    "objective", "nsp"
                ),  # the original has no other objective
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} is not what bert-tfrecords build wrote") from error

    def is_vocabulary(self, vocabulary: Vocabulary) -> bool:
        """Returns whether the records were written with this vocabulary."""
        return self.vocabulary_sha256 == vocabulary_sha256(vocabulary)


_LABELS = {"nsp": NEXT_SENTENCE, "sop": ("true order", "changed order")}


def label_words(file: str | os.PathLike) -> tuple[str, str]:
    """Returns the meanings of the labels 0 and 1 of a record file.

    Without a manifest they are the labels of next sentence prediction.
    """
    manifest = Manifest.of_folder(Path(file).parent)
    objective = manifest.objective if manifest else "nsp"
    return _LABELS.get(objective, NEXT_SENTENCE)


def records_vocabulary(
    records: Sequence[str | os.PathLike], *, named: str | None = None
) -> Vocabulary:
    """Reads the vocabulary file `named`, or the file beside the first of the records.

    Raises:
        InputError: There is no such file.
    """
    if named:
        return vocabulary_from(named)
    first = Path(records[0])
    if not first.exists():
        raise InputError(f"{first} does not exist; expected a folder of records or record files")
    beside = vocabulary_in(first if first.is_dir() else first.parent)
    if beside is None:
        raise InputError(
            f"there is no vocab.txt or tokenizer.json beside the records at {first}; give one by "
            "--vocab"
        )
    return beside


def made_from(settings: Settings, vocabulary: Vocabulary, inputs: Sequence[dict]) -> dict:
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


def vocabulary_sha256(vocabulary: Vocabulary) -> str:
    """Returns the SHA-256 of the file of a vocabulary."""
    return hashlib.sha256(vocabulary_file(vocabulary)[1].encode()).hexdigest()


_LIBRARIES = ("bert-keras", "numpy", "tokenizers", "sentencex")


def planned(
    folder: Path, *, files: Sequence[str], settings: Settings, vocabulary: Vocabulary
) -> list[dict]:
    """Returns the digests of the input files, and writes the plan or compares it with the old one.

    Args:
        folder: The work folder; it has a plan if the run was interrupted.
        files: The input files.
        settings: The settings of the records.
        vocabulary: The vocabulary.

    Raises:
        InputError: The run was begun with other settings, inputs or versions.
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
        begun = json_object(path)
        _compare(begun, plan, folder)
        plan["inputs"] = begun["inputs"]
        _write(plan, path)
        return plan["inputs"]
    plan["inputs"] = []
    with progress(
        stage="read inputs", unit="B", total=sum(file["bytes"] for file in plan["files"])
    ) as bar:
        for file in files:
            plan["inputs"].append(digest(file))
            bar.update(plan["inputs"][-1]["bytes"])
    _write(plan, path)
    return plan["inputs"]


def unchanged(folder: Path) -> None:
    """Raises InputError if an input was changed after the plan was written."""
    for then in json_object(folder / "plan.json")["files"]:
        if fingerprint(then["path"]) != then:
            raise InputError(
                f"{then['path']} changed while it was read; remove {folder.parent} and run again"
            )


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the libraries that affect the bytes of records."""
    return {"python": platform.python_version(), **{name: version(name) for name in _LIBRARIES}}


def _write(plan: dict, path: Path) -> None:
    with whole_file(path) as part:
        part.write_text(json.dumps(plan), encoding="utf-8")


def _compare(begun: dict, plan: dict, folder: Path) -> None:
    remedy = f"give what {folder.parent} was begun with, or remove it to begin anew"
    for name in ("settings", "versions"):
        for key, value in plan[name].items():
            then = begun[name].get(key)
            if then != value:
                raise InputError(f"{key} is {value}, but was {then} before the stop; {remedy}")
    if begun["vocabulary"] != plan["vocabulary"]:
        raise InputError(f"the vocabulary is another than before the stop; {remedy}")
    before, after = ({file["path"]: file for file in each["files"]} for each in (begun, plan))
    digests = {then["path"]: then for then in begun["inputs"]}
    for path in [*before, *after]:
        was_touched = path in before and path in after and before[path] != after[path]
        if (
            path not in before
            or path not in after
            or (was_touched and digest(path) != digests[path])
        ):
            raise InputError(f"{path} is not as it was before the stop; {remedy}")
    if list(before) != list(after):
        raise InputError(f"the files stand in another order than before the stop; {remedy}")
