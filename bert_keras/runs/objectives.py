"""Lists the pretraining objectives, and scores models on held-out records."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module

import keras
import numpy as np
import tensorflow as tf

from bert_keras.data.objectives import MASKED, MASKED_AND_LABELLED, NEXT_TOKENS, Examples
from bert_keras.distribution.reduction import summed
from bert_keras.models.pretrainer import BertMaskedLM, BertPretrainer
from bert_keras.models.task_models import TaskModel
from bert_keras.progress import progress
from bert_keras.training.losses import pretraining_losses, pretraining_metrics


def baselines(training, held_out, *, vocab_size: int) -> dict[str, float]:
    """Scores models that read no context on the masked tokens of held-out batches.

    The unigram model predicts the frequencies (plus one) of the masked tokens of `training`, or
    the most frequent one. The copying model also has access to the token at the position itself: it
    predicts that token as often as it is right in `training`, and else as the unigram model does.
    Both data sets must end.
    """
    answers, shown, same = _counts(training, vocab_size, stage="count training answers")
    share = (answers + 1) / (answers + 1).sum()
    is_same = (same + share) / (shown + 1)
    answers_there, shown_there, same_there = _counts(
        held_out, vocab_size, stage="count held-out answers"
    )
    total = answers_there.sum()
    copying = same_there * np.log(is_same)
    copying += (shown_there - same_there) * np.log((1 - is_same) / (1 - share))
    copying += (answers_there - same_there) * np.log(share)
    return {
        "unigram_masked_lm_loss": float(-(answers_there * np.log(share)).sum() / total),
        "unigram_masked_lm_accuracy": float(answers_there[answers.argmax()] / total),
        "copying_masked_lm_loss": float(-copying.sum() / total),
    }


def _counts(batches, vocab_size: int, *, stage: str) -> np.ndarray:
    """[3, V]: masked tokens, tokens at their positions, and those that are both."""
    counts = np.zeros((3, vocab_size))
    for inputs, targets, weights in progress(batches, stage=stage, unit="batch"):
        real = weights["masked_lm"].numpy() > 0
        positions = inputs["masked_lm_positions"]
        shown = tf.gather(inputs["input_ids"], positions, batch_dims=1).numpy()[real]
        answers = targets["masked_lm"].numpy()[real]
        for row, ids in zip(counts, (answers, shown, shown[shown == answers]), strict=True):
            row += np.bincount(ids, minlength=vocab_size)
    return counts


@dataclass(frozen=True, kw_only=True)
class Objective:
    """What a pretraining learns, from which records, and how it is scored."""

    examples: Examples  # how records become inputs, targets and weights
    model: type[TaskModel]  # made of a BertConfig; returns a dict of outputs
    losses: Callable[[], dict[str, keras.losses.Loss]]  # of `compile`, by output
    metrics: Callable[[], dict[str, list[keras.metrics.Metric]]]  # of `compile`, by output
    # Scores of models without context: of the data set of training, that of evaluation and
    # `vocab_size`. None where nothing is comparable.
    baselines: Callable[..., dict[str, float]] | None = None
    is_causal: bool = False  # whether each token attends to earlier tokens only
    without_labels: str = ""  # the objective of records without labels, if this one needs labels


_MASKED_LM = Objective(
    examples=MASKED,
    model=BertMaskedLM,
    losses=partial(pretraining_losses, ["masked_lm"]),
    metrics=partial(pretraining_metrics, ["masked_lm"]),
    baselines=baselines,
)
# Name in recipes -> its row, or "module:row", which is imported when it is used.
OBJECTIVES: dict[str, str | Objective] = {
    "bert": Objective(
        examples=MASKED_AND_LABELLED,
        model=BertPretrainer,
        losses=pretraining_losses,
        metrics=pretraining_metrics,
        baselines=baselines,
        without_labels="masked-lm",
    ),
    "masked-lm": _MASKED_LM,
    "left-to-right": dataclasses.replace(_MASKED_LM, examples=NEXT_TOKENS, is_causal=True),
}


def named_objective(name: str, *, has_labels: bool = True) -> Objective:
    """Returns the objective of a recipe for records that have labels or not."""
    row = OBJECTIVES[name]
    if isinstance(row, str):
        module, _, attribute = row.partition(":")
        row = getattr(import_module(module), attribute)
    if row.without_labels and not has_labels:
        return named_objective(row.without_labels)
    return row


def evaluate_pretrainer(
    model: TaskModel, held_out: tf.data.Dataset, *, objective: Objective
) -> dict[str, float]:
    """Returns losses in nats and accuracies over a whole data set, with the losses and metrics of
    training: each prediction counts alike, where `model.evaluate` averages over batches."""
    losses = {name: summed(loss) for name, loss in objective.losses().items()}
    metrics = objective.metrics()

    @tf.function(reduce_retracing=True, autograph=False)
    def step(inputs, targets, weights):
        outputs, sums = model(inputs, training=False), {}
        for name, loss in losses.items():
            batch = targets[name], outputs[name]
            for metric in metrics[name]:
                metric.update_state(*batch, weights[name])
            total = loss.sum(*batch, weights[name])
            sums[name] = tf.stack([total, loss.weight(targets[name], weights[name])])
        return sums

    sums = {name: np.zeros(2) for name in losses}  # of losses, of weights
    examples = 0
    for batch in progress(held_out, stage="score held-out", unit="batch"):
        for name, values in step(*batch).items():
            sums[name] += values.numpy()
        examples += len(batch[0]["input_ids"])
    scores: dict[str, float] = {}
    for name, (total, weight) in sums.items():
        scores[f"held_out_{name}_loss"] = float(total / weight)
        for metric in metrics[name]:
            kind = metric.name.removeprefix(f"{name}_")
            scores[f"held_out_{name}_{kind}"] = float(metric.result())
    _, num_predictions = next(iter(sums.values()))
    scores["held_out_predictions"] = round(num_predictions)
    return scores | {"held_out_examples": examples}
