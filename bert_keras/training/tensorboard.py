"""Event files of TensorBoard: norms, samples, settings; reads the curves."""

import contextlib
import math
import os
import re
import socket
import time
from collections.abc import Iterable, Mapping
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_keras.distribution.forward import compiled
from bert_keras.errors import InputError
from bert_keras.text.fast_tokenizer import readable_tokens
from bert_keras.text.vocab import Vocabulary

Curve = list[tuple[int, float]]  # (step, value) in the order of steps


class EventFile:
    """A new event file of TensorBoard, which is written without TensorFlow.

    Args:
        folder: The folder of the file, which is created if it is missing.
    """

    def __init__(self, folder: str | os.PathLike):
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        Path(folder).mkdir(parents=True, exist_ok=True)
        # TensorBoard reads the files of a folder in the order of their names.
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self._event = Event
        self._file = RecordWriter((Path(folder) / name).open("wb", buffering=0))
        self._write(file_version="brain.Event:2")

    def scalars(self, values: Mapping[str, Any], *, step: int) -> None:
        """Writes a point of the curve of each tag."""
        from tensorboard.plugins.scalar.summary_v2 import scalar_pb

        for tag, value in sorted(values.items()):
            self.write(scalar_pb(tag, float(value)), step=step)

    def write(self, summary: Any, *, step: int) -> None:
        """Writes a summary, a message of one of TensorBoard's plugins."""
        self._write(summary=summary, step=step)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _write(self, **fields) -> None:
        self._file.write(self._event(wall_time=time.time(), **fields).SerializeToString())


def norms_by_layer(paths: Iterable[str], norms: Iterable[float]) -> dict[str, float]:
    """Returns the Euclidean norm over all weights of each layer.

    The layers are "embeddings", "layer_NN", "pooler" and "heads". For example,
    "pretrainer/encoder/layer_3/attention/query/kernel" belongs to "layer_03".
    """
    squares: dict[str, float] = {}
    for path, norm in zip(paths, norms, strict=True):
        part = re.search(r"(?:^|/)encoder/([^/]+)", path)
        layer = re.fullmatch(r"layer_(\d+)", part[1]) if part else None
        name = f"layer_{int(layer[1]):02d}" if layer else part[1] if part else "heads"
        squares[name] = squares.get(name, 0.0) + float(norm) ** 2
    return {name: math.sqrt(square) for name, square in squares.items()}


class NormsByLayer(keras.callbacks.Callback):
    """Adds weight_norm/LAYER and gradient_norm/LAYER to the logs of an epoch.

    The gradient norms are those of the last step, before clipping. The following callbacks can read
    the values.
    """

    def on_epoch_end(self, epoch, logs: dict):  # Keras always passes logs
        weights = self.model.trainable_variables
        paths = [weight.path for weight in weights]
        vectors = (ops.ravel(ops.cast(weight, "float32")) for weight in weights)
        weight_norms = ops.stack([*map(ops.norm, vectors)])
        gradient_norms = self.model.optimizer.gradient_norms
        for kind, norms in (("weight", weight_norms), ("gradient", gradient_norms)):
            norms = ops.convert_to_numpy(norms)
            by_layer = norms_by_layer(paths, norms)
            logs |= {f"{kind}_norm/{layer}": norm for layer, norm in by_layer.items()}


class MaskedSamples(keras.callbacks.Callback):
    """Writes the predictions for each row of a batch as the text masked_lm/samples.

    Args:
        batch: (inputs, targets, weights) of an objective with masked tokens.
        vocabulary: The vocabulary of the records.
        folder: The folder of the logs.
        epochs_per_sample: The number of Keras epochs between two samples. The last sample is
            written at the end of the training.
    """

    _predict = None
    _sampled_step = None

    def __init__(
        self,
        batch: tuple,
        vocabulary: Vocabulary,
        folder: str | os.PathLike,
        *,
        epochs_per_sample: int,
    ):
        super().__init__()
        self.inputs, targets, weights = keras.tree.map_structure(np.asarray, batch)
        self.targets, self.weights = targets["masked_lm"], weights["masked_lm"]
        self.tokens = readable_tokens(vocabulary)
        self.folder, self.epochs_per_sample = os.fspath(folder), epochs_per_sample

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self.epochs_per_sample == 0:
            self.on_train_end()

    def on_train_end(self, logs=None):
        from tensorboard.plugins.text.summary_v2 import text_pb

        step = int(self.model.optimizer.iterations.numpy())
        if step == self._sampled_step:
            return
        self._sampled_step = step
        if self._predict is None:
            forward = partial(_most_probable, self.model)
            self._predict = compiled(forward, self.model, names=self.inputs)
        predictions, probabilities = map(ops.convert_to_numpy, self._predict(self.inputs))
        rows = range(len(self.targets))
        texts = [self._row(row, predictions[row], probabilities[row]) for row in rows]
        # Each sample has its own event file, in a folder without other logs, because TensorBoard
        # reads only the newest file of a folder.
        with contextlib.closing(EventFile(self.folder)) as file:
            file.write(text_pb("masked_lm/samples", texts), step=step)

    def _row(self, row: int, predictions: np.ndarray, probabilities: np.ndarray) -> str:
        ids, mask = self.inputs["input_ids"][row], self.inputs["input_mask"][row]
        # With a causal model the target is the token after the position.
        positions = self.inputs["masked_lm_positions"][row] + self.model.config.is_causal
        tokens = [self._token(each) for each in ids[mask > 0]]
        for gap in np.flatnonzero(self.weights[row]):
            target, prediction = self._token(self.targets[row, gap]), self._token(predictions[gap])
            tokens[positions[gap]] = f"[{target} → {prediction} {probabilities[gap]:.2f}]"
        return "    " + " ".join(tokens)  # as Markdown: code, in which no character is special

    def _token(self, token_id: int) -> str:
        """Returns a token; a token table may have more rows than the vocabulary has tokens."""
        return self.tokens[token_id] if token_id < len(self.tokens) else f"[{token_id}]"


def _most_probable(model: keras.Model, inputs: dict):
    """Returns the most probable token of each masked position and its probability, both [B, P]."""
    probabilities_BPV = ops.softmax(model(inputs, training=False)["masked_lm"])
    return ops.argmax(probabilities_BPV, axis=-1), ops.max(probabilities_BPV, axis=-1)


def write_hyperparameters(
    folder: str | os.PathLike,
    hyperparameters: Mapping[str, object],
    *,
    scores: Mapping[str, float],
    step: int,
) -> None:
    """Writes the hyperparameters and scores of a run for TensorBoard's HParams plugin.

    Args:
        folder: A folder that contains no other logs. TensorBoard uses the scalars in it,
            final/SCORE, as the metrics of the run.
        hyperparameters: The hyperparameters; values other than numbers and text are written as
            `str`.
        scores: The scores; only numbers are written.
        step: The last step of the run.
    """
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb

    texts = {
        name: value if isinstance(value, bool | int | float | str) else str(value)
        for name, value in hyperparameters.items()
    }
    numbers = {f"final/{name}": score for name, score in scores.items() if isinstance(score, Real)}
    with contextlib.closing(EventFile(folder)) as file:
        file.write(hparams_pb(texts), step=step)
        file.scalars(numbers, step=step)


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
