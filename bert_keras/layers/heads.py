"""The heads over the encoder: classification, token labels, answer spans, masked LM."""

import keras
from keras import ops

from bert_keras.layers.primitives import LayerNorm, activate, projection, states_at


@keras.saving.register_keras_serializable(package="bert_keras")
class ClassificationHead(keras.layers.Layer):
    """Dropout and one dense layer (section 4.1). [B, D] -> logits [B, num_labels].

    The next-sentence head of pretraining is this with two labels and no dropout, the head of
    multiple choice (section 4.4) this with one. Logits have the dtype of the weights: float32
    under a mixed policy, where so small a layer costs nothing.
    """

    def __init__(
        self, num_labels: int, *, dropout_rate: float, initializer_stddev: float, **kwargs
    ):
        super().__init__(**kwargs)
        self.num_labels = num_labels
        self.initializer_stddev = initializer_stddev
        self.dropout = keras.layers.Dropout(dropout_rate, dtype=self.dtype_policy, name="dropout")

    def build(self, pooled_shape):
        self.dense = projection(
            self, "dense", inputs=pooled_shape[-1], units=self.num_labels, dtype=self.variable_dtype
        )
        self.built = True

    def call(self, pooled, training=False):
        return self.dense(self.dropout(pooled, training=training))


@keras.saving.register_keras_serializable(package="bert_keras")
class TokenLabelsHead(ClassificationHead):
    """ClassificationHead on every token (section 5.3). [B, T, D] -> logits [B, T, num_labels]."""

    def call(self, hidden, training=False):
        length, size = ops.shape(hidden)[1], hidden.shape[-1]
        logits_XL = super().call(ops.reshape(hidden, (-1, size)), training=training)
        return ops.reshape(logits_XL, (-1, length, self.num_labels))


@keras.saving.register_keras_serializable(package="bert_keras")
class SpanHead(keras.layers.Layer):
    """A start vector S and an end vector E against every token (section 4.2), no dropout.

    [B, T, D] -> logits {"start": [B, T], "end": [B, T]} in the dtype of the weights. S and E are
    the columns of one kernel. Padding is scored like any token.
    """

    def __init__(self, *, initializer_stddev: float, **kwargs):
        super().__init__(**kwargs)
        self.initializer_stddev = initializer_stddev

    def build(self, hidden_shape):
        self.dense = projection(
            self, "dense", inputs=hidden_shape[-1], units=2, dtype=self.variable_dtype
        )
        self.built = True

    def call(self, hidden):
        length, size = ops.shape(hidden)[1], hidden.shape[-1]
        logits_X2 = self.dense(ops.reshape(hidden, (-1, size)))
        logits_BT2 = ops.reshape(logits_X2, (-1, length, 2))
        return {"start": logits_BT2[:, :, 0], "end": logits_BT2[:, :, 1]}


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
        self.initializer_stddev = initializer_stddev
        self.norm = LayerNorm(epsilon=layer_norm_epsilon, dtype=self.dtype_policy, name="norm")

    def build(self, hidden_shape, positions_shape, token_table_shape):
        size = token_table_shape[-1]
        self.transform = projection(self, "transform", inputs=hidden_shape[-1], units=size)
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


@ops.custom_gradient
def _scores(masked_XE, table_VE):
    """Each state by each row of the table; the table's gradient comes in the table's own layout,
    where that of a transposed table is transposed once more."""

    def gradients(grad_XV):
        return ops.matmul(grad_XV, table_VE), ops.matmul(ops.transpose(grad_XV), masked_XE)

    return ops.matmul(masked_XE, ops.transpose(table_VE)), gradients
