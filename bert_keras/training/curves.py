"""Reads the curves of a run from TensorBoard's event files."""

import os
from pathlib import Path

from bert_keras.errors import InputError

Curve = list[tuple[int, float]]  # (step, value) in the order of steps


def read_curves(logs: str | os.PathLike) -> dict[str, dict[str, Curve]]:
    """Reads every scalar of all event files in a folder and its subfolders.

    An interrupted run logs the steps after its last saved state twice; the newer value is kept.

    Args:
        logs: The folder OUTPUT/logs of a run.

    Returns:
        The curves by run and tag (such as "loss/masked_lm"). A run is the path of its files in
        `logs`, such as "train" or "held_out". A curve is a list of (step, value).

    Raises:
        InputError: `logs` has no event files with scalars.

    Example:

    ```python
    pretrain("demo", records="records", output="runs/curves", num_steps=2, num_warmup_steps=1)
    curves = read_curves("runs/curves/logs")
    print(curves["train"]["loss/total"])
    ```
    """
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    runs = {}
    for events in sorted({path.parent for path in Path(logs).rglob("events.out.tfevents.*")}):
        accumulator = EventAccumulator(str(events), size_guidance={"tensors": 0}).Reload()
        curves = {}
        for tag in accumulator.Tags()["tensors"]:
            if accumulator.SummaryMetadata(tag).plugin_data.plugin_name == "scalars":
                values = {e.step: e.tensor_proto for e in accumulator.Tensors(tag)}
                curves[tag] = [(step, float(make_ndarray(values[step]))) for step in sorted(values)]
        if curves:
            runs["/".join(events.relative_to(logs).parts) or events.name] = curves
    if not runs:
        raise InputError(f"{logs} has no TensorBoard event files; expected OUTPUT/logs of a run")
    return runs
