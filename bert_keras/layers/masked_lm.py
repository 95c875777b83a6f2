"""Hidden states and masked positions in, logits over the vocabulary out."""

import keras
from keras import ops

from bert_keras.layers.feed_forward import activate
from bert_keras.layers.norm import LayerNorm
from bert_keras.layers.positions import states_at
from bert_keras.layers.projection import projection


@keras.saving.register_keras_serializable(package="bert_keras")
class MaskedLMHead(keras.layers.Layer):
    """Dense, activation, LayerNorm, then the token table itself as decoder, plus a bias (A.1).

    Call with hidden states [B, T, D], positions int [B, P] and the token table [V, E], whose E the
    dense layer gives; returns logits [B, P, V] in the dtype of the weights. Only the P masked
    positions are projected: the rest of T is gathered away first, which is the largest single
    saving of a pretraining step.
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        activation: str,
        layer_norm_epsilon: float,
        initializer_stddev: float,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_stddev = initializer_stddev
        self.norm = LayerNorm(epsilon=layer_norm_epsilon, dtype=self.dtype_policy, name="norm")

    def build(self, hidden_shape, positions_shape, token_table_shape):
        size = token_table_shape[-1]
        self.transform = projection(
            size,
            initializer_stddev=self.initializer_stddev,
            dtype=self.dtype_policy,
            name="transform",
        )
        self.transform.build((None, hidden_shape[-1]))
        self.norm.build((None, size))
        self.output_bias = self.add_weight(
            name="output_bias", shape=(self.vocab_size,), initializer="zeros", autocast=False
        )
        self.built = True

    def call(self, hidden, positions, token_table):
        masked_XE = self.transform(states_at(hidden, positions))
        masked_XE = self.norm(activate(masked_XE, activation=self.activation))
        table_VE = ops.cast(token_table, masked_XE.dtype)
        logits_XV = _scores(masked_XE, table_VE)
        logits_XV = ops.cast(logits_XV, self.variable_dtype) + self.output_bias
        return ops.reshape(logits_XV, (-1, ops.shape(positions)[1], self.vocab_size))

    def compute_output_shape(self, hidden_shape, positions_shape, token_table_shape):
        return (*positions_shape, self.vocab_size)

    def get_config(self):
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "activation": self.activation,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_stddev": self.initializer_stddev,
        }


@ops.custom_gradient
def _scores(masked_XE, table_VE):
    """Each state by each row of the table; the table's gradient comes in the table's own layout,
    where that of a transposed table is transposed once more."""

    def gradients(grad_XV):
        return ops.matmul(grad_XV, table_VE), ops.matmul(ops.transpose(grad_XV), masked_XE)

    return ops.matmul(masked_XE, ops.transpose(table_VE)), gradients
