"""Self-attention, its biases and rotary positions; `bert_keras.layers` lists the shape suffixes."""

import math
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from bert_keras.layers import Tensor
from bert_keras.layers.primitives import IS_JAX, PADDING_SCORE, BertLayer, Dropout, softmax

# Bias of tokens outside the window of local attention. Twice PADDING_SCORE makes a query whose
# window has only padding attend to that padding, so that BlockPattern and FullPattern agree.
FAR_SCORE = 2 * PADDING_SCORE
OUTSIDE_ID = -1  # sequence id of the positions before and after a row
LEAST_BLOCK = 32  # tokens in a block of local attention; smaller matrix products are slow


class UnpaddedTokens(NamedTuple):
    """Where the X tokens of a batch are among its B x T positions; the others are padding."""

    positions: Any  # int [X]: the position of each token, to remove padding
    token_index: Any  # int [B x T]: the token at each position; padding repeats the previous token


class AttentionPattern(NamedTuple):
    """Which tokens attend to which tokens. The subclass selects how attention is computed."""

    bias: Any  # added to the scores; each subclass states the shape
    rotation: Any = None  # the result of `compute_rotation`, or None if positions are learned
    tokens: UnpaddedTokens | None = None  # set if the hidden states have no padding
    # [2 x T + 1, D], the result of `RelativeEmbeddings`, for disentangled attention
    relative_embeddings: Any = None


class FullPattern(AttentionPattern):
    """Every token attends to every token. The bias is [B, 1 or N, 1 or T, T]."""


class BlockPattern(AttentionPattern):
    """Local attention in M blocks of Q tokens. The bias of `block_bias` is [M, B, 1, Q, 3 x Q].

    A block attends to itself and its two neighbours, so time and memory grow with T, not with T^2.
    """


class KernelPattern(AttentionPattern):
    """Training with the kernels of `jax_kernels`, without probabilities. The bias is [B, T]."""


def find_tokens(input_mask_BT: Tensor) -> UnpaddedTokens:
    """Finds the tokens of a batch. The first position of a row counts as one even if it is masked.

    Otherwise, padding at the start of a row would repeat a token of the row before.
    """
    is_first_T = ops.arange(ops.shape(input_mask_BT)[1]) == 0
    is_token_BT = ops.logical_or(input_mask_BT > 0, is_first_T)
    is_token = ops.reshape(is_token_BT, (-1,))
    (positions,) = ops.nonzero(is_token)
    return UnpaddedTokens(positions, ops.cumsum(ops.cast(is_token, "int32")) - 1)


def padding_bias(input_mask_BT: Tensor, *, dtype: str):
    """Returns the bias [B, 1, 1, T] that excludes padding, where the mask [B, T] is 0."""
    mask_B11T = ops.expand_dims(ops.cast(input_mask_BT, dtype), (1, 2))
    return (1.0 - mask_B11T) * PADDING_SCORE


def packed_bias(sequence_ids_BT: Tensor, *, dtype: str):
    """Returns the bias [B, 1, T, T] with which tokens attend only within their own sequence.

    Ids start at 1. Padding has the id 0 and attends to padding, so that each token attends to some.
    """
    queries_B1T1, keys_B11T = sequence_ids_BT[:, None, :, None], sequence_ids_BT[:, None, None, :]
    is_same_B1TT = ops.equal(queries_B1T1, keys_B11T)
    return (1.0 - ops.cast(is_same_B1TT, dtype)) * PADDING_SCORE


def causal_bias(length: Any, *, dtype: str):
    """Returns the bias [1, 1, T, T] with which a token attends to itself and to earlier tokens."""
    is_later_TT = ops.less(ops.arange(length)[:, None], ops.arange(length))
    return ops.expand_dims(ops.cast(is_later_TT, dtype), (0, 1)) * PADDING_SCORE


def window_bias(length: Any, *, window: int, dtype: str):
    """Returns the bias [1, 1, T, T] that excludes tokens more than `window` / 2 positions away."""
    distance_TT = ops.abs(ops.arange(length)[:, None] - ops.arange(length))
    is_far_TT = distance_TT > window // 2
    return ops.expand_dims(ops.cast(is_far_TT, dtype), (0, 1)) * FAR_SCORE


