"""Compiles the forward pass of a model for batches of any size."""

from collections.abc import Callable, Collection

import keras


def compiled_forward(model: keras.Model, names: Collection[str]) -> Callable:
    """Returns a function that runs a model on a batch, without dropout.

    One trace serves batches of every size and length. The function reads the current weights.

    Args:
        model: The model.
        names: The names of its inputs, int32 [B, T].
    """
    if keras.config.backend() != "tensorflow":
        return model.predict_on_batch
    import tensorflow as tf  # only with this backend

    return tf.function(
        lambda inputs: model(inputs, training=False),
        input_signature=[dict.fromkeys(names, tf.TensorSpec((None, None), tf.int32))],
        autograph=False,
    )
