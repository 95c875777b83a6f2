"""Draws the curves of TensorBoard's event files into one picture."""

import os

from bert_keras.errors import InputError
from bert_keras.reports.charts import Line, check_picture, line_chart, save_picture
from bert_keras.training.curves import read_curves


def plot_curves(logs: str | os.PathLike, picture: str | os.PathLike) -> None:
    """Draws the losses and accuracies of all runs over steps, one chart for each tag.

    Args:
        logs: The folder of the event files.
        picture: The picture file to write.

    Raises:
        InputError: `logs` has no curves of losses or accuracies, or the extension of `picture` is
            not supported.
    """
    check_picture(picture)
    runs = dict(sorted(read_curves(logs).items(), reverse=True))
    tags = sorted(
        {tag for run in runs.values() for tag in run if tag.startswith(("accuracy/", "loss/"))},
        key=lambda tag: (not tag.startswith("loss"), tag),
    )
    if not tags:
        raise InputError(
            f"{logs} has no curves of a loss or accuracy; expected OUTPUT/logs of a run"
        )
    charts = [
        line_chart(
            tag,
            [
                Line(label=run, group=run.replace("_", "-"), points=curves[tag])
                for run, curves in runs.items()
                if tag in curves
            ],
        )
        for tag in tags
    ]
    save_picture(charts, picture)
