"""A compiled model and its data in, a trained model out: `model.fit`, shown and resumable."""

import os
from pathlib import Path

import keras
import tensorflow as tf

from bert_keras.training.callbacks import ProgressBar, TensorBoardLog
from bert_keras.training.checkpoints import TrainingCheckpoints


def fit_resumable(
    model: keras.Model,
    dataset: tf.data.Dataset,
    *,
    stage: str,
    output: str | os.PathLike,
    num_steps: int,
    steps_per_log: int,
    logs_per_checkpoint: int,
    keep_checkpoints: int,
    batch_size: int,
    tokens_per_example: float,
    held_out: tf.data.Dataset | None = None,
) -> int:
    """Train to `num_steps`, from the newest state in `output`/checkpoints where there is one.

    `dataset` must be endless and the same from run to run: what a former run has seen is skipped.
    Writes `output`/logs for TensorBoard every `steps_per_log` steps (a Keras epoch here is just
    that) and scores `held_out`, which must know its number of batches, whenever the state is saved.
    Returns the step it began at.
    """
    if num_steps % steps_per_log:
        raise AssertionError(f"{num_steps=} is not a multiple of {steps_per_log=}")
    model.optimizer.build(model.trainable_variables)
    checkpoints = TrainingCheckpoints(
        model,
        Path(output) / "checkpoints",
        epochs_per_save=logs_per_checkpoint,
        keep=keep_checkpoints,
    )
    first_step = checkpoints.restore()
    if first_step >= num_steps:
        return first_step
    model.fit(
        dataset.skip(first_step),
        initial_epoch=first_step // steps_per_log,
        epochs=num_steps // steps_per_log,
        steps_per_epoch=steps_per_log,
        shuffle=False,
        validation_data=held_out,
        validation_freq=logs_per_checkpoint,
        verbose=0,
        callbacks=[
            TensorBoardLog(
                Path(output) / "logs",
                batch_size=batch_size,
                tokens_per_example=tokens_per_example,
            ),
            ProgressBar(
                stage=stage, batch_size=batch_size, num_steps=num_steps, first_step=first_step
            ),
            checkpoints,
        ],
    )
    if num_steps % (steps_per_log * logs_per_checkpoint):
        checkpoints.save()
    return first_step
