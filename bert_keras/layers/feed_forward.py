"""Hidden states in, the position-wise feed-forward network's answer out."""

import keras
from keras import ops

from bert_keras.layers.projection import projection


def activate(x, *, activation: str):
    """One of `bert_keras.config.ACTIVATIONS`, applied to a tensor of any shape."""
    if activation == "gelu":
        return ops.gelu(x, approximate=False)
    if activation == "gelu_tanh":
        return ops.gelu(x, approximate=True)
    return keras.activations.get(activation)(x)


@keras.saving.register_keras_serializable(package="bert_keras")
class FeedForward(keras.layers.Layer):
    """Dense to F = `intermediate_size`, activation, dense back to D. [X, D] -> [X, D].

    Two dimensions make each dense layer one matrix product with its bias and activation.
    """

    def __init__(
        self, intermediate_size: int, *, activation: str, initializer_stddev: float, **kwargs
    ):
        super().__init__(**kwargs)
        self.intermediate_size = intermediate_size
        self.activation = activation
        self.initializer_stddev = initializer_stddev

    def build(self, hidden_shape):
        def dense(name: str, units: int, inputs: int):
            layer = projection(
                units,
                initializer_stddev=self.initializer_stddev,
                dtype=self.dtype_policy,
                name=name,
            )
            layer.build((None, inputs))
            return layer

        self.intermediate_dense = dense("intermediate", self.intermediate_size, hidden_shape[-1])
        self.output_dense = dense("output", hidden_shape[-1], self.intermediate_size)
        self.built = True

    def call(self, hidden):
        hidden_XF = self.intermediate_dense(hidden)
        return self.output_dense(activate(hidden_XF, activation=self.activation))

    def compute_output_shape(self, hidden_shape):
        return hidden_shape

    def get_config(self):
        return {
            **super().get_config(),
            "intermediate_size": self.intermediate_size,
            "activation": self.activation,
            "initializer_stddev": self.initializer_stddev,
        }
