"""Compiles functions that call a model, for batches of any size."""

from collections.abc import Callable, Collection

import keras


def compiled(function: Callable, model: keras.Model, *, names: Collection[str] = ()) -> Callable:
    """Compiles a function that calls a model without dropout and changes no weights.

    With TensorFlow, one trace serves batches of every size and length. JAX compiles each shape. The
    result reads the current weights. `names` are the keys of the function's argument if it is one
    dict of int32 arrays [B, T].
    """
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        spec = [dict.fromkeys(names, tf.TensorSpec((None, None), tf.int32))] if names else None
        options = {"input_signature": spec, "reduce_retracing": not names, "autograph": False}
        return tf.function(function, **options)
    import jax

    @jax.jit
    def stateless(weights, *batch):
        with keras.StatelessScope(state_mapping=zip(model.variables, weights, strict=True)):
            return function(*batch)

    return lambda *batch: stateless([weight.value for weight in model.variables], *batch)
