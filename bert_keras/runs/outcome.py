"""Writes and reads the recipe and the scores in the output folder of a run."""

import contextlib
import dataclasses
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bert_keras.distribution.strategy import is_chief
from bert_keras.errors import InputError, listed
from bert_keras.files import LOCK, check_parent, json_object, locked_folder, write_text
from bert_keras.training.saved_states import saved_steps

RECIPE, SCORES, MODEL = "recipe.json", "scores.json", "model"


@dataclass(frozen=True)
class RunResult:
    """The result of a finished run, which `pretrain` and `finetune` return.

    Example:

    ```python
    result = RunResult(scores={"accuracy": 0.9}, model=Path("runs/mrpc/model"))
    ```
    """

    scores: dict[str, float]  # {} on every worker but the first, which alone computes scores
    model: Path  # the folder of the trained model, OUTPUT/model


@contextlib.contextmanager
def claimed_output(
    output: str | os.PathLike, *, recipe, files: Mapping[str, int | str] | None = None, **inputs
) -> Iterator[Path]:
    """Locks the output folder of a run and writes its recipe; an existing run may continue there.

    A folder that contains only a recipe may be reused by another run, because a run that fails its
    first checks leaves such a folder. Only the first worker locks the folder and writes.

    Args:
        output: The output folder.
        recipe: The recipe of the run, a dataclass.
        files: The size or the digest of each file that the run reads, by its name.
        **inputs: Other inputs of the run, such as its data, which must be the same to continue it.

    Yields:
        The output folder.

    Raises:
        InputError: The folder contains a run with another recipe, other inputs or other files,
            or files of no run, or another process has locked it.
    """
    output = Path(output)
    if not is_chief():
        yield output
        return
    path = output / RECIPE
    if not path.is_file() and output.exists() and (not output.is_dir() or _names(output)):
        raise InputError(f"{output} exists and has no run; choose a new or empty output folder")
    check_parent(output)
    output.mkdir(parents=True, exist_ok=True)
    with locked_folder(output):
        settings = {**inputs, **dataclasses.asdict(recipe), "files": files or {}}
        settings = json.loads(json.dumps(settings))  # tuples become lists
        if path.is_file() and _names(output) != {RECIPE}:
            try:
                old = json_object(path)
            except InputError as error:
                raise InputError(f"{error}; restore it, or choose another output folder") from error
            _expect_same(output, old, settings)
        else:
            write_text(path, json.dumps(settings, indent=2) + "\n")
        yield output


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {LOCK}


def _expect_same(output: Path, old: dict, new: dict) -> None:
    """Raises InputError if the run in a folder has other settings or other files."""
    new_files = new.pop("files")
    old_files = old.pop("files", None) or new_files  # runs of earlier versions have none
    old, new = _flat(old), _flat(new)
    changes = [
        f"{name} {old.get(name)!r}, now {new.get(name)!r}"
        for name in new | old
        if new.get(name) != old.get(name)
    ]
    changes += [f"the file {name} was added" for name in new_files if name not in old_files]
    changes += [f"the file {name} was removed" for name in old_files if name not in new_files]
    both = [name for name in new_files if name in old_files]
    changes += [f"the file {n} was changed" for n in both if new_files[n] != old_files[n]]
    if changes:
        raise InputError(
            f"{output} contains a run with other settings or files ({listed(changes, most=4)}); "
            "continue it with those that it was started with, or choose another output folder"
        )


def write_scores(output: Path, scores: dict) -> dict:
    """Writes the scores of a finished run and returns them."""
    write_text(output / SCORES, json.dumps(scores, indent=2) + "\n")
    return scores


def read_scores(output: Path) -> dict | None:
    """Returns the scores of a finished run.

    Returns None if the run has not finished, or if its scores are damaged or its model folder is
    missing.
    """
    path = output / SCORES
    if not path.is_file():
        return None
    try:
        scores = json_object(path)
    except InputError as error:
        print(f"{error}; the run writes it again", file=sys.stderr)
        return None
    if not (output / MODEL).is_dir():
        print(f"{output} is a finished run without {MODEL}/; it is written again", file=sys.stderr)
        return None
    return scores


def model_folder(output: Path) -> Path:
    """Returns the path for the model after removing an incomplete model of a killed run."""
    folder = output / MODEL
    if folder.exists():
        shutil.rmtree(folder)
    return folder


def has_state(output: Path) -> bool:
    """Returns whether the folder has the saved state of an interrupted run."""
    return bool(saved_steps(output / "checkpoints"))


def _flat(values: dict, prefix: str = "") -> dict:
    """Returns {"task": {"max_length": 128}} as {"task.max_length": 128}."""
    flat = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat
