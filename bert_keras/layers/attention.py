"""Self-attention, its biases and rotary positions; `bert_keras.layers` explains shape suffixes."""

import math
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from bert_keras.layers import Tensor
from bert_keras.layers.primitives import IS_JAX, PADDING_SCORE, BertLayer, Dropout, softmax

# Must be far below PADDING_SCORE: a query whose window holds only padding then attends only within
# its window, so BlockPattern and FullPattern give equal results.
FAR_SCORE = 2 * PADDING_SCORE
OUTSIDE_ID = -1  # sequence id of the positions before and after a row
LEAST_BLOCK = 32  # tokens; smaller matrix products are slow


class UnpaddedTokens(NamedTuple):
    """The places of a batch's X tokens among its B x T positions; the others are padding."""

    positions: Any  # int [X]: the position of each token
    token_index: Any  # int [B x T]: the token at each position; padding repeats the previous one


class AttentionPattern(NamedTuple):
    """Which tokens attend to which, and their positions; its class selects the algorithm."""

    bias: Any  # added to the scores; its shape depends on the class
    rotation: Any = None  # the result of `compute_rotation`, or None if positions are learned
    tokens: UnpaddedTokens | None = None  # set if padding was removed from the hidden states


class FullPattern(AttentionPattern):
    """Every token attends to every token. The bias is [B, 1, 1, T] or [B, 1, T, T]."""


class BlockPattern(AttentionPattern):
    """Local attention in M blocks of Q tokens, with the bias of `block_bias`, [M, B, 1, Q, 3 x Q].

    Each block attends only to itself and its two neighbours, so that time and memory grow with T
    and not with its square.
    """


class KernelPattern(AttentionPattern):
    """Training with `jax_kernels`, which returns no probabilities. The bias is [B, T]."""


def find_tokens(input_mask_BT: Tensor) -> UnpaddedTokens:
    """Finds a batch's tokens; the first position counts as one, so that every row has a state."""
    is_first_T = ops.arange(ops.shape(input_mask_BT)[1]) == 0
    is_token = ops.reshape(ops.logical_or(input_mask_BT > 0, is_first_T), (-1,))
    (positions,) = ops.nonzero(is_token)
    return UnpaddedTokens(positions, ops.cumsum(ops.cast(is_token, "int32")) - 1)


def padding_bias(input_mask_BT: Tensor, *, dtype: str):
    """Returns the bias [B, 1, 1, T] that excludes padding, where the mask [B, T] is 0."""
    return (1.0 - ops.expand_dims(ops.cast(input_mask_BT, dtype), (1, 2))) * PADDING_SCORE


def packed_bias(sequence_ids_BT: Tensor, *, dtype: str):
    """Returns the bias [B, 1, T, T] with which tokens attend only within their own sequence.

    Ids start at 1; padding is 0 and attends to padding, so that no softmax row is fully excluded.
    """
    is_same = ops.equal(sequence_ids_BT[:, None, :, None], sequence_ids_BT[:, None, None, :])
    return (1.0 - ops.cast(is_same, dtype)) * PADDING_SCORE


def causal_bias(length: Any, *, dtype: str):
    """Returns the bias [1, 1, T, T] with which a token attends to itself and to earlier ones."""
    is_later_TT = ops.less(ops.arange(length)[:, None], ops.arange(length))
    return ops.expand_dims(ops.cast(is_later_TT, dtype), (0, 1)) * PADDING_SCORE


def window_bias(length: Any, *, window: int, dtype: str):
    """Returns the bias [1, 1, T, T] that excludes tokens over `window` / 2 tokens away."""
    is_far_TT = ops.abs(ops.arange(length)[:, None] - ops.arange(length)) > window // 2
    return ops.expand_dims(ops.cast(is_far_TT, dtype), (0, 1)) * FAR_SCORE


