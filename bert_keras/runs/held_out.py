"""Scores a pretrained model on held-out records."""

import numpy as np
import tensorflow as tf

from bert_keras.distribution.reduction import summed
from bert_keras.models.task_models import TaskModel
from bert_keras.progress import progress
from bert_keras.runs.objectives import Objective


def evaluate_pretrainer(
    model: TaskModel, held_out: tf.data.Dataset, *, objective: Objective
) -> dict[str, float]:
    """Returns losses in nats and accuracies over a whole data set, with the losses and metrics of
    training: each prediction counts alike, where `model.evaluate` averages over batches."""
    losses = {name: summed(loss) for name, loss in objective.losses().items()}
    metrics = objective.metrics()

    @tf.function(reduce_retracing=True, autograph=False)
    def step(inputs, targets, weights):
        outputs = model(inputs, training=False)
        for name in metrics:
            for metric in metrics[name]:
                metric.update_state(targets[name], outputs[name], weights[name])
        return {
            name: tf.stack(
                [
                    loss.sum(targets[name], outputs[name], weights[name]),
                    loss.weight(targets[name], weights[name]),
                ]
            )
            for name, loss in losses.items()
        }

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
    return scores | {
        "held_out_predictions": round(num_predictions),
        "held_out_examples": examples,
    }
