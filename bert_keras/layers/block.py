"""A transformer block: self-attention and a feed-forward network, each with LayerNorm."""

import keras
from keras import ops

from bert_keras.layers.attention import SelfAttention
from bert_keras.layers.primitives import LayerNorm, activate, projection


@keras.saving.register_keras_serializable(package="bert_keras")
class FeedForward(keras.layers.Layer):
    """The feed-forward network of a block: a dense layer, an activation and a dense layer.

    Maps [X, D] to [X, D].

    The inputs have two dimensions, so that each dense layer is one matrix product with its bias and
    activation.

    Args:
        intermediate_size: The size F between the two dense layers.
        activation: One of `bert_keras.config.ACTIVATIONS`.
        initializer_stddev: The standard deviation of the kernel initializer.
    """

    def __init__(
        self, intermediate_size: int, *, activation: str, initializer_stddev: float, **kwargs
    ):
        super().__init__(**kwargs)
        self.intermediate_size = intermediate_size
        self.activation = activation
        self.initializer_stddev = initializer_stddev

    def build(self, hidden_shape):
        size, inner = hidden_shape[-1], self.intermediate_size
        self.intermediate_dense = projection(self, "intermediate", inputs=size, units=inner)
        self.output_dense = projection(self, "output", inputs=inner, units=size)
        self.built = True

    def call(self, hidden):
        hidden_XF = self.intermediate_dense(hidden)
        return self.output_dense(activate(hidden_XF, activation=self.activation))


@keras.saving.register_keras_serializable(package="bert_keras")
class EncoderBlock(keras.layers.Layer):
    """A post-norm transformer block: self-attention, then the feed-forward network.

    Each sublayer computes LayerNorm(x + Dropout(sublayer(x))).

    Args:
        num_heads: The number of attention heads N.
        intermediate_size: The size of the feed-forward network's intermediate layer.
        activation: One of `bert_keras.config.ACTIVATIONS`.
        hidden_dropout_rate: The dropout rate of the outputs of both sublayers.
        attention_dropout_rate: The dropout rate of the attention probabilities.
        layer_norm_epsilon: The number that LayerNorm adds to the variance.
        initializer_stddev: The standard deviation of the kernel initializer.

    Call arguments:
        hidden: Hidden states [B, T, D].
        bias: The attention bias, [B, 1, 1, T] or [B, 1, T, T].

    Returns:
        The new hidden states [B, T, D] and the attention probabilities [B, N, T, T].
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
        # X = B x T. With two dimensions a dense layer and the following residual are fused.
        hidden_XD = ops.reshape(hidden, (-1, hidden.shape[-1]))
        context_XD, attention_BNTT = self.attention(hidden_XD, bias, training=training)
        hidden_XD = self.attention_norm(hidden_XD + self.dropout(context_XD, training=training))
        output_XD = self.dropout(self.feed_forward(hidden_XD), training=training)
        hidden_XD = self.feed_forward_norm(hidden_XD + output_XD)
        return ops.reshape(hidden_XD, ops.shape(hidden)), attention_BNTT
