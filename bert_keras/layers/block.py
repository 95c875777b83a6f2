"""One transformer block: self-attention and the feed-forward network, each with LayerNorm."""

import keras
from keras import ops

from bert_keras.layers.attention import SelfAttention
from bert_keras.layers.primitives import LayerNorm, activate, projection


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
        size, wide = hidden_shape[-1], self.intermediate_size
        self.intermediate_dense = projection(self, "intermediate", inputs=size, units=wide)
        self.output_dense = projection(self, "output", inputs=wide, units=size)
        self.built = True

    def call(self, hidden):
        hidden_XF = self.intermediate_dense(hidden)
        return self.output_dense(activate(hidden_XF, activation=self.activation))


@keras.saving.register_keras_serializable(package="bert_keras")
class EncoderBlock(keras.layers.Layer):
    """Post-norm: LayerNorm(x + Dropout(sublayer(x))) around attention, then around feed-forward.

    Call with hidden states [B, T, D] and an attention bias; returns ([B, T, D], [B, N, T, T]).
    """

    def __init__(
        self,
        num_heads: int,
        intermediate_size: int,
        *,
        activation: str,
        hidden_dropout_rate: float,
        attention_dropout_rate: float,
        layer_norm_epsilon: float,
        initializer_stddev: float,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.attention = SelfAttention(
            num_heads,
            dropout_rate=attention_dropout_rate,
            initializer_stddev=initializer_stddev,
            dtype=self.dtype_policy,
            name="attention",
        )
        self.attention_norm = LayerNorm(
            epsilon=layer_norm_epsilon, dtype=self.dtype_policy, name="attention_norm"
        )
        self.feed_forward = FeedForward(
            intermediate_size,
            activation=activation,
            initializer_stddev=initializer_stddev,
            dtype=self.dtype_policy,
            name="feed_forward",
        )
        self.feed_forward_norm = LayerNorm(
            epsilon=layer_norm_epsilon, dtype=self.dtype_policy, name="feed_forward_norm"
        )
        self.dropout = keras.layers.Dropout(
            hidden_dropout_rate, dtype=self.dtype_policy, name="dropout"
        )

    def build(self, hidden_shape, bias_shape=None):
        for layer in (
            self.attention,
            self.attention_norm,
            self.feed_forward,
            self.feed_forward_norm,
        ):
            layer.build(hidden_shape)
        self.built = True

    def call(self, hidden, bias, training=False):
        # X = B x T: in two dimensions a dense layer and the residual behind it are one operation.
        hidden_XD = ops.reshape(hidden, (-1, hidden.shape[-1]))
        context_XD, attention_BNTT = self.attention(hidden_XD, bias, training=training)
        hidden_XD = self.attention_norm(hidden_XD + self.dropout(context_XD, training=training))
        thought_XD = self.dropout(self.feed_forward(hidden_XD), training=training)
        hidden_XD = self.feed_forward_norm(hidden_XD + thought_XD)
        return ops.reshape(hidden_XD, ops.shape(hidden)), attention_BNTT
