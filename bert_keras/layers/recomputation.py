"""Recomputes a layer in the backward pass with the same dropout as in the forward pass."""

from contextlib import nullcontext

import keras


def seed_states(layer: keras.layers.Layer) -> list[keras.Variable]:
    """Returns the dropout seed states of a layer, in the order of its variables."""
    return [each for each in layer.variables if each.path.endswith("seed_generator_state")]


_MOST_DRAWS = 8  # more random draws than any dropout of a block makes in one call


def recomputed(layer: keras.layers.Layer, *inputs, training: bool):
    """Calls `layer(*inputs)` and computes it again when gradients are taken.

    Intermediate results between the inputs and the outputs are not kept in memory. Dropout draws
    the same numbers both times. From the second step on, they are not those that it draws without
    recomputation.
    """
    # Copies keep the current values; the variables change before the second computation.
    seeds = [(state, keras.ops.copy(state)) for state in seed_states(layer)]

    # JAX runs `call` only once. In a training step under JAX, only the scope that Keras opened has
    # the values of the variables.
    is_repeated = keras.backend.backend() != "jax"

    def call(*inputs):
        with keras.StatelessScope(state_mapping=seeds) if is_repeated else nullcontext():
            return layer(*inputs, training=training)

    outputs = keras.remat(call)(*inputs)
    for state, value in seeds:
        state.assign(value + keras.ops.convert_to_tensor([0, _MOST_DRAWS], state.dtype))
    return outputs
