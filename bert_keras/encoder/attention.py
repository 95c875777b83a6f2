"""Hidden states in, what each token gathers from all tokens out."""

import math

import keras
from keras import ops

from bert_keras.encoder.projection import projection


@keras.saving.register_keras_serializable(package="bert_keras")
class SelfAttention(keras.layers.Layer):
    """Multi-head scaled dot-product attention (Vaswani et al. 2017, section 3.2.2).

    Call with hidden states [B, T, D] and an attention bias that broadcasts to [B, N, T, T];
    returns the projected context [B, T, D] and the attention probabilities [B, N, T, T]
    (those after dropout are what weighs the values).
    """

    def __init__(self, num_heads: int, *, dropout_rate: float, initializer_stddev: float, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.dropout_rate = dropout_rate
        self.initializer_stddev = initializer_stddev
        self.dropout = keras.layers.Dropout(dropout_rate, dtype=self.dtype_policy, name="dropout")

    def build(self, hidden_shape, bias_shape=None):
        size = hidden_shape[-1]
        for name in ("query", "key", "value", "output"):
            dense = projection(
                size,
                initializer_stddev=self.initializer_stddev,
                dtype=self.dtype_policy,
                name=name,
            )
            dense.build((None, size))
            setattr(self, f"{name}_dense", dense)
        self.built = True

    def call(self, hidden, bias, training=False):
        length, size = ops.shape(hidden)[1], hidden.shape[-1]
        head_size = size // self.num_heads

        def heads(x_XD):
            x_BTNH = ops.reshape(x_XD, (-1, length, self.num_heads, head_size))
            return ops.transpose(x_BTNH, (0, 2, 1, 3))

        # Two dimensions (X = B x T) make each projection one plain matrix product with its bias.
        hidden_XD = ops.reshape(hidden, (-1, size))

        query_BNTH = heads(self.query_dense(hidden_XD))
        key_BNTH = heads(self.key_dense(hidden_XD))
        value_BNTH = heads(self.value_dense(hidden_XD))
        scores_BNTT = ops.matmul(
            query_BNTH * (1.0 / math.sqrt(head_size)), ops.transpose(key_BNTH, (0, 1, 3, 2))
        )
        attention_BNTT = ops.softmax(scores_BNTT + bias, axis=-1)
        context_BNTH = ops.matmul(self.dropout(attention_BNTT, training=training), value_BNTH)
        context_XD = ops.reshape(ops.transpose(context_BNTH, (0, 2, 1, 3)), (-1, size))
        output_BTD = ops.reshape(self.output_dense(context_XD), (-1, length, size))
        return output_BTD, attention_BNTT

    def compute_output_shape(self, hidden_shape, bias_shape=None):
        batch, length, _ = hidden_shape
        return hidden_shape, (batch, self.num_heads, length, length)

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "dropout_rate": self.dropout_rate,
            "initializer_stddev": self.initializer_stddev,
        }
