"""Writes and reads the recipe and the scores in the output folder of a run."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bert_keras import files
from bert_keras.checkpoints import native
from bert_keras.errors import InputError, listed, print_field

RECIPE, SCORES, MODEL = "recipe.json", "scores.json", "model"


@dataclass(frozen=True)
class RunResult:
    """The result of a finished run, which `pretrain` and `finetune` return.

    Attributes:
        scores: The metrics on the held-out examples; {} on all workers except the first.
        model: The folder of the trained model, OUTPUT/model.

    Example:

    ```python
    result = RunResult(scores={"accuracy": 0.9}, model=Path("runs/mrpc/model"))
    ```
    """

    scores: dict[str, float]
    model: Path


@contextlib.contextmanager
def claimed_output(output: files.StrPath, settings: Mapping[str, Any]) -> Iterator[Path]:
    """Locks the output folder of a run and writes its recipe; an existing run may continue there.

    A folder that contains only a recipe may be reused by another run, because a run that fails its
    first checks leaves one. Only the first worker locks and writes.

    Args:
        output: The folder of the run.
        settings: The settings that must be the same to continue the run. Their item "files" is a
            dict from the names of the data files to sizes or digests.

    Yields:
        The folder as a path.
    """
    from bert_keras.distribution.strategy import is_chief, wait_for_workers  # imports Keras

    output = Path(output)
    if not is_chief():
        yield output
        wait_for_workers()  # until the first one has written the model
        return
    check_run(output)
    output.mkdir(parents=True, exist_ok=True)
    with files.locked_folder(output):
        if _names(output) <= {RECIPE}:
            files.write_json(output / RECIPE, settings)
        _check_same(output, settings)
        yield output
    wait_for_workers()


def check_run(output: files.StrPath, known: Mapping[str, Any] | None = None) -> None:
    """Checks that a run may start or continue in a folder; `known` are some of its settings."""
    output = Path(output)
    files.check_folder(output)
    names = _names(output) if output.exists() else set()
    if names and RECIPE not in names:
        files.refuse_existing(output)
    if names and read_scores(output) is None:  # the end of the run writes the model
        files.refuse_existing(output / MODEL, replaces=native.FILES)
    if known and names - {RECIPE}:
        _check_same(output, known)


def _check_same(output: Path, settings: Mapping[str, Any]) -> None:
    """Raises InputError if a setting is not as in the folder's recipe."""
    old = _flatten(files.json_object(output / RECIPE))
    new = _flatten(json.loads(json.dumps(settings)))  # tuples become lists
    if "files" in settings:  # all settings are known, so each name in `old` must be in `new`
        new = dict.fromkeys(old) | new
    changes = []
    for name, value in new.items():
        if value != old.get(name) and name.startswith("files."):
            changes.append(f"the file {name.removeprefix('files.')}")
        elif value != old.get(name):
            changes.append(f"{name} was {old.get(name)!r} and is now {value!r}")
    if changes:
        problem = f"{output} contains a run with other settings or files: {listed(changes, most=4)}"
        raise InputError(f"{problem}; restore them to continue it, or choose another output folder")


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.name[0] != "."}  # no locks, no .part


def _flatten(values: dict, prefix: str = "") -> dict:
    """Returns {"task": {"max_length": 128}} as {"task.max_length": 128}."""
    flat = {}
    for name, value in values.items():
        is_nested = isinstance(value, dict)
        flat |= _flatten(value, f"{prefix}{name}.") if is_nested else {prefix + name: value}
    return flat


def write_scores(output: Path, scores: dict) -> dict:
    """Writes the scores of a finished run and returns them."""
    files.write_json(output / SCORES, scores)
    return scores


def read_scores(output: Path) -> dict | None:
    """Returns the scores of a finished run, or None if it has not finished or has no model."""
    is_finished = (output / SCORES).is_file() and (output / MODEL).is_dir()
    return files.json_object(output / SCORES) if is_finished else None


def finished_scores(output: Path) -> dict | None:
    """Returns the scores as `read_scores` does, and prints that a finished run is not repeated."""
    if (scores := read_scores(output)) is not None:
        print_field("complete", f"{output}; nothing was trained; delete it to train again")
    return scores
