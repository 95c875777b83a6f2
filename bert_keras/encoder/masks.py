"""input_mask in, the term that keeps attention away from padding out."""

from keras import ops

# Added to the scores of padding, as in the original modeling.py: exp(-10000) is 0 in float32.
PADDING_SCORE = -10_000.0


def attention_bias(input_mask_BT, *, dtype: str):
    """[B, T], 1 = real and 0 = padding  ->  [B, 1, 1, T] to add to attention scores."""
    real = ops.cast(input_mask_BT, dtype)[:, None, None, :]
    return (1.0 - real) * PADDING_SCORE
