"""Collects a model's outputs for each encoded row."""

from collections.abc import Callable
from functools import partial

import keras
import numpy as np
from keras import tree
from tqdm import tqdm

from bert_keras.data.batches import batches_of
from bert_keras.data.encoded import Encoded, longest_first_batches
from bert_keras.distribution.model import compile_call


class Predictor:
    """Runs a model on encoded rows; the model is compiled once.

    Args:
        model: The model, with or without `compile`.
        forward: A function of the model and the parts of a batch that returns the outputs and a
            loss or None. By default it calls the model without dropout.
    """

    def __init__(self, model: keras.Model, *, forward: Callable | None = None):
        # TensorFlow counts the traces of each partial separately, so a second model does not
        # trigger its warning about retracing.
        self.forward = compile_call(partial(forward or _forward, model), model)

    def __call__(
        self, encoded: Encoded, *, batch_size: int = 32, stage: str = "predict"
    ) -> tuple[list, float | None]:
        """Returns the model's output for each row, in order, and the mean loss.

        An output is a float32 array or a dict of arrays, without the batch axis. Its time axis is
        padded to the longest row of the batch. The loss is None without `compile` or targets.
        `stage` is the text on the progress bar.
        """
        if not len(encoded):
            return [], None
        batches = longest_first_batches(encoded.lengths, batch_size=batch_size)
        outputs: list = [None] * len(encoded)
        losses: list[float] = []
        with tqdm(desc=stage, unit=" rows", total=len(encoded), leave=False, disable=None) as bar:
            read = batches_of(encoded, lambda: batches, num_batches=len(batches))
            read = (read.fill() if keras.config.backend() == "jax" else read).for_fit()
            for rows, batch in zip(batches, read, strict=True):
                output, loss = self.forward(*batch)
                output = tree.map_structure(np.asarray, output)
                for index, row in enumerate(rows):
                    outputs[row] = tree.map_structure(lambda array, at=index: array[at], output)
                if loss is not None:
                    losses.append(float(loss) * len(rows))
                bar.update(len(rows))
        return outputs, sum(losses) / len(encoded) if losses else None


def _forward(model: keras.Model, inputs, targets=None, weights=None):
    outputs, loss = model(inputs, training=False), None
    if model.compiled and targets is not None:
        loss = model.compute_loss(
            x=inputs, y=targets, y_pred=outputs, sample_weight=weights, training=False
        )
    return tree.map_structure(lambda array: keras.ops.cast(array, "float32"), outputs), loss
