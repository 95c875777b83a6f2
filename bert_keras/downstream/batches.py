"""Makes batches of encoded rows for `model.fit`, and collects a model's outputs for each row."""

import math
from collections.abc import Callable, Iterable
from functools import partial

import keras
import numpy as np
import tensorflow as tf

from bert_keras.data.buckets import length_grouped_batches, longest_first_batches
from bert_keras.data.records import without_autotuning
from bert_keras.downstream.task import Encoded
from bert_keras.progress import progress


def training_batches(encoded: Encoded, *, batch_size: int, seed: int) -> tf.data.Dataset:
    """Returns an endless dataset of shuffled batches for `model.fit`.

    A batch holds rows of similar length and is padded to its longest row. The shapes of the dataset
    are unknown in all axes, so one trace of the model serves every length.

    Args:
        encoded: The rows.
        batch_size: Rows of a batch; the last batch of an epoch may be smaller.
        seed: Seed of the order.
    """
    return _dataset(
        encoded,
        lambda: length_grouped_batches(encoded.lengths, batch_size=batch_size, seed=seed),
    )


class Predictor:
    """Runs a model on encoded rows; the graph of the model is traced once."""

    def __init__(self, model: keras.Model):
        self.model = model
        # TensorFlow counts the traces of each partial separately, so a second model does not
        # trigger its warning about retracing.
        self.forward = tf.function(partial(_forward, model), reduce_retracing=True, autograph=False)

    def __call__(
        self, encoded: Encoded, *, batch_size: int = 32, stage: str = "predict"
    ) -> tuple[list, float]:
        """Runs the model on all rows; batches group rows of similar length.

        Args:
            encoded: The rows.
            batch_size: Rows of a batch.
            stage: The label of the progress bar.

        Returns:
            The output for each row, in order, and the mean loss. An output is a float32 array, or a
            dict of them, without the batch axis; its time axis is padded to the longest row of its
            batch. The loss is NaN if the model is not compiled.
        """
        batches = longest_first_batches(encoded.lengths, batch_size=batch_size)
        outputs: list = [None] * len(encoded)
        total_loss = 0.0
        with progress(stage=stage, unit="rows", total=len(encoded), leave=False) as bar:
            for rows, batch in zip(batches, _dataset(encoded, lambda: batches), strict=True):
                output, loss = self.forward(*batch)
                output = tf.nest.map_structure(lambda array: array.numpy(), output)
                for index, row in enumerate(rows):
                    outputs[row] = tf.nest.map_structure(lambda array, i=index: array[i], output)
                total_loss += float(loss) * len(rows)
                bar.update(len(rows))
        return outputs, total_loss / len(encoded) if self.model.compiled else math.nan


def _forward(model: keras.Model, inputs, targets, weights=None):
    outputs, loss = model(inputs, training=False), 0.0
    if model.compiled:
        loss = model.compute_loss(
            x=inputs, y=targets, y_pred=outputs, sample_weight=weights, training=False
        )
    return tf.nest.map_structure(lambda array: tf.cast(array, tf.float32), outputs), loss


def _dataset(encoded: Encoded, row_batches: Callable[[], Iterable[np.ndarray]]) -> tf.data.Dataset:
    def generate():
        for rows in row_batches():
            yield encoded.batch(rows)

    first = encoded.batch(np.arange(1))
    signature = tf.nest.map_structure(
        lambda array: tf.TensorSpec((None,) * array.ndim, array.dtype), first
    )
    dataset = tf.data.Dataset.from_generator(generate, output_signature=signature)
    return without_autotuning(dataset.prefetch(2))
