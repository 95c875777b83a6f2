"""What a build is made from goes to its folder first; a later run must be made from the same."""

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.progress import progress
from bert_keras.storage import json_object, whole_file
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.inputs.corpus import digest, fingerprint
from tfrecords_tools.manifest import vocabulary_sha256
from tfrecords_tools.settings import BuildSettings

_LIBRARIES = ("bert-keras", "numpy", "tokenizers", "sentencex")


def planned(
    folder: Path, *, files: Sequence[str], settings: BuildSettings, vocabulary: Vocabulary
) -> list[dict]:
    """The digests of the files; written into the folder, or held against what is there.

    Raises InputError where the folder was begun with other settings, inputs or versions.
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
    """InputError where an input is no longer what the plan says of it."""
    for then in json_object(folder / "plan.json")["files"]:
        if fingerprint(then["path"]) != then:
            raise InputError(
                f"{then['path']} changed while it was read; remove {folder.parent} and run again"
            )


def versions() -> dict[str, str]:
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
