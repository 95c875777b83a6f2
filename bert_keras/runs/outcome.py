"""Writes and reads the recipe and the scores in the output folder of a run."""

import contextlib
import dataclasses
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bert_keras.errors import check, listed, print_field
from bert_keras.files import (
    StrPath,
    check_no_file,
    check_parent,
    json_object,
    locked_folder,
    write_json,
)

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
def claimed_output(
    output: StrPath, *, recipe: Any, files: Mapping[str, int | str] | None = None, **inputs: Any
) -> Iterator[Path]:
    """Locks the output folder of a run and writes its recipe; an existing run may continue there.

    A folder that contains only a recipe may be reused by another run, because a run that fails its
    first checks leaves such a folder. Only the first worker locks the folder and writes. `files`
    are the sizes or digests of what the run reads, by name, and `inputs` what else must be the same
    to continue it.

    Raises:
        InputError: The folder contains a run with another recipe, other inputs or other files,
            or files of no run, or another process has locked it.
    """
    from bert_keras.distribution.strategy import is_chief  # imports Keras

    output = Path(output)
    if not is_chief():
        yield output
        return
    check_run(output)
    output.mkdir(parents=True, exist_ok=True)
    with locked_folder(output):
        settings = _stored(recipe=recipe, files=files or {}, **inputs)
        if _names(output) <= {RECIPE}:
            write_json(output / RECIPE, settings)
        old = _flat(json_object(output / RECIPE))
        _check_same(output, old, dict.fromkeys(old) | _flat(settings))
        yield output


def check_run(output: StrPath, **known: Any) -> None:
    """Checks `known` arguments of `claimed_output` before the others are known; writes nothing."""
    output = Path(output)
    check_no_file(output)
    names = _names(output) if output.exists() else set()
    reason = "exists and has no run; choose a new or empty output folder"
    check(not names or RECIPE in names, f"{output} {reason}")
    check_parent(output)
    if known and names - {RECIPE}:
        old = _flat(json_object(output / RECIPE))
        all_old = old if "files" in known else ()  # with the files, no argument is unknown
        _check_same(output, old, dict.fromkeys(all_old) | _flat(_stored(**known)))


def _stored(*, recipe: Any, **inputs: Any) -> dict:
    """Returns the settings as JSON stores them, with lists instead of tuples."""
    return json.loads(json.dumps({**inputs, **dataclasses.asdict(recipe)}))


def _check_same(output: Path, old: dict, new: dict) -> None:
    changes = [
        name.replace("files.", "the file ")
        + f" was {old.get(name)!r} and is now {value!r}" * (not name.startswith("files."))
        for name, value in new.items()
        if value != old.get(name)
    ]
    found = f"{output} contains a run with other settings or files: {listed(changes, most=4)}"
    remedy = (
        "to continue it, give the former ones; to start a new run, choose another output folder"
    )
    check(not changes, f"{found}; {remedy}")


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.name[0] != "."}  # no lock, no .part


def _flat(values: dict, prefix: str = "") -> dict:
    """Returns {"task": {"max_length": 128}} as {"task.max_length": 128}."""
    flat = {}
    for name, value in values.items():
        is_nested = isinstance(value, dict)
        flat |= _flat(value, f"{prefix}{name}.") if is_nested else {prefix + name: value}
    return flat


def write_scores(output: Path, scores: dict) -> dict:
    """Writes the scores of a finished run and returns them."""
    write_json(output / SCORES, scores)
    return scores


def read_scores(output: Path) -> dict | None:
    """Returns the scores of a finished run, None if it has not finished or has no model."""
    is_finished = (output / SCORES).is_file() and (output / MODEL).is_dir()
    return json_object(output / SCORES) if is_finished else None


def finished_scores(output: Path) -> dict | None:
    """Returns the scores as `read_scores` does, and says that a finished run is not repeated."""
    if (scores := read_scores(output)) is not None:
        remedy = "to train again, choose another output folder or delete this one"
        print_field("complete", f"{output}; nothing was trained; {remedy}")
    return scores


def model_folder(output: Path) -> Path:
    """Returns the path for the model after removing an incomplete model of a killed run."""
    shutil.rmtree(output / MODEL, ignore_errors=True)
    return output / MODEL
