"""Multi-head self-attention, its biases, local attention in blocks and rotary positions.

A token with local attention attends only to a window with half of its tokens on each side. In the
masked form, the bias excludes all other tokens from the scores [T, T]. In blocks, each of the K
blocks of C tokens has scores only for itself and for the blocks on both sides, [C, 3 x C], so that
time and memory grow with T and not with its square. Rotary positions: Su et al. 2021.
"""

import math
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from bert_keras.layers.primitives import (
    IS_JAX,
    PADDING_SCORE,
    BertLayer,
    Dropout,
    projection,
    softmax,
)

# A window's bias is lower than that of padding, so that padding attends to padding in its window.
FAR_SCORE = 2 * PADDING_SCORE
_LEAST_BLOCK = 32  # tokens; smaller matrix products are slow


class Tokens(NamedTuple):
    """Where the X tokens of a batch are among its B x T positions; the others are padding."""

    positions: Any  # int [X]
    numbers: Any  # int [B x T], the token of each position; padding has that of the one before it


def tokens_of(input_mask_BT) -> Tokens:
    """Returns the tokens of a batch; a row of padding has one, so that each row has a state."""
    is_first_T = ops.arange(ops.shape(input_mask_BT)[1]) == 0
    is_token = ops.reshape(ops.logical_or(input_mask_BT > 0, is_first_T), (-1,))
    (positions,) = ops.nonzero(is_token)
    return Tokens(positions, ops.cumsum(ops.cast(is_token, "int32")) - 1)


def attention_bias(input_mask_BT, *, dtype: str):
    """Returns the attention bias [B, 1, 1, T] that masks padding, where the mask [B, T] is 0."""
    is_real_B11T = ops.expand_dims(ops.cast(input_mask_BT, dtype), (1, 2))
    return (1.0 - is_real_B11T) * PADDING_SCORE


def packed_bias(sequence_ids_BT, *, dtype: str):
    """Returns the bias [B, 1, T, T] for several sequences in one row: each attends to itself.

    The sequences [B, T] count from 1. Padding, 0, attends to padding, so that rows sum to 1.
    """
    same = ops.equal(sequence_ids_BT[:, None, :, None], sequence_ids_BT[:, None, None, :])
    return (1.0 - ops.cast(same, dtype)) * PADDING_SCORE


def causal_bias(length, *, dtype: str):
    """Returns the bias [1, 1, T, T] with which a token attends to itself and to earlier ones."""
    positions_T = ops.arange(length)
    is_later_TT = ops.less(ops.expand_dims(positions_T, 1), positions_T)
    return ops.expand_dims(ops.cast(is_later_TT, dtype), (0, 1)) * PADDING_SCORE


def window_bias(length, *, window: int, dtype: str):
    """Returns the bias [1, 1, T, T] that excludes what is over `window` / 2 tokens away."""
    positions_T = ops.arange(length)
    is_far_TT = ops.abs(ops.expand_dims(positions_T, 1) - positions_T) > window // 2
    return ops.expand_dims(ops.cast(is_far_TT, dtype), (0, 1)) * FAR_SCORE


