"""What a run leaves in its output folder beside the model: its recipe first, its scores last."""

import dataclasses
import json
import os
from pathlib import Path

import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.storage import json_object, whole_file

RECIPE, SCORES = "recipe.json", "scores.json"


def claim_output(output: str | os.PathLike, *, recipe, **inputs) -> Path:
    """Make `output` this run's folder, or find that it is: a run started there continues.

    Raises InputError where another run, of another recipe or other inputs, has begun there, or
    where the folder holds something else.
    """
    output = Path(output)
    mine = json.loads(json.dumps({**dataclasses.asdict(recipe), **inputs}))  # no tuples
    path = output / RECIPE
    if path.is_file():
        theirs = json_object(path)
        other = [name for name in mine | theirs if mine.get(name) != theirs.get(name)]
        if other:
            told = "; ".join(
                f"{name} {theirs.get(name)!r}, now {mine.get(name)!r}" for name in other
            )
            raise InputError(f"{output} holds a run with {told}: choose another output folder")
    elif output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InputError(f"{output} holds something else; choose a new or empty output folder")
    else:
        _write(path, mine)
    return output


def write_scores(output: Path, scores: dict) -> dict:
    _write(output / SCORES, scores)
    return scores


def read_scores(output: Path) -> dict | None:
    """The scores of a run that has ended; None where it has not."""
    path = output / SCORES
    return json_object(path) if path.is_file() else None


def has_state(output: Path) -> bool:
    """Whether a run was interrupted there: its own newest state is what it goes on from."""
    return tf.train.latest_checkpoint(output / "checkpoints") is not None


def _write(path: Path, values: dict) -> None:
    with whole_file(path) as beside:
        beside.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
