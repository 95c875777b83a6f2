"""What a run leaves in its output folder beside the model: its recipe first, its scores last."""

import dataclasses
import json
import os
import shutil
import sys
from pathlib import Path

import tensorflow as tf

from bert_keras.distribution.strategy import is_chief
from bert_keras.errors import InputError, listed
from bert_keras.storage import json_object, write_text

RECIPE, SCORES, MODEL = "recipe.json", "scores.json", "model"


def claim_output(output: str | os.PathLike, *, recipe, **inputs) -> Path:
    """Make `output` this run's folder, or find that it is: a run started there continues.

    A folder with a recipe alone is that of a run that was refused: another may take it. Raises
    InputError where another run, of another recipe or other inputs, has begun there, or where the
    folder holds something else. Of several workers the first makes it.
    """
    output = Path(output)
    if not is_chief():
        return output
    mine = json.loads(json.dumps({**inputs, **dataclasses.asdict(recipe)}))  # no tuples
    path = output / RECIPE
    if path.is_file():
        theirs, now = _flat(json_object(path)), _flat(mine)
        other = [name for name in now | theirs if now.get(name) != theirs.get(name)]
        if other and [*output.iterdir()] == [path]:
            _write(path, mine)
        elif other:
            told = [f"{name} {theirs.get(name)!r}, now {now.get(name)!r}" for name in other]
            raise InputError(
                f"{output} holds a run with {listed(told, most=4)}: choose another output folder"
            )
    elif output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InputError(f"{output} holds something else; choose a new or empty output folder")
    else:
        _write(path, mine)
    return output


def write_scores(output: Path, scores: dict) -> dict:
    """Write the scores of a run that has ended, and return them."""
    _write(output / SCORES, scores)
    return scores


def read_scores(output: Path) -> dict | None:
    """The scores of a run that has ended; None where it has not, or has lost its model since."""
    path = output / SCORES
    if not path.is_file():
        return None
    if not (output / MODEL).is_dir():
        print(f"{output} has ended but its {MODEL}/ is gone: it is made again", file=sys.stderr)
        return None
    return json_object(path)


def model_folder(output: Path) -> Path:
    """Where the model of a run goes that has no scores yet: what a killed one left is removed."""
    folder = output / MODEL
    if folder.exists():
        shutil.rmtree(folder)
    return folder


def has_state(output: Path) -> bool:
    """Whether a run was interrupted there: its own newest state is what it goes on from."""
    return tf.train.latest_checkpoint(output / "checkpoints") is not None


def _flat(values: dict, prefix: str = "") -> dict:
    """{"task": {"max_length": 128}} as {"task.max_length": 128}."""
    flat = {}
    for name, value in values.items():
        flat |= (
            _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
        )
    return flat


def _write(path: Path, values: dict) -> None:
    write_text(path, json.dumps(values, indent=2) + "\n")
