"""Exports a smaller or faster variant of a fine-tuned model and compares it with float32."""

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from bert_keras.data.buckets import longest_first_batches
from bert_keras.data.encoded import Encoded
from bert_keras.downstream.sentences.pairs import SENTENCE_PAIRS_TASK
from bert_keras.downstream.task import Task
from bert_keras.errors import check
from bert_keras.exporting.variants.variant import Bfloat16, Float16, Int8, Variant
from bert_keras.exporting.verify import loaded
from bert_keras.exporting.version_folder import METADATA
from bert_keras.files import StrPath, atomic_folder, json_object, readable_size, write_json

FLOAT32 = "float32"
SAVED_MODELS: dict[str, type[Variant]] = {"float16": Float16, "bfloat16": Bfloat16, "int8": Int8}
MAX_SCORE_DROP = 0.5  # points, of 100, by which the score may drop by default

_BATCH_SIZE = 32
_NUM_LONG_TEXTS, _LONG_LENGTH = 8, 128  # texts and tokens of the larger batch that is timed
_NUM_ROUNDS = 20  # in each of which every model is timed once

# A function that runs the signature `tensors` of an exported model: inputs -> outputs, by name.
Run = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]


class Scoring(NamedTuple):
    """The task and the labelled examples that score a model."""

    task: Task
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
    """Exports a variant and prints its size, time and score next to those of float32.

    Both models are exported, loaded as TF Serving does, and get the same requests at their
    signature `tensors`. The metadata of the variant stores the measurements. `write` takes a
    version folder, and the class of a variant as `variant=`. Raises InputError if the variant loses
    more than `max_score_drop` points, of 100.
    """
    folder, task = Path(folder), scored.task
    with (
        atomic_folder(folder) as new_folder,
        tempfile.TemporaryDirectory(dir=new_folder) as scratch,
        contextlib.ExitStack() as open_models,
    ):
        # Warm-up requests contain the name of the model, which is that of the parent folder.
        named = Path(folder.resolve().parent.name, folder.name)
        folders = {name: Path(scratch, name, named) for name in (FLOAT32, variant)}
        write(folders[FLOAT32])
        write(folders[variant], variant=SAVED_MODELS[variant])
        models = {n: open_models.enter_context(opened(path)) for n, path in folders.items()}
        times = seconds(models, task=task, encoded=scored.encoded)
        figures = {
            name: {"num_bytes": _num_bytes(path), "seconds": times[name]}
            for name, path in folders.items()
        }
        for name, run in models.items():
            figures[name]["score"] = score(run, scored)
        _compare(figures, metric=task.metric, max_score_drop=max_score_drop)
        num_examples = len(scored.examples)
        measurements = {
            "name": variant,
            "figures": figures,
            "scored_on": {"task": task.name, "metric": task.metric, "examples": num_examples},
        }
        metadata = json_object(folders[variant] / METADATA)
        write_json(folders[variant] / METADATA, {**metadata, "variant": measurements})
        for each in folders[variant].iterdir():
            shutil.move(each, new_folder)
    return folder


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Run]:
    """Loads an exported model and yields a function that runs its signature `tensors`."""
    with loaded(folder) as run:
        yield lambda inputs: run({"signature": "tensors", "inputs": inputs})


def score(run: Run, scored: Scoring) -> float:
    """Returns the score of an exported model by the metric of the task, in points up to 100."""
    task, examples, encoded = scored
    outputs: list = [None] * len(encoded)
    batches = [*longest_first_batches(encoded.lengths, batch_size=_BATCH_SIZE)]
    for rows in tqdm(batches, desc="score", unit=" batches", leave=False, disable=None):
        inputs = encoded.batch(rows)[0]
        *groups, length = inputs["input_ids"].shape
        if task.model == SENTENCE_PAIRS_TASK.model:  # its signature takes single texts
            inputs = {name: array.reshape(-1, length) for name, array in inputs.items()}
            logits: Any = run(inputs)["embedding"].reshape(*groups, -1)
        else:
            logits = _logits(run(inputs), problem_type=task.problem_type)
        for index, row in enumerate(rows):
            outputs[row] = tf.nest.map_structure(lambda array, at=index: array[at], logits)
    return 100 * task.score(examples, task.predictions(examples, encoded, outputs))[task.metric]


def _logits(outputs: Mapping[str, np.ndarray], *, problem_type: str):
    """Recovers the model's logits from the outputs of its export, up to an additive constant."""
    if "start_logits" in outputs:
        return {end: outputs[f"{end}_logits"] for end in ("start", "end")}
    if "score" in outputs:
        return outputs["score"][:, None]
    with np.errstate(divide="ignore"):
        logits = np.log(outputs["probabilities"])
        if problem_type == "multi_label_classification":  # the probabilities are sigmoids
            logits -= np.log1p(-outputs["probabilities"])
        return logits


def seconds(models: Mapping[str, Run], *, task: Task, encoded: Encoded) -> dict[str, dict]:
    """Returns the median time of a request by model, then by batch size, as "8 x 128 tokens".

    Each round runs all models in turn, so that a slowdown of the machine affects all of them.
    """
    times: dict[str, dict] = {name: {} for name in models}
    for num_texts, length in (1, int(np.median(encoded.lengths))), (_NUM_LONG_TEXTS, _LONG_LENGTH):
        length = min(length, task.max_length)
        first = encoded.batch(np.arange(1))[0]
        # As many choices as the first row; the texts of a sentence encoder are single.
        is_single = task.model == SENTENCE_PAIRS_TASK.model
        groups = () if is_single else first["input_ids"].shape[1:-1]
        shape = (num_texts, *groups, length)
        inputs = {name: np.full(shape, name != "segment_ids", np.int32) for name in first}
        of_size: dict[str, list] = {name: [] for name in models}
        for _ in range(1 + _NUM_ROUNDS):
            for name, run in models.items():
                start = time.perf_counter()
                run(inputs)
                of_size[name].append(time.perf_counter() - start)
        for name, rounds in of_size.items():  # the first round is slow
            times[name][f"{num_texts} x {length} tokens"] = median(rounds[1:])
    return times


def _compare(figures: Mapping[str, dict], *, metric: str, max_score_drop: float) -> None:
    """Prints the figures of float32 and of a variant, and refuses one that loses too much."""
    (_, float32), (name, variant) = figures.items()
    for model, each in figures.items():
        times = ", ".join(f"{1000 * t:.1f} ms for {size}" for size, t in each["seconds"].items())
        size = readable_size(each["num_bytes"])
        print(f"{model + ':':9} {size} on disk; {times}; {metric} {each['score'] / 100:.4f}")
    loss = round(float32["score"] - variant["score"], 2)  # as in the message, which recommends it
    check(
        loss <= max_score_drop,
        f"{name} loses {loss:.2f} points of {metric}, more than {max_score_drop:g} of 100, and is "
        "not written; choose another variant, or set --max-score-drop (max_score_drop) to the "
        "points that it may lose",
    )


def _num_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
