"""Compiles functions that call a model on batches of any size."""

from collections.abc import Callable, Collection

import keras


def compile_call(call: Callable, model: keras.Model, *, names: Collection[str] = ()) -> Callable:
    """Compiles a function that calls a model without dropout and changes no weights.

    With TensorFlow, one trace serves batches of every size and length. JAX compiles each shape. The
    compiled function reads the current weights. `names` are the keys of its argument if this is a
    dict of int32 arrays [B, T].
    """
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        spec = [dict.fromkeys(names, tf.TensorSpec((None, None), tf.int32))] if names else None
        options = {"input_signature": spec, "reduce_retracing": not names, "autograph": False}
        return tf.function(call, **options)
    import jax

    @jax.jit
    def stateless(weights, *batch):
        with keras.StatelessScope(state_mapping=zip(model.variables, weights, strict=True)):
            return call(*batch)

    return lambda *batch: stateless([weight.value for weight in model.variables], *batch)
