"""Exports a smaller or faster variant of a fine-tuned model and compares it with float32."""

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from bert_keras.data.encoded import Encoded, longest_first_batches
from bert_keras.errors import InputError
from bert_keras.files import StrPath, atomic_folder, json_object, readable_size, write_json
from bert_keras.serving.version_folder import METADATA
from bert_keras.serving.versions import open_model

Run = Callable[[str, dict], Mapping[str, np.ndarray]]  # (signature, inputs) -> outputs

if TYPE_CHECKING:
    from bert_keras.downstream.task import Task

VARIANTS = {"bfloat16": "tf_saved_model", "int8": "litert"}  # the format of each variant
MAX_SCORE_DROP = 0.5  # points, of 100, by which the score may drop by default

_FLOAT32 = "float32"
_SENTENCE_ENCODER = "BertSentenceEncoder"  # its signature takes single texts, its task pairs
_BATCH_SIZE = 32
_NUM_LONG_TEXTS, _LONG_LENGTH = 8, 128  # texts and tokens of the larger batch that is timed
_NUM_ROUNDS = 20


class Scoring(NamedTuple):
    """The task and the labelled examples that score a model."""

    task: "Task"
    examples: Sequence
    encoded: Encoded


def export_variant(
    folder: StrPath,
    scored: Scoring,
    *,
    write: Callable[..., Path],
    variant: str,
    max_score_drop: float,
) -> Path:
    """Exports a variant and prints the size, time and score of the variant and of float32.

    Both models are exported and loaded as a server loads them, and get the same requests at their
    signature `tensors`. The metadata of the variant stores the measurements. `write` exports the
    model to a folder, as a variant if it gets the name of one. Raises InputError if the score drops
    by more than `max_score_drop` points of 100.
    """
    folder, task = Path(folder), scored.task
    with (
        atomic_folder(folder) as new_folder,
        tempfile.TemporaryDirectory(dir=new_folder) as scratch,
        ExitStack() as open_models,
    ):
        named = Path(folder.resolve().parent.name, folder.name)  # warm-up requests have this name
        folders = {name: Path(scratch, name, named) for name in (_FLOAT32, variant)}
        write(folders[_FLOAT32])
        write(folders[variant], variant)
        models = {name: open_model(path) for name, path in folders.items()}
        runs = {
            name: open_models.enter_context(closing(each)).predict for name, each in models.items()
        }
        times = measure_seconds(runs, scored)
        figures = {}
        for name, run in runs.items():
            num_bytes = sum(p.stat().st_size for p in folders[name].rglob("*") if p.is_file())
            score = measure_score(run, scored)
            figures[name] = {"num_bytes": num_bytes, "seconds": times[name], "score": score}
        compare_with_float32(figures, metric=task.metric, max_score_drop=max_score_drop)
        scored_on = {"task": task.name, "metric": task.metric, "examples": len(scored.examples)}
        measurements = {"name": variant, "figures": figures, "scored_on": scored_on}
        metadata = json_object(folders[variant] / METADATA)
        write_json(folders[variant] / METADATA, {**metadata, "variant": measurements})
        for each in folders[variant].iterdir():
            shutil.move(each, new_folder)
    return folder


def measure_score(run: Run, scored: Scoring) -> float:
    """Returns the score of an exported model by the metric of the task, in points up to 100."""
    task, examples, encoded = scored
    outputs: list = [None] * len(encoded)
    batches = [*longest_first_batches(encoded.lengths, batch_size=_BATCH_SIZE)]
    for rows in tqdm(batches, desc="score", unit=" batches", leave=False, disable=None):
        inputs = encoded.batch(rows)[0]
        *groups, length = inputs["input_ids"].shape
        if task.model == _SENTENCE_ENCODER:
            inputs = {name: array.reshape(-1, length) for name, array in inputs.items()}
        logits = _logits(run("tensors", inputs), problem_type=task.problem_type)
        if task.model == _SENTENCE_ENCODER:
            logits = logits.reshape(*groups, -1)
        for index, row in enumerate(rows):
            outputs[row] = tf.nest.map_structure(lambda array, at=index: array[at], logits)
    return 100 * task.score(examples, task.predictions(examples, encoded, outputs))[task.metric]


def _logits(outputs: Mapping[str, np.ndarray], *, problem_type: str) -> Any:
    """Recovers the model's logits from the outputs of its export, up to an additive constant."""
    if "embedding" in outputs:
        return outputs["embedding"]
    if "start_logits" in outputs:
        return {end: outputs[f"{end}_logits"] for end in ("start", "end")}
    if "score" in outputs:
        return outputs["score"][:, None]
    with np.errstate(divide="ignore"):
        logits = np.log(outputs["probabilities"])
        if problem_type == "multi_label_classification":  # the probabilities are sigmoids
            logits -= np.log1p(-outputs["probabilities"])
        return logits


def measure_seconds(runs: Mapping[str, Run], scored: Scoring) -> dict[str, dict[str, float]]:
    """Returns the median seconds of a request by model and batch size, as "8 x 128 tokens"."""
    task, _, encoded = scored
    times: dict[str, dict[str, float]] = {name: {} for name in runs}
    first = encoded.batch(np.arange(1))[0]
    # As many choices as in the first row.
    groups = () if task.model == _SENTENCE_ENCODER else first["input_ids"].shape[1:-1]
    for num_texts, length in (1, int(np.median(encoded.lengths))), (_NUM_LONG_TEXTS, _LONG_LENGTH):
        length = min(length, task.max_length)
        shape = (num_texts, *groups, length)
        inputs = {name: np.full(shape, name != "segment_ids", np.int32) for name in first}
        rounds: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(1 + _NUM_ROUNDS):
            for name, run in runs.items():  # in turn, as the machine may slow down
                start = time.perf_counter()
                run("tensors", inputs)
                rounds[name].append(time.perf_counter() - start)
        for name, seconds in rounds.items():  # the first round is slow
            times[name][f"{num_texts} x {length} tokens"] = median(seconds[1:])
    return times


def compare_with_float32(
    figures: Mapping[str, dict], *, metric: str, max_score_drop: float
) -> None:
    """Prints the figures of float32 and of a variant; InputError if the variant loses too much."""
    (_, float32), (name, variant) = figures.items()
    for model, each in figures.items():
        times = ", ".join(f"{1000 * t:.1f} ms for {size}" for size, t in each["seconds"].items())
        size = readable_size(each["num_bytes"])
        print(f"{model + ':':9} {size} on disk; {times}; {metric} {each['score'] / 100:.4f}")
    loss = round(float32["score"] - variant["score"], 2)  # as in the message, which recommends it
    if loss > max_score_drop:
        raise InputError(
            f"{name} loses {loss:.2f} points of {metric}, more than {max_score_drop:g} of 100; "
            "choose another variant, or allow it with --max-score-drop (max_score_drop)"
        )
