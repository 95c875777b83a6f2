"""Trains with `model.fit` such that an interrupted run can continue, with its logs and states."""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from bert_keras.data.batches import Batches
from bert_keras.distribution.strategy import is_chief
from bert_keras.training.callbacks import FitSettings, ProgressBar, TensorBoardLog
from bert_keras.training.evaluations import Evaluations
from bert_keras.training.states import Guard, TrainingCheckpoints


def fit_resumable(
    model: keras.Model,
    make_batches: Callable[[], tf.data.Dataset],
    settings: FitSettings,
    *,
    held_out: tf.data.Dataset | None = None,
    evaluations: Evaluations | None = None,
    board: Sequence[keras.callbacks.Callback] = (),
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> int:
    """Trains with `model.fit` from the newest saved state.

    Without a saved state the training starts at the step of the optimizer, which is greater than 0
    if the state of another run was loaded into it.

    Args:
        model: A compiled model with an optimizer of `bert_keras.training.optimizer`.
        make_batches: Creates an endless data set of batches, the same ones on each call. It is
            called again to complete an interrupted epoch, because a second iterator of a shuffled
            data set would continue its random numbers. A resumed run skips the batches that it has
            read.
        settings: The length of the training, the saved states and the logs.
        held_out: Data that are scored whenever the state is saved, and at the end. Their number of
            batches must be known.
        evaluations: Scores the model after every epoch, and may end the training.
        board: Callbacks that add values to the logs of an epoch, which are written to TensorBoard.
            Only the first worker runs them.
        callbacks: Callbacks that run after the logs are written and before the state is saved.

    Returns:
        The step from which the training started or continued.

    Raises:
        InputError: The saved state does not belong to this run, or the training diverges.
    """
    model.optimizer.build(model.trainable_variables)
    checkpoints = TrainingCheckpoints(
        model,
        settings.output / "checkpoints",
        epochs_per_save=settings.epochs_per_checkpoint,
        keep=settings.keep_checkpoints,
    )
    run_start = checkpoints.step
    first_step = checkpoints.restore()
    if evaluations is not None:
        num_epochs = (first_step - run_start) // settings.steps_per_epoch
        evaluations.continue_from(first_step, num_epochs=num_epochs)
    if first_step >= settings.num_steps or (evaluations is not None and evaluations.is_exhausted):
        return first_step
    bar = ProgressBar(settings, first_step, metric=evaluations.metric if evaluations else "")
    monitors: list[keras.callbacks.Callback] = [evaluations] if evaluations else []
    monitors += [*board, TensorBoardLog(settings), bar] if is_chief() else [bar]
    if settings.max_skipped is not None:
        monitors.append(Guard(checkpoints, max_skipped=settings.max_skipped))
    stop = StopAfter(settings.num_steps - first_step)
    num_epochs = -(-(settings.num_steps - run_start) // settings.steps_per_epoch)
    period = settings.epochs_per_checkpoint
    epoch, steps_done = divmod(first_step - run_start, settings.steps_per_epoch)
    model.stop_training = False  # an earlier call may have set it to True
    with bar.bar, checkpoints.saving_on_sigterm():  # an error is printed below the bar
        while epoch < num_epochs and stop.steps_left and not model.stop_training:
            # A separate call of `fit` completes an interrupted epoch, so that the epochs have the
            # same boundaries as in an uninterrupted run.
            last_epoch = epoch + 1 if steps_done else num_epochs
            model.fit(
                shard_rows(make_batches().skip(checkpoints.step - run_start)),
                initial_epoch=epoch,
                epochs=last_epoch,
                steps_per_epoch=settings.steps_per_epoch - steps_done,
                shuffle=False,
                validation_data=None if held_out is None else shard_rows(held_out),
                validation_freq=[*range(period, num_epochs, period), num_epochs],
                verbose=0,
                callbacks=[*monitors, *callbacks, stop, checkpoints],
            )
            epoch, steps_done = last_epoch, 0
    if num_epochs % period:
        checkpoints.save()
    return first_step


def shard_rows(dataset: Batches | tf.data.Dataset) -> tf.data.Dataset:
    """Returns a data set of which each worker takes its rows of every batch.

    All workers read all data, so that a batch is the same as on a single device.
    """
    if isinstance(dataset, Batches):
        dataset = dataset.for_fit()
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return dataset.with_options(options)


class StopAfter(keras.callbacks.Callback):
    """Ends `fit` after `num_steps` steps, also within an epoch."""

    def __init__(self, num_steps: int):
        super().__init__()
        self.steps_left = num_steps

    def on_train_batch_end(self, batch, logs=None):
        self.steps_left -= 1
        if not self.steps_left:
            self.model.stop_training = True
