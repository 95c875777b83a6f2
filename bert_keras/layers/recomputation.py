"""Recomputes a layer for its gradient, with the same dropout both times."""

import keras


def seed_states(layer: keras.layers.Layer) -> list[keras.Variable]:
    """Of all layers in it, in the order of its variables."""
    return [each for each in layer.variables if each.path.endswith("seed_generator_state")]


_MOST_DRAWS = 8  # more than any dropout of a block draws in one call


def recomputed(layer: keras.layers.Layer, *inputs, training: bool):
    """`layer(*inputs)`, computed a second time when gradients are taken: nothing between its inputs
    and outputs is kept in memory until then. Dropout draws the same both times.
    """
    # As they are now, not when they are looked at.
    seeds = [(state, keras.ops.copy(state)) for state in seed_states(layer)]

    def call(*inputs):
        with keras.StatelessScope(state_mapping=seeds):
            return layer(*inputs, training=training)

    outputs = keras.remat(call)(*inputs)
    for state, value in seeds:
        state.assign(value + keras.ops.convert_to_tensor([0, _MOST_DRAWS], state.dtype))
    return outputs
