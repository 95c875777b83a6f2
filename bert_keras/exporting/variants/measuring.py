"""Measures the time and the score of exported models on labelled examples."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import tensorflow as tf

from bert_keras.data.buckets import longest_first_batches
from bert_keras.downstream.task import Encoded, Task
from bert_keras.progress import progress

# A function that runs the signature `tensors` of an exported model: inputs -> outputs, by name.
Run = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]

BATCH_SIZE = 32
NUM_LONG_TEXTS, LONG_LENGTH = 8, 128  # texts and tokens of the larger batch that is timed
# A measurement ends after _MAX_ROUNDS, or after _SECONDS but not before _MIN_ROUNDS.
_MIN_ROUNDS, _MAX_ROUNDS, _SECONDS = 5, 50, 2.0


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The measured size, time and score of an exported model."""

    num_bytes: int  # on disk
    seconds: dict[str, float]  # median time by batch size, such as "8 x 128 pieces"
    score: float  # points, at most 100

    def size_rate(self, other: "Figures") -> float:
        """Returns the size as a fraction of the size of `other`."""
        return self.num_bytes / other.num_bytes

    def time_rates(self, other: "Figures") -> list[float]:
        """Returns the time as a fraction of the time of `other`, for each batch size."""
        return [self.seconds[size] / other.seconds[size] for size in other.seconds]


def score(run: Run, *, task: Task, examples: Sequence, encoded: Encoded, stage: str) -> float:
    """Scores an exported model with the metric of its task.

    Args:
        run: Runs the model.
        task: The task.
        examples: Labelled examples.
        encoded: The encoded rows of these examples.
        stage: The label of the progress bar.

    Returns:
        The score in points, at most 100.
    """
    outputs: list = [None] * len(encoded)
    is_multi_label = task.problem_type == "multi_label_classification"
    with progress(stage=stage, unit="rows", total=len(encoded), leave=False) as bar:
        for rows in longest_first_batches(encoded.lengths, batch_size=BATCH_SIZE):
            logits = _logits(run(encoded.batch(rows)[0]), is_multi_label=is_multi_label)
            for index, row in enumerate(rows):
                outputs[row] = tf.nest.map_structure(lambda array, at=index: array[at], logits)
            bar.update(len(rows))
    value = task.score(examples, task.predictions(examples, encoded, outputs))[task.metric]
    return value if task.is_metric_percentage else 100 * value


def seconds(models: Mapping[str, Run], *, task: Task, encoded: Encoded) -> dict[str, dict]:
    """Measures the time of a request with one text of median length and with eight long texts.

    Each round runs all models in turn, so that a temporary slowdown of the machine affects all of
    them.

    Args:
        models: Functions that run the models, by name.
        task: The task; its `max_length` limits the length of the texts.
        encoded: The encoded rows of the task's examples, which give the median length.

    Returns:
        The median time in seconds by name, then by batch size, such as "8 x 128 pieces".
    """
    medians: dict[str, dict] = {name: {} for name in models}
    for num_texts, length in ((1, int(np.median(encoded.lengths))), (NUM_LONG_TEXTS, LONG_LENGTH)):
        length = min(length, task.max_length)
        inputs = _inputs(encoded, num_texts=num_texts, length=length)
        times: dict[str, list] = {name: [] for name in models}
        for run in models.values():
            run(inputs)
        start = time.perf_counter()
        for num_rounds in range(_MAX_ROUNDS):
            if num_rounds >= _MIN_ROUNDS and time.perf_counter() - start > _SECONDS:
                break
            for name, run in models.items():
                run_start = time.perf_counter()
                run(inputs)
                times[name].append(time.perf_counter() - run_start)
        for name in models:
            medians[name][f"{num_texts} x {length} pieces"] = median(times[name])
    return medians


def _inputs(encoded: Encoded, *, num_texts: int, length: int) -> dict[str, np.ndarray]:
    """Returns inputs without padding, with as many choices or windows as the first row.

    The texts of a sentence encoder are single texts.
    """
    first = encoded.batch(np.arange(1))[0]
    groups = () if encoded.has_fixed_groups else first["input_ids"].shape[1:-1]
    shape = (num_texts, *groups, length)
    return {name: np.full(shape, name != "segment_ids", np.int32) for name in first}


def _logits(outputs: Mapping[str, np.ndarray], *, is_multi_label: bool):
    """Recovers the model's logits, or embeddings, from the outputs of its export.

    From a softmax they are recovered up to an additive constant, which does not change the
    predictions. With `is_multi_label`, the probabilities are sigmoids.
    """
    if "embedding" in outputs:
        return outputs["embedding"]
    if "start_logits" in outputs:
        return {end: outputs[f"{end}_logits"] for end in ("start", "end")}
    if "score" in outputs:
        return outputs["score"][:, None]
    with np.errstate(divide="ignore"):
        logits = np.log(outputs["probabilities"])
        return logits - np.log1p(-outputs["probabilities"]) if is_multi_label else logits
