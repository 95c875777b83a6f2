"""Reads TensorBoard's event files, and plots the curves in them."""

import os
from pathlib import Path

from bert_keras.errors import InputError

Curve = list[tuple[int, float]]


def read_curves(logs: str | os.PathLike) -> dict[str, dict[str, Curve]]:
    """run ("train", "held_out") -> tag ("loss/masked_lm") -> (step, value), ascending.

    Of a step that was logged twice, behind the state that an interrupted run went on from, the
    newer value.
    """
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    runs = {}
    for events in sorted({path.parent for path in Path(logs).rglob("events.out.tfevents.*")}):
        accumulator = EventAccumulator(str(events), size_guidance={"tensors": 0}).Reload()
        curves = {
            tag: sorted(
                {
                    e.step: float(make_ndarray(e.tensor_proto)) for e in accumulator.Tensors(tag)
                }.items()
            )
            for tag in accumulator.Tags()["tensors"]
            if accumulator.SummaryMetadata(tag).plugin_data.plugin_name == "scalars"
        }
        if curves:
            runs[events.name] = curves
    if not runs:
        raise InputError(f"{logs} holds no TensorBoard event files; expected OUTPUT/logs of a run")
    return runs


def plot_curves(logs: str | os.PathLike, picture: str | os.PathLike) -> None:
    """Losses and accuracies of all runs over steps, one panel a tag, into a .png or .svg file."""
    if not Path(picture).suffix:
        raise InputError(f"{picture} has no ending; expected such as {picture}.png")
    runs = read_curves(logs)
    from matplotlib.figure import Figure

    tags = sorted(
        {tag for run in runs.values() for tag in run if tag.startswith(("accuracy/", "loss/"))},
        key=lambda tag: (not tag.startswith("loss"), tag),
    )
    figure = Figure(figsize=(4 * len(tags), 3.2), layout="constrained")
    for panel, tag in zip(figure.subplots(1, len(tags), squeeze=False)[0], tags, strict=True):
        for run, curves in sorted(runs.items(), reverse=True):
            if tag in curves:
                panel.plot(*zip(*curves[tag], strict=True), label=run.replace("_", "-"))
        panel.set_title(tag)
        panel.set_xlabel("step")
        panel.grid(alpha=0.3)
        panel.legend()
    try:
        figure.savefig(picture, dpi=120)
    except ValueError as error:
        raise InputError(f"{picture}: {error}") from error
