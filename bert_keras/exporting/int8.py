"""Exports a fine-tuned model in 8 bits and compares it with float32."""

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bert_keras.data.encoded import Encoded
from bert_keras.errors import InputError
from bert_keras.files import StrPath, atomic_folder, json_object, readable_size, write_json
from bert_keras.serving.litert import ExportedModel
from bert_keras.serving.version_folder import LITERT, METADATA

if TYPE_CHECKING:
    from bert_keras.downstream.task import Task

MAX_SCORE_DROP = 0.5  # points, of 100, by which the score may drop by default


class Scoring(NamedTuple):
    """The task and the labelled examples that score a model."""

    task: "Task"
    examples: Sequence
    encoded: Encoded


def export_int8(
    folder: StrPath, scoring: Scoring, *, write: Callable[..., Path], max_score_drop: float
) -> Path:
    """Exports a model in int8 and prints the size and the score of int8 and float32.

    The metadata of the version stores the measurements.

    Args:
        folder: The version folder, which must not exist yet.
        scoring: What scores both models.
        write: Exports the model to a folder, in 8 bits with `is_int8=True`.
        max_score_drop: The points, of 100, by which the score may drop.

    Raises:
        InputError: The score drops by more.
    """
    folder, task = Path(folder), scoring.task
    with (
        atomic_folder(folder) as new_folder,
        tempfile.TemporaryDirectory(dir=new_folder) as scratch,
    ):
        folders = {name: Path(scratch, name) for name in ("float32", "int8")}
        for name, path in folders.items():
            write(path, is_int8=name == "int8")
        figures = {
            name: {
                "num_bytes": (path / LITERT).stat().st_size,
                "score": measure_score(ExportedModel(path), scoring),
            }
            for name, path in folders.items()
        }
        compare_with_float32(figures, metric=task.metric, max_score_drop=max_score_drop)
        scored_on = {"task": task.name, "metric": task.metric, "examples": len(scoring.examples)}
        measurements = {"name": "int8", "figures": figures, "scored_on": scored_on}
        metadata = json_object(folders["int8"] / METADATA)
        write_json(folders["int8"] / METADATA, {**metadata, "variant": measurements})
        for path in folders["int8"].iterdir():
            shutil.move(path, new_folder)
    return folder


def measure_score(model: ExportedModel, scoring: Scoring) -> float:
    """Returns the score of an exported model by the metric of the task, in points up to 100."""
    task, examples, encoded = scoring
    outputs = model.row_outputs(encoded, is_silent=False)
    return 100 * task.score(examples, task.predictions(examples, encoded, outputs))[task.metric]


def compare_with_float32(
    figures: Mapping[str, dict], *, metric: str, max_score_drop: float
) -> None:
    """Prints the figures of both models; InputError if int8 loses too much."""
    for model, each in figures.items():
        size = readable_size(each["num_bytes"])
        print(f"{model + ':':9} {size} on disk; {metric} {each['score'] / 100:.4f}")
    loss = round(figures["float32"]["score"] - figures["int8"]["score"], 2)  # as in the message
    if loss > max_score_drop:
        raise InputError(
            f"int8 loses {loss:.2f} points of {metric}, more than {max_score_drop:g} of 100; "
            "export float32, or allow it with --max-score-drop (max_score_drop)"
        )
