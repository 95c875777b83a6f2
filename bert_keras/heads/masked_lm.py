"""Hidden states and masked positions in, logits over the vocabulary out."""

import keras
from keras import ops

from bert_keras.encoder.feed_forward import activate


@keras.saving.register_keras_serializable(package="bert_keras")
class MaskedLMHead(keras.layers.Layer):
    """Dense, activation, LayerNorm, then the token table itself as decoder, plus a bias (A.1).

    Call with hidden states [B, T, D], positions int [B, P] and the token table [V, D]; returns
    logits [B, P, V]. Only the P masked positions are projected: the rest of T is gathered away
    first, which is the largest single saving of a pretraining step.
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
        self.norm = keras.layers.LayerNormalization(epsilon=layer_norm_epsilon, name="norm")

    def build(self, hidden_shape, positions_shape=None, table_shape=None):
        size = hidden_shape[-1]
        self.transform = keras.layers.Dense(
            size,
            kernel_initializer=keras.initializers.TruncatedNormal(stddev=self.initializer_stddev),
            name="transform",
        )
        self.transform.build((None, size))
        self.norm.build((None, size))
        self.output_bias = self.add_weight(
            name="output_bias", shape=(self.vocab_size,), initializer="zeros"
        )
        self.built = True

    def call(self, hidden_BTD, positions_BP, token_table_VD):
        batch, length, _ = ops.shape(hidden_BTD)
        size, num_positions = hidden_BTD.shape[-1], ops.shape(positions_BP)[1]
        rows_B1 = ops.expand_dims(ops.arange(batch, dtype=positions_BP.dtype) * length, axis=1)
        flat_XD = ops.take(
            ops.reshape(hidden_BTD, (-1, size)), ops.reshape(positions_BP + rows_B1, (-1,)), axis=0
        )
        flat_XD = self.norm(activate(self.transform(flat_XD), activation=self.activation))
        logits_XV = ops.matmul(flat_XD, ops.transpose(token_table_VD)) + self.output_bias
        return ops.reshape(logits_XV, (-1, num_positions, self.vocab_size))

    def compute_output_shape(self, hidden_shape, positions_shape, table_shape):
        return (*positions_shape, self.vocab_size)

    def get_config(self):
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "activation": self.activation,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_stddev": self.initializer_stddev,
        }
