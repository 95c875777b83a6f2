"""Trains with `model.fit` such that an interrupted run can continue."""

from collections.abc import Callable, Sequence

import keras

from bert_keras.data.batches import Batches
from bert_keras.distribution.strategy import (
    num_devices,
    num_processes,
    own_rows,
    wait_for_workers,
)
from bert_keras.training.callbacks import FitSettings, ProgressBar, TensorBoardLog
from bert_keras.training.evaluations import Evaluations
from bert_keras.training.states import Guard, TrainingCheckpoints


def fit_resumable(
    model: keras.Model,
    make_batches: Callable[[], Batches],
    settings: FitSettings,
    *,
    held_out: Batches | None = None,
    evaluations: Evaluations | None = None,
    board: Sequence[keras.callbacks.Callback] = (),
) -> int:
    """Trains with `model.fit` from the newest saved state, and returns its step.

    Without a saved state the training starts at the step of the optimizer, which is greater than 0
    if the state of another run was loaded into it.

    Args:
        make_batches: Creates the same endless batches on each call.
        held_out: Batches that are scored whenever the state is saved.
        evaluations: Scores the model after every epoch, and may end the training.
        board: Callbacks that add values to the logs of an epoch.
    """
    model.optimizer.build(model.trainable_variables)
    period, keep = settings.epochs_per_checkpoint, settings.keep_checkpoints
    folder = settings.output / "checkpoints"
    checkpoints = TrainingCheckpoints(model, folder, epochs_per_save=period, keep=keep)
    run_start = checkpoints.step
    first_step = checkpoints.restore()
    if evaluations is not None:
        num_epochs = (first_step - run_start) // settings.steps_per_epoch
        evaluations.continue_from(first_step, num_epochs=num_epochs)
    if first_step >= settings.num_steps or (evaluations is not None and evaluations.is_exhausted):
        return first_step
    bar = ProgressBar(settings, first_step, metric=evaluations.metric if evaluations else "")
    monitors: list[keras.callbacks.Callback] = [evaluations] if evaluations else []
    monitors += [*board, TensorBoardLog(settings), bar]
    if settings.max_skipped is not None:
        monitors.append(Guard(checkpoints, max_skipped=settings.max_skipped))
    stop = StopAfter(settings.num_steps - first_step)
    num_epochs = -(-(settings.num_steps - run_start) // settings.steps_per_epoch)
    epoch, steps_done = divmod(first_step - run_start, settings.steps_per_epoch)
    sizes = {"batch_size": settings.batch_size, "num_parts": model.gradient_accumulation_steps}
    model.stop_training = False  # an earlier call may have set it to True
    with bar.bar, checkpoints.saving_on_sigterm():  # an error is printed below the bar
        while epoch < num_epochs and stop.steps_left and not model.stop_training:
            # A separate call of `fit` completes an interrupted epoch, so that the epochs have the
            # same boundaries as in an uninterrupted run.
            last_epoch = epoch + 1 if steps_done else num_epochs
            model.fit(
                for_devices(make_batches().skip(checkpoints.step - run_start), **sizes),
                initial_epoch=epoch,
                epochs=last_epoch,
                steps_per_epoch=settings.steps_per_epoch - steps_done,
                shuffle=False,
                validation_data=None if held_out is None else for_devices(held_out),
                validation_freq=[*range(period, num_epochs, period), num_epochs],
                verbose=0,
                callbacks=[stop, *monitors, checkpoints],
            )
            epoch, steps_done = last_epoch, 0
    if num_epochs % period:
        checkpoints.save()
    wait_for_workers()  # now all can read the files of the first one
    return first_step


def for_devices(batches: Batches, *, batch_size: int = 1, num_parts: int = 1):
    """Returns batches as `fit` and `evaluate` read them with the current strategy.

    Each of several workers reads all data and takes its rows of every batch, so that a batch is the
    same as on a single device. JAX gets smaller batches filled up to `batch_size` rows and to equal
    parts of the devices by copied rows, which do not count.
    """
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        options, policies = tf.data.Options(), tf.data.experimental.AutoShardPolicy
        options.experimental_distribute.auto_shard_policy = policies.DATA
        return batches.for_fit().with_options(options)
    filled = batches.fill(batch_size, multiple=num_devices() * num_parts)
    if num_processes() == 1:
        return filled.for_fit()

    def own_batches(first: int):
        for batch in filled.skip(first):
            own = own_rows(len(keras.tree.flatten(batch)[0]))
            yield keras.tree.map_structure(lambda array, own=own: array[own], batch)

    return Batches(own_batches, spec=None, num_batches=batches.num_batches).for_fit()


class StopAfter(keras.callbacks.Callback):
    """Ends `fit` after `num_steps` steps, also within an epoch."""

    def __init__(self, num_steps: int):
        super().__init__()
        self.steps_left = num_steps

    def on_train_batch_end(self, batch: int, logs: dict | None = None):
        self.steps_left -= 1
        if not self.steps_left:
            self.model.stop_training = True