def block_bias(ids_BT: Tensor, *, window: int, is_packed: bool, is_causal: bool, dtype: str):
    """Returns the bias [M, B, 1, Q, 3 x Q] of local attention in blocks.

    The bias of two tokens is the same as in a FullPattern: the sum of `window_bias`, of
    `padding_bias` or `packed_bias`, and of `causal_bias` if `is_causal`.

    Args:
        ids_BT: The sequence ids if `is_packed`, otherwise the input mask.
        window: The window of local attention, in tokens.
        is_packed: Whether a row may have several sequences.
        is_causal: Whether tokens attend only to themselves and to earlier tokens.
        dtype: The dtype of the bias.
    """
    length, block_size = ops.shape(ids_BT)[1], max(window // 2, LEAST_BLOCK)
    minimum = min if isinstance(length, int) else ops.minimum
    block_size = minimum(block_size, length)
    num_blocks = (length + block_size - 1) // block_size
    ids_BT11 = ops.expand_dims(ops.cast(ids_BT, "int32"), (2, 3))  # as one head of size 1
    query_ids = split_blocks(ids_BT11, block_size, num_blocks, pad_value=OUTSIDE_ID)
    query_ids_MBQ1 = ops.squeeze(query_ids, axis=2)
    key_ids = split_blocks_with_neighbours(ids_BT11, block_size, num_blocks, pad_value=OUTSIDE_ID)
    key_ids = ops.swapaxes(ops.squeeze(key_ids, axis=2), 2, 3)  # [M, B, 1, 3 x Q]
    is_allowed = ops.equal(query_ids_MBQ1, key_ids) if is_packed else key_ids > 0
    bias = (1.0 - ops.cast(is_allowed, dtype)) * PADDING_SCORE  # [M, B, 1 or Q, 3 x Q]
    # Positions count from the first query of a block; its keys begin one block before.
    query_positions_Q1 = ops.arange(block_size)[:, None]
    key_positions = ops.arange(3 * block_size) - block_size
    is_far = ops.abs(query_positions_Q1 - key_positions) > window // 2
    bias = bias + ops.cast(is_far, dtype) * FAR_SCORE
    bias = bias + ops.cast(ops.equal(key_ids, OUTSIDE_ID), dtype) * FAR_SCORE
    if is_causal:
        bias = bias + ops.cast(query_positions_Q1 < key_positions, dtype) * PADDING_SCORE
    return ops.expand_dims(bias, 2)


def split_blocks(x_BTNH: Tensor, block_size: Any, num_blocks: Any, *, pad_value: int = 0):
    """Divides the T positions of each row into M blocks of Q positions: [M, B, N, Q, H].

    Blocks are the first axis, because TensorFlow slices only the first axis without a copy.

    Args:
        x_BTNH: A value for each position and head.
        block_size: Q, an integer or a scalar tensor.
        num_blocks: M, an integer or a scalar tensor.
        pad_value: The value of the positions that fill the last block.
    """
    batch, length, heads, head_size = ops.shape(x_BTNH)
    padding = [[0, 0], [0, num_blocks * block_size - length], [0, 0], [0, 0]]
    x_BTNH = ops.pad(x_BTNH, padding, constant_values=pad_value)
    x_BMQNH = ops.reshape(x_BTNH, (batch, num_blocks, block_size, heads, head_size))
    return ops.transpose(x_BMQNH, (1, 0, 3, 2, 4))


def split_blocks_with_neighbours(
    x_BTNH: Tensor, block_size: Any, num_blocks: Any, *, pad_value: int = 0
):
    """Same as `split_blocks`, but joins each block with its two neighbours: [M, B, N, 3 x Q, H].

    Args:
        x_BTNH, block_size, num_blocks, pad_value: As in `split_blocks`.
    """
    padding = [[0, 0], [block_size, 0], [0, 0], [0, 0]]
    x_BTNH = ops.pad(x_BTNH, padding, constant_values=pad_value)
    blocks_MBNQH = split_blocks(x_BTNH, block_size, num_blocks + 2, pad_value=pad_value)
    before, own, after = blocks_MBNQH[:-2], blocks_MBNQH[1:-1], blocks_MBNQH[2:]
    return ops.concatenate([before, own, after], axis=3)


def compute_rotation(positions: Any, *, head_size: int, base: float, divisor: float = 1.0):
    """Returns the factors with which `rotate` rotates heads at positions [T] or [B, T].

    Rotary positions (Su et al. 2021) rotate n = H / 2 pairs of values. The angle of pair i at
    position p is p / (divisor x base^(i/n)). The factors are float32 [T, 1, 2 x H] or
    [B, T, 1, 2 x H]: the cosines twice, the negated sines and the sines, n values each.
    """
    num_pairs = head_size // 2
    exponents = np.arange(num_pairs, dtype="float32") / num_pairs
    frequencies = (1.0 / base**exponents).astype("float32") / np.float32(divisor)
    angles = ops.expand_dims(ops.cast(positions, "float32"), (-2, -1)) * frequencies
    cosines, sines = ops.cos(angles), ops.sin(angles)
    return ops.concatenate([cosines, cosines, -sines, sines], axis=-1)


def rotate(x_BTNH: Tensor, factors: Tensor):
    """Rotates each pair (i, i + H / 2) of the last axis, in float32 or wider."""
    x = ops.cast(x_BTNH, keras.backend.result_type(x_BTNH.dtype, "float32"))
    cosines, sines = ops.split(ops.cast(factors, x.dtype), 2, axis=-1)
    first, second = ops.split(x, 2, axis=-1)
    swapped = ops.concatenate([second, first], axis=-1)
    return ops.cast(x * cosines + swapped * sines, x_BTNH.dtype)


def align_distances(x: Tensor, length: Any):
    """Maps [..., T, 2 x T], values of a token for the distances 1 - T to T, to [..., T, T].

    The result at (q, k) is the value of token q for the distance k - q. With rows of 2 x T values,
    it is at the index T - 1 + (2 x T - 1) q + k, so that no gather is needed.
    """
    rows, width = ops.shape(x)[:-2], 2 * length - 1
    flat = ops.reshape(x, (*rows, length * (width + 1)))
    flat = flat[..., length - 1 : length - 1 + length * width]
    return ops.reshape(flat, (*rows, length, width))[..., :length]


@keras.saving.register_keras_serializable(package="bert_keras")
class SelfAttention(BertLayer):
    """Multi-head scaled dot-product attention (Vaswani et al. 2017, section 3.2.2).

    If the pattern has relative embeddings, attention is disentangled (He et al. 2021, section 3.1,
    with the shared projections of version 3): the score of a query and a key is the sum of three
    products, of query and key, of query and projected distance, and of key and projected distance.

    Under every dtype policy, the sum of scores and bias, the softmax and the probabilities are
    float32 or wider.

    Args:
        num_heads: The number of attention heads, which divides D.
        dropout_rate: The dropout rate of the attention probabilities.

    Call arguments:
        hidden: Hidden states [X, D] of all B x T positions in row-major order, or, if
            `pattern.tokens` is set, of these tokens only.
        pattern: Which tokens attend to which tokens.

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
        bias, embeddings = pattern.bias, pattern.relative_embeddings
        projections = self._project(hidden, (-1, ops.shape(bias)[-1]), pattern)
        query, key, value = map(self._swap_heads, projections)
        num_products = 1 if embeddings is None else 3
        scale = 1.0 / math.sqrt(num_products * query.shape[-1])
        if embeddings is not None:
            bias = bias + self._distance_scores(query, key, embeddings, scale=scale)
        context, probabilities = self._attend(query * scale, key, value, bias, training=training)
        return self._swap_heads(context), probabilities

    def _distance_scores(self, query_BNTH, key_BNTH, embeddings, *, scale):
        """Returns the scores [B, N, T, T] of the distances; see the class."""
        length, head_size = ops.shape(query_BNTH)[2], query_BNTH.shape[-1]

        def score(x_BNTH, dense, embeddings):
            projected = ops.reshape(dense(embeddings), (-1, self.num_heads, head_size))
            projected = ops.transpose(projected, (1, 2, 0)) * scale
            return align_distances(ops.matmul(x_BNTH, projected), length)

        # The embeddings belong to the distances query - key from -T to T. `align_distances` takes
        # 1 - T to T, of key - query for the queries and of query - key for the keys.
        of_queries = score(query_BNTH, self.key_dense, ops.flip(embeddings, axis=0)[1:])
        of_keys = score(key_BNTH, self.query_dense, embeddings[1:])
        return of_queries + ops.transpose(of_keys, (0, 1, 3, 2))

    def _swap_heads(self, x) -> Any:
        """Transposes [B, T, N, H] to [B, N, T, H], and back."""
        # On a CPU, TensorFlow transposes float32 with oneDNN, which is slow for few tokens, but
        # float64 without it. So two float32 values are transposed as one float64 value.
        bits = int(keras.backend.standardize_dtype(x.dtype)[-2:])  # "float32" -> 32
        can_view_as_double = x.shape[-1] * bits % 64 == 0
        is_on_cpu = not (IS_JAX or keras.distribution.list_devices("gpu"))
        if can_view_as_double and is_on_cpu and not self.only_basic_ops:
            return _swap_as_doubles(x)
        return ops.transpose(x, (0, 2, 1, 3))

    def _attend_in_blocks(self, hidden, pattern, *, training):
        num_blocks, batch, _, block_size, _ = ops.shape(pattern.bias)
        # T is not in the shape of the bias, whose last block may be longer than the row.
        if pattern.rotation is not None:
            length = ops.shape(pattern.rotation)[-3]  # of [T, 1, 2 x H] or [B, T, 1, 2 x H]
        else:
            per_position = hidden if pattern.tokens is None else pattern.tokens.token_index
            num_positions = ops.shape(per_position)[0]  # B x T
            maximum = max if isinstance(batch, int) else ops.maximum
            length = num_positions // maximum(batch, 1)  # the batch may be empty
        query_BTNH, key_BTNH, value_BTNH = self._project(hidden, (batch, length), pattern)

        def merge_blocks(x_MBNQH):  # with four dimensions, oneDNN fuses scale, product and bias
            return ops.reshape(x_MBNQH, (-1, *ops.shape(x_MBNQH)[2:]))

        query_BTNH = query_BTNH * (1.0 / math.sqrt(query_BTNH.shape[-1]))
        context_ANQH, probabilities = self._attend(
            merge_blocks(split_blocks(query_BTNH, block_size, num_blocks)),
            merge_blocks(split_blocks_with_neighbours(key_BTNH, block_size, num_blocks)),
            merge_blocks(split_blocks_with_neighbours(value_BTNH, block_size, num_blocks)),
            merge_blocks(pattern.bias),
            training=training,
        )
        context_MBNQH = ops.reshape(context_ANQH, (num_blocks, batch, *ops.shape(context_ANQH)[1:]))
        context_BMQNH = ops.transpose(context_MBNQH, (1, 0, 3, 2, 4))
        padded_length = num_blocks * block_size
        context_BTD = ops.reshape(context_BMQNH, (batch, padded_length, hidden.shape[-1]))
        return context_BTD[:, :length], probabilities

    def _attend_in_kernel(self, hidden, pattern):
        from bert_keras.layers.jax_kernels import attention, draw_dropout

        projections = self._project(hidden, (-1, pattern.bias.shape[-1]), pattern)
        query_BTNH, key_BTNH, value_BTNH = (ops.cast(x, self.compute_dtype) for x in projections)
        rate, random_key = draw_dropout(self.dropout)
        context_BTNH = attention(query_BTNH, key_BTNH, value_BTNH, pattern.bias, random_key, rate)
        return self.output_dense(ops.reshape(context_BTNH, hidden.shape))

    def _project(self, hidden, batch_and_length, pattern):
        """Returns query, key and value [B, T, N, H]."""
        head_size = hidden.shape[-1] // self.num_heads

        def project(dense):
            x_XD = dense(hidden)
            if pattern.tokens is not None:
                x_XD = ops.take(x_XD, pattern.tokens.token_index, axis=0)
            return ops.reshape(x_XD, (*batch_and_length, self.num_heads, head_size))

        query, key, value = map(project, (self.query_dense, self.key_dense, self.value_dense))
        if pattern.rotation is None:
            return query, key, value
        return rotate(query, pattern.rotation), rotate(key, pattern.rotation), value

    def _attend(self, query_BNTH, key_BNTH, value_BNTH, bias, *, training):
        """Returns context and probabilities; in blocks, B is A, and T is Q or (keys) 3 x Q.

        The queries are scaled. With the scale before the product, oneDNN fuses scale, product and
        bias.
        """
        precise = keras.backend.result_type(self.compute_dtype, "float32")
        scores_BNTT = ops.matmul(query_BNTH, ops.transpose(key_BNTH, (0, 1, 3, 2)))
        probabilities_BNTT = softmax(ops.cast(scores_BNTT, precise) + ops.cast(bias, precise))
        weights_BNTT = ops.cast(probabilities_BNTT, self.compute_dtype)
        weights_BNTT = self.dropout(weights_BNTT, training=training)
        return ops.matmul(weights_BNTT, value_BNTH), probabilities_BNTT


@ops.custom_gradient
def _swap_as_doubles(x):
    # Not as int64: TensorFlow tries oneDNN for integers too, and logs an error.
    def swap(x):
        return ops.view(ops.transpose(ops.view(x, "float64"), (0, 2, 1, 3)), x.dtype)

    return swap(x), swap  # the gradient of a transposition is the inverse one, here the same
