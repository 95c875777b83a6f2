"""A layer in, the random states of its dropouts out."""

import keras


def seed_states(layer: keras.layers.Layer) -> list[keras.Variable]:
    """Of all layers in it, in the order of its variables."""
    return [each for each in layer.variables if each.path.endswith("seed_generator_state")]
