"""Defines the pretraining tasks and scores models on held-out records."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module

import keras
import numpy as np
from tqdm import tqdm

from bert_keras.data import objectives
from bert_keras.data.batches import Batches
from bert_keras.distribution.loss import global_loss
from bert_keras.distribution.model import GlobalBatchModel
from bert_keras.models.pretrainer import BertMaskedLM, BertPretrainer
from bert_keras.models.replaced_tokens import BertReplacedTokenPretrainer
from bert_keras.models.task_models import TaskModel
from bert_keras.runs.recipes import PRETRAINING_TASKS
from bert_keras.training.loop import for_devices
from bert_keras.training.losses import pretraining_losses, pretraining_metrics


def score_baselines(
    training: Iterable[tuple], held_out: Iterable[tuple], *, vocab_size: int
) -> dict[str, float]:
    """Scores two models that use no context on the masked tokens of held-out batches.

    The unigram model predicts the frequencies (plus one) of the masked tokens of `training`. The
    copying model predicts the input token at the masked position with the probability that it was
    correct in `training`, and otherwise the unigram distribution. The losses are in nats.
    """
    # The arrays have one value for each token of the vocabulary, [V].
    targets, inputs, equal = _count_tokens(training, vocab_size, stage="count training tokens")
    unigram = (targets + 1) / (targets + 1).sum()
    copied = (equal + unigram) / (inputs + 1)  # probability that an input token is the target
    most_frequent = targets.argmax()
    targets, inputs, equal = _count_tokens(held_out, vocab_size, stage="count held-out tokens")
    total = targets.sum()
    copying = equal * np.log(copied)  # log-likelihood, by input token and then by target
    copying += (inputs - equal) * np.log((1 - copied) / (1 - unigram))
    copying += (targets - equal) * np.log(unigram)
    return {
        "unigram_masked_lm_loss": float(-(targets * np.log(unigram)).sum() / total),
        "unigram_masked_lm_accuracy": float(targets[most_frequent] / total),
        "copying_masked_lm_loss": float(-copying.sum() / total),
    }


def _count_tokens(batches: Iterable[tuple], vocab_size: int, *, stage: str) -> np.ndarray:
    """Counts the masked tokens, the input tokens at their positions, and the equal ones [3, V]."""
    counts, bar = np.zeros((3, vocab_size)), {"unit": " batches", "leave": False, "disable": None}
    for inputs, targets, weights in tqdm(batches, desc=stage, **bar):
        is_used, positions = weights["masked_lm"] > 0, inputs["masked_lm_positions"]
        input_ids = np.take_along_axis(inputs["input_ids"], positions, axis=1)[is_used]
        target_ids = targets["masked_lm"][is_used]
        equal_ids = input_ids[input_ids == target_ids]
        for row, ids in zip(counts, (target_ids, input_ids, equal_ids), strict=True):
            row += np.bincount(ids, minlength=vocab_size)
    return counts


@dataclass(frozen=True, kw_only=True)
class PretrainingTask:
    """The task of a pretraining run: its training examples, model, losses and scores."""

    examples: objectives.PretrainingExamples  # converts records to inputs, targets and weights
    model: type[TaskModel]  # takes a BertConfig; its call returns a dict of outputs
    losses: Callable[[], dict[str, keras.losses.Loss]]  # argument of `compile`, by output
    metrics: Callable[[], dict[str, list[keras.metrics.Metric]]]  # `weighted_metrics` of `compile`
    loss_weights: Mapping[str, float] | None = None  # argument of `compile`; None weights all 1
    baselines: Callable[..., dict[str, float]] | None = None  # or None; see `score_baselines`
    is_causal: bool = False  # whether each token attends to earlier tokens only
    without_labels: str = ""  # name of the task that replaces this one for records without labels


MASKED_LM = PretrainingTask(
    examples=objectives.MASKED,
    model=BertMaskedLM,
    losses=partial(pretraining_losses, ["masked_lm"]),
    metrics=partial(pretraining_metrics, ["masked_lm"]),
    baselines=score_baselines,
)
BERT = PretrainingTask(
    examples=objectives.MASKED_AND_LABELLED,
    model=BertPretrainer,
    losses=pretraining_losses,
    metrics=pretraining_metrics,
    baselines=score_baselines,
    without_labels="masked-lm",
)
LEFT_TO_RIGHT = dataclasses.replace(MASKED_LM, examples=objectives.NEXT_TOKENS, is_causal=True)
REPLACED_TOKEN = PretrainingTask(
    examples=objectives.REPLACED_TOKENS,
    model=BertReplacedTokenPretrainer,
    losses=partial(pretraining_losses, ["masked_lm", "replaced_token"]),
    metrics=partial(pretraining_metrics, ["masked_lm", "replaced_token"]),
    loss_weights={"masked_lm": 1.0, "replaced_token": 50.0},  # Clark et al. 2020, section 2
    baselines=score_baselines,
)


def pretraining_task(objective: str, *, has_labels: bool = True) -> PretrainingTask:
    """Returns the task of a recipe's objective, or its replacement for records without labels."""
    task = PRETRAINING_TASKS[objective]
    if isinstance(task, str):
        module, _, attribute = task.partition(":")
        task = getattr(import_module(module), attribute)
    if task.without_labels and not has_labels:
        return pretraining_task(task.without_labels)
    return task


def evaluate_pretrainer(
    model: TaskModel, held_out: Batches, *, task: PretrainingTask
) -> dict[str, float]:
    """Scores a pretrained model on finite batches; returns losses in nats, accuracies and counts.

    All predictions have equal weight, whereas the losses of `model.evaluate` are means of the means
    of batches. All workers must call this function.
    """
    losses, metrics = task.losses(), task.metrics()
    functions = {name: global_loss(loss).call for name, loss in losses.items()}
    means = {n: keras.metrics.MeanMetricWrapper(f, name="mean") for n, f in functions.items()}
    scored = _Scored(model)
    scored.compile(
        loss=losses, weighted_metrics={name: [means[name], *metrics[name]] for name in losses}
    )
    with tqdm(desc="score held-out", unit=" batches", total=held_out.num_batches) as bar:
        progress = keras.callbacks.LambdaCallback(on_test_batch_end=lambda *_, **__: bar.update())
        scored.evaluate(for_devices(held_out), verbose=0, callbacks=[progress])
    scores: dict[str, float] = {}
    for name, mean in means.items():
        scores[f"held_out_{name}_loss"] = float(mean.result())
        for metric in metrics[name]:
            short_name = metric.name.removeprefix(f"{name}_")
            scores[f"held_out_{name}_{short_name}"] = float(metric.result())
    weights = [weights[next(iter(losses))] for *_, weights in held_out]
    scores["held_out_predictions"] = round(sum(float(each.sum()) for each in weights))
    return scores | {"held_out_examples": sum(map(len, weights))}


class _Scored(GlobalBatchModel):
    """Calls a model without dropout, and leaves it compiled as it is."""

    def __init__(self, model: TaskModel):
        super().__init__(name=model.name)
        self.model = model

    def call(self, inputs):
        return self.model(inputs, training=False)