def pays_in_blocks(length, *, window: int) -> bool:
    """Returns whether blocks have fewer scores than the masked form, or the length is unknown."""
    return not isinstance(length, int) or length > 3 * max(window // 2, _LEAST_BLOCK)


def block_bias(tokens_BT, *, window: int, is_packed: bool, is_causal: bool, dtype: str):
    """Returns the bias [K, B, 1, C, 3 x C] of local attention in blocks.

    It has the values of the masked form, the sum of `window_bias` and of the biases of padding,
    packed rows and later tokens. `tokens_BT` are the numbers of the sequences if the rows are
    packed, otherwise the input mask.
    """
    length = ops.shape(tokens_BT)[1]
    size = max(window // 2, _LEAST_BLOCK)
    size = min(size, length) if isinstance(length, int) else ops.minimum(size, length)
    count = (length + size - 1) // size
    outside = -1  # the number of positions before the first token and after the last one
    numbers_BT = ops.cast(tokens_BT, "int32") - outside
    queries_KBC1, keys_KBC1 = (
        ops.squeeze(each, axis=2) + outside
        for each in (
            blocks(ops.expand_dims(numbers_BT, (2, 3)), size, count),
            blocks_with_neighbours(ops.expand_dims(numbers_BT, (2, 3)), size, count),
        )
    )
    keys_KB1C = ops.swapaxes(keys_KBC1, 2, 3)
    allowed = ops.equal(queries_KBC1, keys_KB1C) if is_packed else keys_KB1C > 0
    bias = (1.0 - ops.cast(allowed, dtype)) * PADDING_SCORE
    key_positions, positions = ops.arange(3 * size) - size, ops.arange(size)[:, None]
    is_far = ops.abs(positions - key_positions) > window // 2
    bias = bias + ops.cast(is_far, dtype) * FAR_SCORE
    bias = bias + ops.cast(ops.equal(keys_KB1C, outside), dtype) * FAR_SCORE
    if is_causal:
        bias = bias + ops.cast(positions < key_positions, dtype) * PADDING_SCORE
    return ops.expand_dims(bias, 2)


def blocks(x_BTNH, size, count):
    """Divides T positions into `count` blocks of `size`, padded with 0: [K, B, N, C, H].

    Blocks are the first axis, because TensorFlow slices only the first axis without a copy.
    """
    batch, length, heads, head_size = ops.shape(x_BTNH)
    x_BTNH = ops.pad(x_BTNH, [[0, 0], [0, count * size - length], [0, 0], [0, 0]])
    x_BKCNH = ops.reshape(x_BTNH, (batch, count, size, heads, head_size))
    return ops.transpose(x_BKCNH, (1, 0, 3, 2, 4))


def blocks_with_neighbours(x_BTNH, size, count):
    """Divides positions as `blocks` does; each block has those on both sides, [K, B, N, 3C, H]."""
    length = ops.shape(x_BTNH)[1]
    end = (count + 1) * size - length
    x_BTNH = ops.pad(x_BTNH, [[0, 0], [size, end], [0, 0], [0, 0]])
    x_KBNCH = blocks(x_BTNH, size, count + 2)
    return ops.concatenate([x_KBNCH[:-2], x_KBNCH[1:-1], x_KBNCH[2:]], axis=3)


def rotation(positions, *, head_size: int, base: float):
    """Returns the factors with which `rotated` rotates at positions [T] or [B, T].

    The angle of pair i of n = head_size / 2 at position p is p / base^(i/n). The factors are
    float32 [T, 1, 2 x H] or [B, T, 1, 2 x H]: the cosines of the H/2 angles twice, then their
    negated sines and their sines.
    """
    half = head_size // 2
    frequencies = (1.0 / base ** (np.arange(half, dtype="float32") / half)).astype("float32")
    angles = ops.expand_dims(ops.cast(positions, "float32"), (-2, -1)) * frequencies
    cosines, sines = ops.cos(angles), ops.sin(angles)
    return ops.concatenate([cosines, cosines, -sines, sines], axis=-1)


def rotated(x_BTNH, factors):
    """Rotates each pair (i, i + H/2) of the last axis, in float32 or wider."""
    x = ops.cast(x_BTNH, keras.backend.result_type(x_BTNH.dtype, "float32"))
    cosines, sines = ops.split(ops.cast(factors, x.dtype), 2, axis=-1)
    first, second = ops.split(x, 2, axis=-1)
    turned = x * cosines + ops.concatenate([second, first], axis=-1) * sines
    return ops.cast(turned, x_BTNH.dtype)


@keras.saving.register_keras_serializable(package="bert_keras")
class SelfAttention(BertLayer):
    """Multi-head scaled dot-product attention (Vaswani et al. 2017, section 3.2.2).

    The sum of scores and bias, the softmax and the probabilities are float32 or wider under every
    dtype policy, unless `score_dtype` is set. The arguments are fields of `BertConfig`.

    Call arguments:
        hidden: Hidden states [X, D], with X = B x T in row-major order.
        bias: The attention bias, [B, 1, 1, T] or [B, 1, T, T]; or the output of
            `block_bias`, [K, B, 1, C, 3 x C], for local attention in blocks; or [B, T], for
            training with the kernel of `jax_kernels`.
        rotation: The output of `rotation`, if the encoder has rotary positions.
        tokens: The output of `tokens_of`, if X are the tokens alone, without padding.

    Returns:
        The projected context [X, D] and the attention probabilities before dropout: [B, N, T, T],
        [K x B, N, C, 3 x C] in blocks, or None from the kernel.
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

    def call(self, hidden, bias, rotation=None, tokens=None, training=False):
        if len(bias.shape) == 2:
            return self._in_kernel(hidden, bias, rotation), None
        attend = self._in_blocks if len(bias.shape) == 5 else self._in_full
        context, attention = attend(hidden, bias, rotation, tokens, training=training)
        context_XD = ops.reshape(context, (-1, hidden.shape[-1]))
        if tokens is not None:
            context_XD = ops.take(context_XD, tokens.positions, axis=0)
        return self.output_dense(context_XD), attention

    def _in_full(self, hidden, bias, rotation, tokens, *, training):
        heads = self._heads(hidden, (-1, ops.shape(bias)[-1]), rotation, tokens)
        query, key, value = map(_swap_heads, heads)
        context, attention = self._attention(query, key, value, bias, training=training)
        return _swap_heads(context), attention

    def _in_blocks(self, hidden, bias_KB1CC, rotation, tokens, *, training):
        count, batch, _, size, _ = ops.shape(bias_KB1CC)
        if rotation is not None:
            length = ops.shape(rotation)[-3]
        else:  # a batch without rows has no tokens
            num_rows = max(batch, 1) if isinstance(batch, int) else ops.maximum(batch, 1)
            length = ops.shape(hidden if tokens is None else tokens.numbers)[0] // num_rows
        query_BTNH, key_BTNH, value_BTNH = self._heads(hidden, (batch, length), rotation, tokens)

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
        return context_BTD[:, :length], attention_XNCC

    def _in_kernel(self, hidden, bias_BT, rotation):
        from bert_keras.layers.jax_attention import attention
        from bert_keras.layers.jax_kernels import draw

        heads = self._heads(hidden, (-1, bias_BT.shape[-1]), rotation)
        query_BTNH, key_BTNH, value_BTNH = (ops.cast(x, self.compute_dtype) for x in heads)
        rate, random_key = draw(self.dropout)
        context_BTNH = attention(query_BTNH, key_BTNH, value_BTNH, bias_BT, random_key, rate)
        return self.output_dense(ops.reshape(context_BTNH, hidden.shape))

    def _heads(self, hidden, shape, rotation, tokens=None):
        """Returns query, key and value [B, T, N, H]; `shape` is (B, T)."""
        head_size = hidden.shape[-1] // self.num_heads

        def heads(dense):
            x_XD = dense(hidden)
            if tokens is not None:
                x_XD = ops.take(x_XD, tokens.numbers, axis=0)
            return ops.reshape(x_XD, (*shape, self.num_heads, head_size))

        query, key, value = map(heads, (self.query_dense, self.key_dense, self.value_dense))
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


def _swap_heads(x):
    """Transposes [B, T, N, H] to [B, N, T, H], and back."""
    if IS_JAX or keras.distribution.list_devices("gpu"):
        return ops.transpose(x, (0, 2, 1, 3))
    return _swap_as_integers(x)


@ops.custom_gradient
def _swap_as_integers(x):
    # TensorFlow transposes floats by oneDNN, which takes several times as long for few tokens.
    def swapped(x):
        bits = keras.backend.standardize_dtype(x.dtype)[-2:]
        integers = ops.transpose(ops.view(x, f"int{bits}"), (0, 2, 1, 3))
        return ops.view(integers, x.dtype)

    return swapped(x), swapped
