"""A compiled model and its data in, a trained model out: `model.fit`, shown and resumable."""

import os
from collections.abc import Sequence
from pathlib import Path

import keras
import tensorflow as tf

from bert_keras.distribution.replicas import number
from bert_keras.distribution.strategy import is_chief
from bert_keras.training.callbacks import ProgressBar, TensorBoardLog
from bert_keras.training.checkpoints import SaveOnTermination, TrainingCheckpoints
from bert_keras.training.evaluations import Evaluations
from bert_keras.training.guard import Guard


def fit_resumable(
    model: keras.Model,
    dataset: tf.data.Dataset,
    *,
    stage: str,
    output: str | os.PathLike,
    num_steps: int,
    steps_per_epoch: int,
    epochs_per_checkpoint: int,
    keep_checkpoints: int,
    batch_size: int,
    tokens_per_example: float,
    examples_per_epoch: int | None = None,
    points_per_epoch: int = 1,
    held_out: tf.data.Dataset | None = None,
    evaluations: Evaluations | None = None,
    max_skipped: int | None = None,
    board: Sequence[keras.callbacks.Callback] = (),
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> int:
    """Train to step `num_steps`, from the newest state in `output`/checkpoints where there is one,
    else from the optimizer's own step: above 0 where another run's state was put into it.

    `dataset` must be endless and the same from run to run: what this run has seen when it was cut
    off is skipped. An epoch is what Keras takes for one, the last one may be shorter. Writes
    `output`/logs for TensorBoard, `points_per_epoch` points an epoch. Scores `held_out`, which must
    know its number of batches, whenever the state is saved; `evaluations` score every epoch and may
    end the training. What those of the `board` put into the logs of an epoch is written with its
    point. Where `max_skipped` is given a Guard stops what goes wrong; `callbacks` see what is left
    to save. Where the data end with an error the state is saved before it is raised. The bar counts
    `examples_per_epoch`, by default those of whole batches. Returns the step that it goes on from.
    """
    model.optimizer.build(model.trainable_variables)
    run_start = number(model.optimizer.iterations)
    checkpoints = TrainingCheckpoints(
        model,
        Path(output) / "checkpoints",
        epochs_per_save=epochs_per_checkpoint,
        keep=keep_checkpoints,
    )
    first_step = checkpoints.restore()
    if evaluations is not None:
        evaluations.go_on_from(first_step)
    if first_step >= num_steps or (evaluations is not None and evaluations.exhausted):
        return first_step
    num_epochs = -(-(num_steps - run_start) // steps_per_epoch)
    log = TensorBoardLog(
        Path(output) / "logs",
        batch_size=batch_size,
        tokens_per_example=tokens_per_example,
        steps_per_point=-(-steps_per_epoch // points_per_epoch),
    )
    bar = ProgressBar(
        stage=stage,
        batch_size=batch_size,
        steps_per_epoch=steps_per_epoch,
        examples_per_epoch=examples_per_epoch or steps_per_epoch * batch_size,
        num_steps=num_steps,
        first_step=first_step,
        metric="" if evaluations is None else evaluations.metric,
    )
    termination, end = SaveOnTermination(checkpoints), StopAfter(num_steps - first_step)
    held_out = None if held_out is None else spread(held_out)
    watching = [] if evaluations is None else [evaluations]
    watching += [*board, *([log] if is_chief() else []), bar]
    if max_skipped is not None:
        faults = Path(output) / "faults"
        watching.append(Guard(checkpoints, dataset, run_start, faults, max_skipped=max_skipped))
    watching += [*callbacks, checkpoints, termination, end]
    done, cut = divmod(first_step - run_start, steps_per_epoch)
    # An epoch that was cut short is ended first, so that epochs are those of an unbroken run.
    pieces = [(done, done + 1, steps_per_epoch - cut)] if cut else []
    pieces.append((done + bool(cut), num_epochs, steps_per_epoch))
    broken = checkpoints.saving_where_data_break()
    model.stop_training = False  # as an earlier run of the same model may have left it
    with bar.bar, termination.listening(), broken:  # an error is told below the bar
        for begin, epochs, steps in pieces:
            if begin == epochs or not end.steps_left or model.stop_training:
                break
            model.fit(
                spread(dataset.skip(number(model.optimizer.iterations) - run_start)),
                initial_epoch=begin,
                epochs=epochs,
                steps_per_epoch=steps,
                shuffle=False,
                validation_data=held_out,
                validation_freq=epochs_per_checkpoint,
                verbose=0,
                callbacks=watching,
            )
    if num_epochs % epochs_per_checkpoint:
        checkpoints.save()
    return first_step


def spread(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Under a strategy of several workers each takes its rows of every batch: all read all data, so
    that a batch is the one that a single device would see."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return dataset.with_options(options)


class StopAfter(keras.callbacks.Callback):
    """Ends `fit` after so many steps, in the midst of an epoch too."""

    def __init__(self, num_steps: int):
        super().__init__()
        self.steps_left = num_steps

    def on_train_batch_end(self, batch, logs=None):
        self.steps_left -= 1
        if not self.steps_left:
            self.model.stop_training = True
