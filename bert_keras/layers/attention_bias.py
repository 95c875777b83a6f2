"""input_mask or sequence_ids in, the terms that keep attention where it belongs out."""

from keras import ops

# Added to the scores of padding, as in the original modeling.py: exp(-10000) is 0 in float32.
PADDING_SCORE = -10_000.0


def attention_bias(input_mask_BT, *, dtype: str):
    """[B, T], 1 = real and 0 = padding  ->  [B, 1, 1, T] to add to attention scores."""
    # Not [:, None, None, :], which LiteRT does not have where batch and length are open.
    real = ops.expand_dims(ops.cast(input_mask_BT, dtype), (1, 2))
    return (1.0 - real) * PADDING_SCORE


def apart_bias(sequence_ids_BT, *, dtype: str):
    """[B, T], numbers of the sequences that share a row  ->  [B, 1, T, T]: each sees itself alone.

    Padding, numbered 0, sees padding, so that every row of probabilities sums to 1.
    """
    same = ops.equal(sequence_ids_BT[:, None, :, None], sequence_ids_BT[:, None, None, :])
    return (1.0 - ops.cast(same, dtype)) * PADDING_SCORE


def causal_bias(length, *, dtype: str):
    """[1, 1, T, T], to add to one of the others: each position sees itself and those before it."""
    places_T = ops.arange(length)
    later_TT = ops.less(ops.expand_dims(places_T, 1), places_T)
    return ops.expand_dims(ops.cast(later_TT, dtype), (0, 1)) * PADDING_SCORE
