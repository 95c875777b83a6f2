"""Writes and reads the recipe and the scores in the output folder of a run."""

import dataclasses
import json
import os
import shutil
import sys
from pathlib import Path

from bert_keras.distribution.strategy import is_chief
from bert_keras.errors import InputError, listed
from bert_keras.storage import json_object, write_text
from bert_keras.training.saved_states import saved_steps

RECIPE, SCORES, MODEL = "recipe.json", "scores.json", "model"


def claim_output(output: str | os.PathLike, *, recipe, **inputs) -> Path:
    """Creates the output folder of a run and writes its recipe; an existing run may continue there.

    A folder that contains only a recipe may be reused by another run, because a run that fails its
    first checks leaves such a folder. Only the first worker writes.

    Args:
        output: The output folder.
        recipe: The recipe of the run, a dataclass.
        **inputs: Other inputs of the run, such as its data, which must be the same to continue it.

    Returns:
        The output folder.

    Raises:
        InputError: The folder contains a run with another recipe or other inputs, or other files.
    """
    output = Path(output)
    if not is_chief():
        return output
    settings = {**inputs, **dataclasses.asdict(recipe)}
    settings = json.loads(json.dumps(settings))  # tuples become lists
    path = output / RECIPE
    if path.is_file():
        old, new = _flat(json_object(path)), _flat(settings)
        changes = [
            f"{name} {old.get(name)!r}, now {new.get(name)!r}"
            for name in new | old
            if new.get(name) != old.get(name)
        ]
        if not changes:
            return output
        if [*output.iterdir()] != [path]:
            raise InputError(
                f"{output} contains a run with other settings ({listed(changes, most=4)}); choose "
                "another output folder"
            )
    elif output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InputError(f"{output} exists and has no run; choose a new or empty output folder")
    write_text(path, json.dumps(settings, indent=2) + "\n")
    return output


def write_scores(output: Path, scores: dict) -> dict:
    """Writes the scores of a finished run and returns them."""
    write_text(output / SCORES, json.dumps(scores, indent=2) + "\n")
    return scores


def read_scores(output: Path) -> dict | None:
    """Returns the scores of a finished run.

    Returns None if the run has not finished, or if its model folder is missing.
    """
    path = output / SCORES
    if not path.is_file():
        return None
    if not (output / MODEL).is_dir():
        print(f"{output} is a finished run without {MODEL}/; it is written again", file=sys.stderr)
        return None
    return json_object(path)


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
