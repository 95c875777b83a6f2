"""`model.fit` of a run that can be interrupted and continued, with its curves and its states."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import keras
import tensorflow as tf

from bert_keras.distribution.replicas import number
from bert_keras.distribution.strategy import is_chief
from bert_keras.training.callbacks import ProgressBar, TensorBoardLog
from bert_keras.training.checkpoints import SaveOnTermination, TrainingCheckpoints
from bert_keras.training.evaluations import Evaluations
from bert_keras.training.guard import Guard


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """How long `fit_resumable` trains, what it saves and what it writes."""

    stage: str  # name of the run on its progress bar
    output: Path  # gets checkpoints/, logs/ and, from a Guard, faults/
    num_steps: int  # the optimizer's step at which the run ends
    steps_per_epoch: int  # of an epoch of Keras; the last one may be shorter
    epochs_per_checkpoint: int  # the state is saved and held-out data are scored this often
    keep_checkpoints: int  # how many of the newest states are kept
    batch_size: int  # rows of the global batch
    tokens_per_example: float  # mean count of tokens that are not padding, for the curve of speed
    examples_per_epoch: int | None = None  # on the progress bar; None counts whole batches
    points_per_epoch: int = 1  # points that TensorBoard's curves get in an epoch
    max_skipped: int | None = None  # of a Guard (see there); None trains without a Guard


def fit_resumable(
    model: keras.Model,
    dataset: tf.data.Dataset,
    settings: FitSettings,
    *,
    held_out: tf.data.Dataset | None = None,
    evaluations: Evaluations | None = None,
    board: Sequence[keras.callbacks.Callback] = (),
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> int:
    """Trains with `model.fit`, from the newest saved state or else from the optimizer's own step,
    which is above 0 where another run's state was loaded into it.

    Args:
        model: Compiled, with an optimizer of `bert_keras.training.optimizer`.
        dataset: Endless, and the same from run to run: what an interrupted run has read is skipped.
        settings: See FitSettings.
        held_out: Data that are scored whenever the state is saved; their number of batches must be
            known.
        evaluations: Scores the model after every epoch, and may end the training.
        board: Callbacks that add to the logs of an epoch; what they add is written with its point.
        callbacks: Run after the logs are written and before the state is saved.

    Returns:
        The step from which the run goes on. Where the data end with an error the state is saved
        before it is raised.
    """
    model.optimizer.build(model.trainable_variables)
    run_start = number(model.optimizer.iterations)
    checkpoints = TrainingCheckpoints(
        model,
        settings.output / "checkpoints",
        epochs_per_save=settings.epochs_per_checkpoint,
        keep=settings.keep_checkpoints,
    )
    first_step = checkpoints.restore()
    if evaluations is not None:
        evaluations.go_on_from(first_step)
    if first_step >= settings.num_steps or (evaluations is not None and evaluations.exhausted):
        return first_step
    bar = _progress_bar(settings, first_step, metric=evaluations.metric if evaluations else "")
    watching = [*([evaluations] if evaluations else []), *board, *_log(settings), bar]
    if settings.max_skipped is not None:
        faults = settings.output / "faults"
        watching.append(
            Guard(checkpoints, dataset, run_start, faults, max_skipped=settings.max_skipped)
        )
    termination = SaveOnTermination(checkpoints)
    end = StopAfter(settings.num_steps - first_step)
    broken = checkpoints.saving_where_data_break()
    model.stop_training = False  # as an earlier run of the same model may have left it
    with bar.bar, termination.listening(), broken:  # an error is printed below the bar
        for begin, epochs, steps in _rounds(settings, run_start=run_start, first_step=first_step):
            if not end.steps_left or model.stop_training:
                break
            model.fit(
                spread(dataset.skip(number(model.optimizer.iterations) - run_start)),
                initial_epoch=begin,
                epochs=epochs,
                steps_per_epoch=steps,
                shuffle=False,
                validation_data=None if held_out is None else spread(held_out),
                validation_freq=settings.epochs_per_checkpoint,
                verbose=0,
                callbacks=[*watching, *callbacks, checkpoints, termination, end],
            )
    if _num_epochs(settings, run_start) % settings.epochs_per_checkpoint:
        checkpoints.save()
    return first_step


def _num_epochs(settings: FitSettings, run_start: int) -> int:
    return -(-(settings.num_steps - run_start) // settings.steps_per_epoch)


def _rounds(settings: FitSettings, *, run_start: int, first_step: int):
    """Yields (initial_epoch, epochs, steps_per_epoch) of each call of `model.fit`: an epoch that
    was interrupted is ended first, so that epochs are those of an uninterrupted run."""
    done, cut = divmod(first_step - run_start, settings.steps_per_epoch)
    if cut:
        yield done, done + 1, settings.steps_per_epoch - cut
        done += 1
    if done < _num_epochs(settings, run_start):
        yield done, _num_epochs(settings, run_start), settings.steps_per_epoch


def _log(settings: FitSettings) -> list[keras.callbacks.Callback]:
    """TensorBoard's curves, written by the first of several workers."""
    if not is_chief():
        return []
    return [
        TensorBoardLog(
            settings.output / "logs",
            batch_size=settings.batch_size,
            tokens_per_example=settings.tokens_per_example,
            steps_per_point=-(-settings.steps_per_epoch // settings.points_per_epoch),
        )
    ]


def _progress_bar(settings: FitSettings, first_step: int, *, metric: str) -> ProgressBar:
    return ProgressBar(
        stage=settings.stage,
        batch_size=settings.batch_size,
        steps_per_epoch=settings.steps_per_epoch,
        examples_per_epoch=settings.examples_per_epoch
        or settings.steps_per_epoch * settings.batch_size,
        num_steps=settings.num_steps,
        first_step=first_step,
        metric=metric,
    )


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
