"""Measures the time and the score of exported models on labelled examples."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import tensorflow as tf

from bert_keras.data.buckets import longest_first_batches
from bert_keras.progress import progress
from bert_keras.tasks.task import Encoded, Task

# A function that runs the signature `tensors` of an exported model: inputs -> outputs, by name.
Ask = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]

BATCH_SIZE = 32
MANY_TEXTS, MANY_PIECES = 8, 128  # texts and tokens of the larger batch that is timed
# A measurement ends after _MOST_ROUNDS, or after _SECONDS but not before _LEAST_ROUNDS.
_LEAST_ROUNDS, _MOST_ROUNDS, _SECONDS = 5, 50, 2.0


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The measured size, time and score of an exported model."""

    num_bytes: int  # on disk
    seconds: dict[str, float]  # median time by batch size, such as "8 x 128 pieces"
    score: float  # points, at most 100


def score(ask: Ask, *, task: Task, examples: Sequence, encoded: Encoded, stage: str) -> float:
    """Scores an exported model with the metric of its task.

    Args:
        ask: Runs the model.
        task: The task.
        examples: Labelled examples.
        encoded: The encoded rows of these examples.
        stage: The label of the progress bar.

    Returns:
        The score in points, at most 100.
    """
    outputs: list = [None] * len(encoded)
    each_alone = task.problem_type == "multi_label_classification"
    with progress(stage=stage, unit="rows", total=len(encoded), leave=False) as bar:
        for rows in longest_first_batches(encoded.lengths, batch_size=BATCH_SIZE):
            logits = _logits(ask(encoded.batch(rows)[0]), each_alone=each_alone)
            for index, row in enumerate(rows):
                outputs[row] = tf.nest.map_structure(lambda array, at=index: array[at], logits)
            bar.update(len(rows))
    found = task.score(examples, task.predictions(examples, encoded, outputs))[task.metric]
    return found if task.is_metric_percentage else 100 * found


def seconds(asks: Mapping[str, Ask], *, task: Task, encoded: Encoded) -> dict[str, dict]:
    """Measures the time of a request with one text of median length and with eight long texts.

    Each round runs all models in turn, so that a temporary slowdown of the machine affects all of
    them.

    Args:
        asks: Functions that run the models, by name.
        task: The task; its `max_length` limits the length of the texts.
        encoded: The encoded rows of the task's examples, which give the median length.

    Returns:
        The median time in seconds by name, then by batch size, such as "8 x 128 pieces".
    """
    middling = int(np.median(encoded.lengths))
    sizes = [(1, min(middling, task.max_length)), (MANY_TEXTS, min(MANY_PIECES, task.max_length))]
    found: dict[str, dict] = {name: {} for name in asks}
    for number, length in sizes:
        inputs = _filled(encoded, number=number, length=length)
        taken: dict[str, list] = {name: [] for name in asks}
        for ask in asks.values():
            ask(inputs)
        start = time.perf_counter()
        for rounds in range(_MOST_ROUNDS):
            if rounds >= _LEAST_ROUNDS and time.perf_counter() - start > _SECONDS:
                break
            for name, ask in asks.items():
                began = time.perf_counter()
                ask(inputs)
                taken[name].append(time.perf_counter() - began)
        for name, times in taken.items():
            found[name][f"{number} x {length} pieces"] = median(times)
    return found


def _filled(encoded: Encoded, *, number: int, length: int) -> dict[str, np.ndarray]:
    """Returns inputs without padding, with as many choices or windows as the first row."""
    first = encoded.batch(np.arange(1))[0]
    shape = (number, *first["input_ids"].shape[1:-1], length)
    return {name: np.full(shape, name != "segment_ids", np.int32) for name in first}


def _logits(outputs: Mapping[str, np.ndarray], *, each_alone: bool):
    """Recovers the model's logits from the outputs of its export.

    From a softmax they are recovered up to an additive constant, which does not change the
    predictions. With `each_alone`, the probabilities are sigmoids.
    """
    if "start_logits" in outputs:
        return {end: outputs[f"{end}_logits"] for end in ("start", "end")}
    if "score" in outputs:
        return outputs["score"][:, None]
    with np.errstate(divide="ignore"):
        logits = np.log(outputs["probabilities"])
        return logits - np.log1p(-outputs["probabilities"]) if each_alone else logits
