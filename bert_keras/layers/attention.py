"""Multi-head self-attention, and the biases that mask tokens to which a token does not attend."""

import math

import keras
from keras import ops

from bert_keras.layers.primitives import projection, softmax
from bert_keras.layers.rotary import rotated

# Bias of masked positions, as in the original modeling.py; exp(-10000) is 0 in float32.
PADDING_SCORE = -10_000.0


def attention_bias(input_mask_BT, *, dtype: str):
    """Returns the attention bias that masks padding.

    Args:
        input_mask_BT: [B, T], 1 for a token and 0 for padding.
        dtype: The dtype of the result.

    Returns:
        [B, 1, 1, T], to add to the attention scores.
    """
    # LiteRT does not support [:, None, None, :] if batch size and length are dynamic.
    is_real_B11T = ops.expand_dims(ops.cast(input_mask_BT, dtype), (1, 2))
    return (1.0 - is_real_B11T) * PADDING_SCORE


def packed_bias(sequence_ids_BT, *, dtype: str):
    """Returns the attention bias for several sequences in one row: each attends only to itself.

    Padding attends to padding, so that every row of attention probabilities sums to 1.

    Args:
        sequence_ids_BT: [B, T], the number of the sequence of each token, counted from 1; 0 for
            padding.
        dtype: The dtype of the result.

    Returns:
        [B, 1, T, T], to add to the attention scores.
    """
    same = ops.equal(sequence_ids_BT[:, None, :, None], sequence_ids_BT[:, None, None, :])
    return (1.0 - ops.cast(same, dtype)) * PADDING_SCORE


def causal_bias(length, *, dtype: str):
    """Returns the causal attention bias: each token attends only to itself and to earlier tokens.

    Args:
        length: The number of tokens T.
        dtype: The dtype of the result.

    Returns:
        [1, 1, T, T], to add to one of the other biases.
    """
    positions_T = ops.arange(length)
    is_later_TT = ops.less(ops.expand_dims(positions_T, 1), positions_T)
    return ops.expand_dims(ops.cast(is_later_TT, dtype), (0, 1)) * PADDING_SCORE


def window_bias(length, *, window: int, dtype: str):
    """Returns the bias of local attention: each token attends only to tokens near it.

    The bias is lower than that of padding, so that padding attends to padding in its window.

    Args:
        length: The number of tokens T.
        window: Twice the largest distance of a token to which a token attends.
        dtype: The dtype of the result.

    Returns:
        [1, 1, T, T], to add to one of the other biases.
    """
    positions_T = ops.arange(length)
    is_far_TT = ops.abs(ops.expand_dims(positions_T, 1) - positions_T) > window // 2
    return ops.expand_dims(ops.cast(is_far_TT, dtype), (0, 1)) * (2 * PADDING_SCORE)


@keras.saving.register_keras_serializable(package="bert_keras")
class SelfAttention(keras.layers.Layer):
    """Multi-head scaled dot-product attention (Vaswani et al. 2017, section 3.2.2).

    The sum of scores and bias, the softmax and the probabilities are float32 or wider under every
    dtype policy.

    Args:
        num_heads: The number of heads N.
        dropout_rate: The dropout rate of the attention probabilities.
        initializer_stddev: The standard deviation of the kernel initializer.
        has_biases: Whether the dense layers have biases.

    Call arguments:
        hidden: Hidden states [X, D], with X = B x T in row-major order.
        bias: The attention bias, [B, 1, 1, T] or [B, 1, T, T].
        rotation: The output of `rotary.rotation`, if the encoder has rotary positions.

    Returns:
        The projected context [X, D] and the attention probabilities [B, N, T, T] before dropout.
    """

    def __init__(
        self,
        num_heads: int,
        *,
        dropout_rate: float,
        initializer_stddev: float,
        has_biases: bool = True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.has_biases = has_biases
        self.num_heads = num_heads
        self.initializer_stddev = initializer_stddev
        self.dropout = keras.layers.Dropout(dropout_rate, dtype=self.dtype_policy, name="dropout")

    def build(self, hidden_shape, bias_shape=None, rotation_shape=None):
        size = hidden_shape[-1]
        for name in ("query", "key", "value", "output"):
            dense = projection(self, name, inputs=size, units=size, has_bias=self.has_biases)
            setattr(self, f"{name}_dense", dense)
        self.built = True

    def call(self, hidden, bias, rotation=None, training=False):
        length, size = ops.shape(bias)[-1], hidden.shape[-1]
        head_size = size // self.num_heads
        precise = keras.backend.result_type(self.compute_dtype, "float32")

        def heads(x_XD, rotation=None):
            x_BTNH = ops.reshape(x_XD, (-1, length, self.num_heads, head_size))
            if rotation is not None:
                x_BTNH = rotated(x_BTNH, rotation)
            return ops.transpose(x_BTNH, (0, 2, 1, 3))

        query_BNTH = heads(self.query_dense(hidden), rotation)
        key_BNTH = heads(self.key_dense(hidden), rotation)
        value_BNTH = heads(self.value_dense(hidden))
        # With the scale before the product, oneDNN fuses scale, product and bias.
        scores_BNTT = ops.matmul(
            query_BNTH * (1.0 / math.sqrt(head_size)), ops.transpose(key_BNTH, (0, 1, 3, 2))
        )
        attention_BNTT = softmax(ops.cast(scores_BNTT, precise) + ops.cast(bias, precise))
        weight_BNTT = self.dropout(ops.cast(attention_BNTT, self.compute_dtype), training=training)
        context_BTNH = ops.transpose(ops.matmul(weight_BNTT, value_BNTH), (0, 2, 1, 3))
        return self.output_dense(ops.reshape(context_BTNH, (-1, size))), attention_BNTT