def block_bias(ids_BT: Tensor, *, window: int, is_packed: bool, is_causal: bool, dtype: str):
    """Returns the bias [M, B, 1, Q, 3 x Q] of local attention in blocks.

    A pair of tokens has the same bias as in a FullPattern: the sum of `window_bias`, of
    `padding_bias` or `packed_bias`, and of `causal_bias` if `is_causal`.

    Args:
        ids_BT: The sequence ids if `is_packed`, otherwise the input mask.
        is_packed: Whether a row may have several sequences.
    """
    length, size = ops.shape(ids_BT)[1], max(window // 2, LEAST_BLOCK)
    size = min(size, length) if isinstance(length, int) else ops.minimum(size, length)
    count = (length + size - 1) // size
    ids_BT11 = ops.expand_dims(ops.cast(ids_BT, "int32"), (2, 3))
    queries = ops.squeeze(split_blocks(ids_BT11, size, count, pad_value=OUTSIDE_ID), axis=2)
    keys = split_blocks_with_neighbours(ids_BT11, size, count, pad_value=OUTSIDE_ID)
    keys = ops.swapaxes(ops.squeeze(keys, axis=2), 2, 3)  # [M, B, 1, 3 x Q]; queries [M, B, Q, 1]
    is_allowed = ops.equal(queries, keys) if is_packed else keys > 0
    bias = (1.0 - ops.cast(is_allowed, dtype)) * PADDING_SCORE
    key_positions, positions = ops.arange(3 * size) - size, ops.arange(size)[:, None]
    bias = bias + ops.cast(ops.abs(positions - key_positions) > window // 2, dtype) * FAR_SCORE
    bias = bias + ops.cast(ops.equal(keys, OUTSIDE_ID), dtype) * FAR_SCORE
    if is_causal:
        bias = bias + ops.cast(positions < key_positions, dtype) * PADDING_SCORE
    return ops.expand_dims(bias, 2)


def split_blocks(x_BTNH: Tensor, size: Any, count: Any, *, pad_value: int = 0):
    """Divides T positions, padded at the end, into `count` blocks of `size`: [M, B, N, Q, H].

    Blocks are the first axis, because TensorFlow slices only the first axis without a copy.
    """
    batch, length, heads, head_size = ops.shape(x_BTNH)
    padding = [[0, 0], [0, count * size - length], [0, 0], [0, 0]]
    x_BTNH = ops.pad(x_BTNH, padding, constant_values=pad_value)
    x_BMQNH = ops.reshape(x_BTNH, (batch, count, size, heads, head_size))
    return ops.transpose(x_BMQNH, (1, 0, 3, 2, 4))


def split_blocks_with_neighbours(x_BTNH: Tensor, size: Any, count: Any, *, pad_value: int = 0):
    """Same as `split_blocks`, but joins each block with its two neighbours: [M, B, N, 3 x Q, H]."""
    x_BTNH = ops.pad(x_BTNH, [[0, 0], [size, 0], [0, 0], [0, 0]], constant_values=pad_value)
    x_MBNQH = split_blocks(x_BTNH, size, count + 2, pad_value=pad_value)
    return ops.concatenate([x_MBNQH[:-2], x_MBNQH[1:-1], x_MBNQH[2:]], axis=3)


def compute_rotation(positions: Any, *, head_size: int, base: float):
    """Returns the factors with which `rotate` rotates pairs at positions [T] or [B, T].

    The angle of pair i of n = H / 2 at position p is p / base^(i/n) (Su et al. 2021). The factors
    are float32 [T, 1, 2 x H] or [B, T, 1, 2 x H]: the cosines twice, the negated sines, the sines.
    """
    half = head_size // 2
    frequencies = (1.0 / base ** (np.arange(half, dtype="float32") / half)).astype("float32")
    angles = ops.expand_dims(ops.cast(positions, "float32"), (-2, -1)) * frequencies
    cosines, sines = ops.cos(angles), ops.sin(angles)
    return ops.concatenate([cosines, cosines, -sines, sines], axis=-1)


def rotate(x_BTNH: Tensor, factors: Tensor):
    """Rotates each pair (i, i + H/2) of the last axis, in float32 or wider."""
    x = ops.cast(x_BTNH, keras.backend.result_type(x_BTNH.dtype, "float32"))
    cosines, sines = ops.split(ops.cast(factors, x.dtype), 2, axis=-1)
    first, second = ops.split(x, 2, axis=-1)
    return ops.cast(x * cosines + ops.concatenate([second, first], axis=-1) * sines, x_BTNH.dtype)


@keras.saving.register_keras_serializable(package="bert_keras")
class SelfAttention(BertLayer):
    """Multi-head scaled dot-product attention (Vaswani et al. 2017, section 3.2.2).

    The sum of scores and bias, the softmax and the probabilities are float32 or wider under every
    dtype policy.

    Args:
        num_heads: The number of attention heads, which divides D.
        dropout_rate: The dropout rate of the attention probabilities.

    Call arguments:
        hidden: Hidden states [X, D]: of all B x T positions in row-major order, or only of the X
            tokens of `pattern.tokens`.

    Returns:
        The projected context [X, D] and the attention probabilities before dropout: [B, N, T, T],
        [A, N, Q, 3 x Q] for a BlockPattern, where A = M x B, or None for a KernelPattern.
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
        self.num_heads, self.has_biases = num_heads, has_biases
        self.initializer_stddev = initializer_stddev
        self.dropout = Dropout(dropout_rate, dtype=self.dtype_policy, name="dropout")
        self.only_basic_ops = False  # set while tracing for LiteRT, which lacks other operations

    def build(self, hidden_shape: tuple):
        size = hidden_shape[-1]
        self.query_dense = self._dense("query", size, size)
        self.key_dense = self._dense("key", size, size)
        self.value_dense = self._dense("value", size, size)
        self.output_dense = self._dense("output", size, size)

    def call(self, hidden: Tensor, pattern: AttentionPattern, training: bool = False):
        if isinstance(pattern, KernelPattern):
            return self._attend_in_kernel(hidden, pattern), None
        is_local = isinstance(pattern, BlockPattern)
        attend = self._attend_in_blocks if is_local else self._attend_to_all
        context, probabilities = attend(hidden, pattern, training=training)
        context_XD = ops.reshape(context, (-1, hidden.shape[-1]))
        if pattern.tokens is not None:
            context_XD = ops.take(context_XD, pattern.tokens.positions, axis=0)
        return self.output_dense(context_XD), probabilities

    def _attend_to_all(self, hidden, pattern, *, training):
        projections = self._project(hidden, (-1, ops.shape(pattern.bias)[-1]), pattern)
        query, key, value = map(self._swap_heads, projections)
        context, probabilities = self._attend(query, key, value, pattern.bias, training=training)
        return self._swap_heads(context), probabilities

    def _swap_heads(self, x):
        """Transposes [B, T, N, H] to [B, N, T, H], and back."""
        # TensorFlow on a CPU transposes floats, not doubles, by oneDNN: slow for few tokens.
        bits = int(keras.backend.standardize_dtype(x.dtype)[-2:])  # "float32" -> 32
        can_view_as_double = x.shape[-1] * bits % 64 == 0  # whole doubles in a row of H values
        is_on_cpu = not (IS_JAX or keras.distribution.list_devices("gpu"))
        if can_view_as_double and is_on_cpu and not self.only_basic_ops:
            return _swap_as_doubles(x)
        return ops.transpose(x, (0, 2, 1, 3))

    def _attend_in_blocks(self, hidden, pattern, *, training):
        count, batch, _, size, _ = ops.shape(pattern.bias)
        if pattern.rotation is not None:
            length = ops.shape(pattern.rotation)[-3]  # of [T, 1, 2 x H] or [B, T, 1, 2 x H]
        else:
            per_position = hidden if pattern.tokens is None else pattern.tokens.token_index
            # 1 avoids a division by zero for an empty batch.
            num_rows = max(batch, 1) if isinstance(batch, int) else ops.maximum(batch, 1)
            length = ops.shape(per_position)[0] // num_rows  # only its length is used, B x T
        query_BTNH, key_BTNH, value_BTNH = self._project(hidden, (batch, length), pattern)

        def merge(x_MBNQH):  # to [A, N, Q, H], of which oneDNN fuses scale, product and bias
            return ops.reshape(x_MBNQH, (-1, *ops.shape(x_MBNQH)[2:]))

        context_ANQH, probabilities = self._attend(
            merge(split_blocks(query_BTNH, size, count)),
            merge(split_blocks_with_neighbours(key_BTNH, size, count)),
            merge(split_blocks_with_neighbours(value_BTNH, size, count)),
            merge(pattern.bias),
            training=training,
        )
        context_MBNQH = ops.reshape(context_ANQH, (count, batch, *ops.shape(context_ANQH)[1:]))
        context_BMQNH = ops.transpose(context_MBNQH, (1, 0, 3, 2, 4))
        context_BTD = ops.reshape(context_BMQNH, (batch, count * size, hidden.shape[-1]))
        return context_BTD[:, :length], probabilities

    def _attend_in_kernel(self, hidden, pattern):
        from bert_keras.layers.jax_kernels import attention, draw_dropout

        projections = self._project(hidden, (-1, pattern.bias.shape[-1]), pattern)
        query_BTNH, key_BTNH, value_BTNH = (ops.cast(x, self.compute_dtype) for x in projections)
        rate, random_key = draw_dropout(self.dropout)
        context_BTNH = attention(query_BTNH, key_BTNH, value_BTNH, pattern.bias, random_key, rate)
        return self.output_dense(ops.reshape(context_BTNH, hidden.shape))

    def _project(self, hidden, shape, pattern):
        """Returns query, key and value [B, T, N, H]; `shape` is (B, T)."""
        head_size = hidden.shape[-1] // self.num_heads

        def project(dense):
            x_XD = dense(hidden)
            if pattern.tokens is not None:
                x_XD = ops.take(x_XD, pattern.tokens.token_index, axis=0)
            return ops.reshape(x_XD, (*shape, self.num_heads, head_size))

        query, key, value = map(project, (self.query_dense, self.key_dense, self.value_dense))
        if pattern.rotation is None:
            return query, key, value
        return rotate(query, pattern.rotation), rotate(key, pattern.rotation), value

    def _attend(self, query_BNTH, key_BNTH, value_BNTH, bias, *, training):
        """Returns context and probabilities; in blocks, [A, N, Q, H] attends to [A, N, 3Q, H]."""
        precise = keras.backend.result_type(self.compute_dtype, "float32")
        # With the scale before the product, oneDNN fuses scale, product and bias.
        query_BNTH = query_BNTH * (1.0 / math.sqrt(query_BNTH.shape[-1]))
        scores_BNTT = ops.matmul(query_BNTH, ops.transpose(key_BNTH, (0, 1, 3, 2)))
        probabilities_BNTT = softmax(ops.cast(scores_BNTT, precise) + ops.cast(bias, precise))
        weights_BNTT = ops.cast(probabilities_BNTT, self.compute_dtype)
        weights_BNTT = self.dropout(weights_BNTT, training=training)
        return ops.matmul(weights_BNTT, value_BNTH), probabilities_BNTT


@ops.custom_gradient
def _swap_as_doubles(x):
    # Not as integers: TensorFlow tries oneDNN for them, too, with an error in the log.
    def swap(x):
        return ops.view(ops.transpose(ops.view(x, "float64"), (0, 2, 1, 3)), x.dtype)

    return swap(x), swap  # a swap is its own inverse, and so its own gradient
