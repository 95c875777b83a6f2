"""Defines the pooler, which turns the hidden state of a text into its pooled output."""

import keras
from keras import ops

from bert_keras.layers.primitives import LayerNorm


@keras.saving.register_keras_serializable(package="bert_keras")
class Pooler(keras.layers.Dense):
    """Pooler: a dense layer and an activation, in ModernBERT followed by a LayerNorm.

    Maps [X, D] to [X, units].

    Args:
        units: The size of the pooled output.
        layer_norm_epsilon: The number that LayerNorm adds to the variance; 0 omits LayerNorm. Its
            `beta` is omitted if `use_bias` is False.
        **kwargs: The arguments of `keras.layers.Dense`.
    """

    def __init__(self, units: int, *, layer_norm_epsilon: float = 0.0, **kwargs):
        super().__init__(units, **kwargs)
        self.layer_norm_epsilon = layer_norm_epsilon
        self.norm = None
        if layer_norm_epsilon:
            self.norm = LayerNorm(
                epsilon=layer_norm_epsilon,
                center=self.use_bias,
                dtype=self.dtype_policy,
                name="norm",
            )

    def build(self, states_shape):
        super().build(states_shape)
        if self.norm is not None:
            self.norm.build((None, self.units))

    def call(self, states, training=None):
        pooled = super().call(states, training=training)
        return pooled if self.norm is None else self.norm(pooled)

    def get_config(self):
        return super().get_config() | {"layer_norm_epsilon": self.layer_norm_epsilon}


def mean_state(hidden_BTD, input_mask_BT):
    """Returns the mean hidden state [B, D] of the tokens that are not padding.

    The mean is 0 for a row that consists of padding.
    """
    mask_BT = ops.cast(ops.cast(input_mask_BT, "bool"), "float32")
    weights_BT = mask_BT / ops.maximum(ops.sum(mask_BT, axis=1, keepdims=True), 1.0)
    return ops.einsum("bt,btd->bd", ops.cast(weights_BT, hidden_BTD.dtype), hidden_BTD)
