"""Writes event files of TensorBoard, with norms, and reads their curves."""

import math
import os
import re
import socket
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
from keras import ops

from bert_keras.errors import InputError
from bert_keras.files import StrPath

Curve = list[tuple[int, float]]  # (step, value) in the order of steps


class EventFile:
    """A new event file of TensorBoard in a folder, which is created if it is missing."""

    def __init__(self, folder: StrPath):
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        Path(folder).mkdir(parents=True, exist_ok=True)
        # TensorBoard reads the files of a folder in the order of their names.
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self._event = Event
        self._file = RecordWriter((Path(folder) / name).open("wb", buffering=0))
        self.write(file_version="brain.Event:2")

    def scalars(self, values: Mapping[str, Any], *, step: int) -> None:
        """Writes a point of the curve of each tag."""
        from tensorboard.plugins.scalar.summary_v2 import scalar_pb

        for tag, value in sorted(values.items()):
            self.write(summary=scalar_pb(tag, float(value)), step=step)

    def close(self) -> None:
        self._file.close()

    def write(self, **fields: Any) -> None:
        """Writes an event, such as a `summary` of one of TensorBoard's plugins at a `step`."""
        self._file.write(self._event(wall_time=time.time(), **fields).SerializeToString())


class NormsByLayer(keras.callbacks.Callback):
    """Adds weight_norm/LAYER and gradient_norm/LAYER, before clipping, to the logs of an epoch.

    LAYER is "embeddings", "layer_NN", "pooler" or "heads".
    """

    def on_epoch_end(self, epoch: int, logs: dict):  # Keras always passes logs
        weights = self.model.trainable_variables
        vectors = (ops.ravel(ops.cast(weight, "float32")) for weight in weights)
        all_norms = {"weight": ops.stack(list(map(ops.norm, vectors)))}
        all_norms["gradient"] = self.model.optimizer.gradient_norms
        for quantity, norms in all_norms.items():
            squares: dict[str, float] = defaultdict(float)
            for weight, norm in zip(weights, ops.convert_to_numpy(norms), strict=True):
                layer = re.search(r"(?:^|/)encoder/([^/]+)", weight.path)
                name = re.sub(r"^layer_(\d)$", r"layer_0\1", layer[1]) if layer else "heads"
                squares[name] += float(norm) ** 2
            logs |= {f"{quantity}_norm/{name}": math.sqrt(each) for name, each in squares.items()}


def read_curves(logs: StrPath) -> dict[str, dict[str, Curve]]:
    """Reads the scalars of all event files in a folder and its subfolders.

    A resumed run logs the steps after its last saved state again; the newer values are kept.

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
