"""Rotary positions: each head rotates its queries and keys by angles that grow with the position.

The score of a query and a key then depends on the distance of their positions (Su et al. 2021).
"""

import keras
import numpy as np
from keras import ops


def rotation(positions, *, head_size: int, base: float):
    """Returns the factors with which `rotated` rotates, which all blocks of a call share.

    The angle of pair i of n = head_size / 2 at position p is p / base^(i/n).

    Args:
        positions: Int [T] or [B, T].
        head_size: The size H of a head, an even number.
        base: The base of the wavelengths.

    Returns:
        Float32 [T, 1, 2 x H] or [B, T, 1, 2 x H]: the cosines of the H/2 angles twice, then their
        negated sines and their sines. Angles are float32 under every dtype policy.
    """
    half = head_size // 2
    frequencies = (1.0 / base ** (np.arange(half, dtype="float32") / half)).astype("float32")
    angles = ops.expand_dims(ops.cast(positions, "float32"), (-2, -1)) * frequencies
    cosines, sines = ops.cos(angles), ops.sin(angles)
    return ops.concatenate([cosines, cosines, -sines, sines], axis=-1)


def rotated(x_BTNH, factors):
    """Rotates each pair (i, i + H/2) of the last axis; `factors` is the output of `rotation`.

    The rotation is computed in float32 or wider.

    Returns:
        [B, T, N, H] in the dtype of the input.
    """
    x = ops.cast(x_BTNH, keras.backend.result_type(x_BTNH.dtype, "float32"))
    cosines, sines = ops.split(ops.cast(factors, x.dtype), 2, axis=-1)
    first, second = ops.split(x, 2, axis=-1)
    turned = x * cosines + ops.concatenate([second, first], axis=-1) * sines
    return ops.cast(turned, x_BTNH.dtype)
