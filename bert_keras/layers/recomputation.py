"""A layer and its inputs in, its outputs out; the inputs alone are kept for the gradient."""

import keras

from bert_keras.distribution.seeds import seed_states

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
