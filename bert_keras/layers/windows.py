"""Local attention: its bias, and its computation in blocks of tokens.

A token attends only to the tokens of a window, which has half of its tokens on each side. In the
masked form, the bias excludes all other tokens from a full matrix of scores [T, T]. In blocks, each
of the K blocks of C tokens has scores only for itself and for the blocks on both sides, [C, 3 x C],
so that time and memory grow with T and not with its square.
"""

from keras import ops

from bert_keras.layers.primitives import PADDING_SCORE

# A window's bias is lower than that of padding, so that padding attends to padding in its window.
FAR_SCORE = 2 * PADDING_SCORE
_LEAST_BLOCK = 32  # tokens; smaller matrix products are slow


def window_bias(length, *, window: int, dtype: str):
    """Returns the bias of local attention in the masked form.

    Args:
        length: The number of tokens T.
        window: Twice the largest distance of a token to which a token attends.
        dtype: The dtype of the result.

    Returns:
        [1, 1, T, T], to add to one of the other biases.
    """
    positions_T = ops.arange(length)
    is_far_TT = ops.abs(ops.expand_dims(positions_T, 1) - positions_T) > window // 2
    return ops.expand_dims(ops.cast(is_far_TT, dtype), (0, 1)) * FAR_SCORE


def pays_in_blocks(length, *, window: int) -> bool:
    """Returns whether blocks have fewer scores than the masked form, or the length is unknown."""
    return not isinstance(length, int) or length > 3 * max(window // 2, _LEAST_BLOCK)


def block_bias(tokens_BT, *, window: int, is_packed: bool, is_causal: bool, dtype: str):
    """Returns the attention bias of local attention in blocks.

    It has the values of the masked form, the sum of `window_bias` and of the biases of padding,
    packed rows and later tokens.

    Args:
        tokens_BT: [B, T], the number of the sequence of each token if the rows are packed,
            otherwise 1 for a token and 0 for padding.
        window: Twice the largest distance of a token to which a token attends.
        is_packed: Whether a token attends only to tokens with the same number.
        is_causal: Whether a token attends only to itself and to earlier tokens.
        dtype: The dtype of the result.

    Returns:
        [K, B, 1, C, 3 x C].
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
    """Divides positions as `blocks` does; each block includes those on both sides.

    Returns:
        [K, B, N, 3 x C, H]; 0 before the first position and after the last one.
    """
    length = ops.shape(x_BTNH)[1]
    end = (count + 1) * size - length
    x_BTNH = ops.pad(x_BTNH, [[0, 0], [size, end], [0, 0], [0, 0]])
    x_KBNCH = blocks(x_BTNH, size, count + 2)
    return ops.concatenate([x_KBNCH[:-2], x_KBNCH[1:-1], x_KBNCH[2:]], axis=3)
