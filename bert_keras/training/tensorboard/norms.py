"""Computes norms of weights and gradients by layer."""

import math
import re
from collections.abc import Iterable

import keras
import tensorflow as tf


def layer_of(path: str) -> str:
    """Returns the layer of a weight: "layer_NN", "embeddings", "pooler" or "heads".

    For example, "pretrainer/encoder/layer_3/attention/query/kernel" belongs to "layer_03".
    """
    parts = path.split("/")
    if "encoder" not in parts:
        return "heads"
    part = parts[parts.index("encoder") + 1]
    layer = re.fullmatch(r"layer_(\d+)", part)
    return f"layer_{int(layer[1]):02d}" if layer else part


def norms_by_layer(paths: Iterable[str], norms: Iterable[float]) -> dict[str, float]:
    """Returns the Euclidean norm over all weights of each layer.

    Args:
        paths: The paths of the weights.
        norms: The norm of each weight.
    """
    squares: dict[str, float] = {}
    for path, norm in zip(paths, norms, strict=True):
        squares[layer_of(path)] = squares.get(layer_of(path), 0.0) + float(norm) ** 2
    return {layer: math.sqrt(square) for layer, square in squares.items()}


class NormsByLayer(keras.callbacks.Callback):
    """Adds weight_norm/LAYER and gradient_norm/LAYER to the logs of an epoch.

    The gradient norms are those of the last step, before clipping. The following callbacks can read
    the values.
    """

    _weight_norms = None

    def on_epoch_end(self, epoch, logs: dict):  # Keras always passes logs
        optimizer = self.model.optimizer
        variables = optimizer._trainable_variables
        if self._weight_norms is None:
            self._weight_norms = tf.function(
                lambda: _norms(v.value for v in variables), autograph=False
            )
        paths = [variable.path for variable in variables]
        for kind, norms in (
            ("weight_norm", self._weight_norms().numpy()),
            ("gradient_norm", optimizer.gradient_norms.numpy()),
        ):
            by_layer = norms_by_layer(paths, norms)
            logs |= {f"{kind}/{layer}": norm for layer, norm in by_layer.items()}


def _norms(weights: Iterable[tf.Tensor]) -> tf.Tensor:
    """Returns the norm of each weight, float32 [number of weights]."""
    # Tracing tf.norm takes nearly twice as long.
    return tf.sqrt(tf.stack([tf.reduce_sum(tf.square(tf.cast(w, "float32"))) for w in weights]))
