"""The settings of a run and its scores in, a row of TensorBoard's table of runs out."""

import os
from collections.abc import Mapping
from numbers import Real

import tensorflow as tf


def write_hyperparameters(
    folder: str | os.PathLike,
    hyperparameters: Mapping[str, object],
    *,
    scores: Mapping[str, float],
    step: int,
) -> None:
    """Into a `folder` of its own: TensorBoard takes the scalars there, final/SCORE, for the metrics
    of the run. What is neither a number nor a text is written as Python shows it."""
    from tensorboard.plugins.hparams import api

    writer = tf.summary.create_file_writer(os.fspath(folder))
    with writer.as_default(step=step):
        api.hparams(
            {
                name: value if isinstance(value, bool | int | float | str) else str(value)
                for name, value in hyperparameters.items()
            }
        )
        for name, score in scores.items():
            if isinstance(score, Real):
                tf.summary.scalar(f"final/{name}", score)
    writer.close()
