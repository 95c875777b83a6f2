"""A layer and its inputs in, its outputs out; the inputs alone are kept for the gradient."""

import keras

_MOST_DRAWS = 8  # more than any dropout of a block draws in one call


def recomputed(layer: keras.layers.Layer, *inputs, training: bool):
    """`layer(*inputs)`, computed a second time when gradients are taken: nothing between its inputs
    and outputs is kept in memory until then. Dropout draws the same both times.
    """
    seeds = [
        (variable, keras.ops.copy(variable))  # as it is now, not when it is looked at
        for variable in layer.non_trainable_variables
        if variable.path.endswith("seed_generator_state")
    ]

    def call(*inputs):
        with keras.StatelessScope(state_mapping=seeds):
            return layer(*inputs, training=training)

    outputs = keras.remat(call)(*inputs)
    for variable, value in seeds:
        variable.assign(value + keras.ops.convert_to_tensor([0, _MOST_DRAWS], variable.dtype))
    return outputs
