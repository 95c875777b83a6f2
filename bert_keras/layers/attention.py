"""Multi-head self-attention, and the biases that mask tokens to which a token does not attend."""

import math

import keras
from keras import ops

from bert_keras.layers.primitives import PADDING_SCORE, BertLayer, Dropout, projection, softmax
from bert_keras.layers.rotary import rotated
from bert_keras.layers.windows import blocks, blocks_with_neighbours


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


@keras.saving.register_keras_serializable(package="bert_keras")
class SelfAttention(BertLayer):
    """Multi-head scaled dot-product attention (Vaswani et al. 2017, section 3.2.2).

    The sum of scores and bias, the softmax and the probabilities are float32 or wider under every
    dtype policy, unless `score_dtype` is set.

    Args:
        num_heads: The number of heads N.
        dropout_rate: The dropout rate of the attention probabilities.
        initializer_stddev: The standard deviation of the kernel initializer.
        has_biases: Whether the dense layers have biases.

    Call arguments:
        hidden: Hidden states [X, D], with X = B x T in row-major order.
        bias: The attention bias, [B, 1, 1, T] or [B, 1, T, T]; or the output of
            `windows.block_bias`, [K, B, 1, C, 3 x C], for local attention in blocks.
        rotation: The output of `rotary.rotation`, if the encoder has rotary positions.

    Returns:
        The projected context [X, D] and the attention probabilities before dropout: [B, N, T, T],
        or [K x B, N, C, 3 x C] in blocks.
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
        self.score_dtype = None  # of scores, softmax and probabilities; None: float32 or wider
        self.dropout = Dropout(dropout_rate, dtype=self.dtype_policy, name="dropout")

    def build(self, hidden_shape, bias_shape=None, rotation_shape=None):
        size = hidden_shape[-1]
        for name in ("query", "key", "value", "output"):
            dense = projection(self, name, inputs=size, units=size, has_bias=self.has_biases)
            setattr(self, f"{name}_dense", dense)
        self.built = True

    def call(self, hidden, bias, rotation=None, training=False):
        if len(bias.shape) == 5:
            return self._in_blocks(hidden, bias, rotation, training=training)
        shape = (-1, ops.shape(bias)[-1])
        query_BNTH, key_BNTH, value_BNTH = map(
            self.swap_heads, self._heads(hidden, shape, rotation)
        )
        context_BNTH, attention_BNTT = self._attention(
            query_BNTH, key_BNTH, value_BNTH, bias, training=training
        )
        context_BTNH = self.swap_heads(context_BNTH)
        return self.output_dense(ops.reshape(context_BTNH, (-1, hidden.shape[-1]))), attention_BNTT

    @staticmethod
    def swap_heads(x):
        """Transposes [B, T, N, H] to [B, N, T, H], and back."""
        return ops.transpose(x, (0, 2, 1, 3))

    def _in_blocks(self, hidden, bias_KB1CC, rotation, *, training):
        count, batch, _, size, _ = ops.shape(bias_KB1CC)
        if rotation is not None:
            length = ops.shape(rotation)[-3]
        else:  # a batch without rows has no tokens
            num_rows = max(batch, 1) if isinstance(batch, int) else ops.maximum(batch, 1)
            length = ops.shape(hidden)[0] // num_rows
        query_BTNH, key_BTNH, value_BTNH = self._heads(hidden, (batch, length), rotation)

        def joined(x_KBNCH):  # with four dimensions, oneDNN fuses scale, product and bias
            return ops.reshape(x_KBNCH, (-1, *ops.shape(x_KBNCH)[2:]))

        context_XNCH, attention_XNCC = self._attention(
            joined(blocks(query_BTNH, size, count)),
            joined(blocks_with_neighbours(key_BTNH, size, count)),
            joined(blocks_with_neighbours(value_BTNH, size, count)),
            joined(bias_KB1CC),
            training=training,
        )
        context_KBNCH = ops.reshape(context_XNCH, (count, batch, *ops.shape(context_XNCH)[1:]))
        context_BKCNH = ops.transpose(context_KBNCH, (1, 0, 3, 2, 4))
        context_BTD = ops.reshape(context_BKCNH, (batch, count * size, hidden.shape[-1]))
        context_XD = ops.reshape(context_BTD[:, :length], ops.shape(hidden))
        return self.output_dense(context_XD), attention_XNCC

    def _heads(self, hidden, shape, rotation):
        """Returns query, key and value [B, T, N, H]; `shape` is (B, T)."""
        head_size = hidden.shape[-1] // self.num_heads
        query, key, value = (
            ops.reshape(dense(hidden), (*shape, self.num_heads, head_size))
            for dense in (self.query_dense, self.key_dense, self.value_dense)
        )
        if rotation is None:
            return query, key, value
        return rotated(query, rotation), rotated(key, rotation), value

    def _attention(self, query_BNTH, key_BNTH, value_BNTH, bias, *, training):
        """Returns the context [B, N, T, H] and the attention probabilities."""
        head_size = query_BNTH.shape[-1]
        precise = self.score_dtype or keras.backend.result_type(self.compute_dtype, "float32")
        # With the scale before the product, oneDNN fuses scale, product and bias.
        scores_BNTT = ops.matmul(
            query_BNTH * (1.0 / math.sqrt(head_size)), ops.transpose(key_BNTH, (0, 1, 3, 2))
        )
        attention_BNTT = softmax(ops.cast(scores_BNTT, precise) + ops.cast(bias, precise))
        weight_BNTT = self.dropout(ops.cast(attention_BNTT, self.compute_dtype), training=training)
        return ops.matmul(weight_BNTT, value_BNTH), attention_BNTT
