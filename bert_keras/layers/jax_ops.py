"""Dropout and GELU with JAX, which XLA recomputes for the gradient instead of storing them.

Import this module only if `keras.backend.backend()` is "jax".
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax import Array, lax

# Constants of a hash function for integers, "prospector32" (Wellons 2018): the factors of its two
# multiplications, and the distance of two inputs.
_FIRST, _SECOND, _STEP = np.uint32(0x21F0AAAD), np.uint32(0x735A2D97), np.uint32(0x9E3779B9)

KERNEL_BLOCK = 128  # tokens; the kernels compute lengths that are multiples of it


def takes_kernels(length: int, *, head_size: int, dtype: str) -> bool:
    """Returns whether the kernels support rows of `length` tokens; they need one NVIDIA GPU."""
    return (
        jax.default_backend() == "gpu"
        and keras.distribution.distribution() is None
        and dtype in ("bfloat16", "float16")
        and length % KERNEL_BLOCK == 0
        and head_size in (32, 64)
    )


def key_of(seed: Array):
    """Hashes the seed of one draw (uint32 [2]) to two independent words (uint32 [2])."""

    def mix(word):
        word = (word ^ (word >> np.uint32(16))) * _FIRST
        word = (word ^ (word >> np.uint32(15))) * _SECOND
        return word ^ (word >> np.uint32(15))

    layer, draw = seed.astype(jnp.uint32)
    first = mix(mix(layer) + draw * _STEP)
    return jnp.stack([first, mix(first ^ (layer + _STEP))])


def is_kept(index: Array, key: Any, rate: float):
    """Returns whether to keep the value at each index (uint32), with the probability 1 - rate.

    It hashes the index in ten integer operations, which fuse with the operations that read the
    result. Threefry needs eighty, and stores its bits until the gradient has read them.
    """
    bits = index * _STEP + key[0]
    bits = (bits ^ (bits >> np.uint32(16))) * _FIRST + key[1]
    bits = (bits ^ (bits >> np.uint32(15))) * _SECOND
    return bits >= np.uint32(min(round(rate * 2**32), 2**32 - 1))


def drop(inputs: Array, seed: Array, rate: float):
    """Applies dropout with a new `seed` (uint32 [2]) each time; repeats after 2^32 values."""
    index, stride = jnp.zeros(inputs.shape, jnp.uint32), 1
    for axis in reversed(range(inputs.ndim)):
        along_axis = lax.broadcasted_iota(jnp.uint32, inputs.shape, axis)
        index = index + along_axis * np.uint32(stride % 2**32)
        stride *= inputs.shape[axis]
    scale = jnp.where(is_kept(index, key_of(seed), rate), 1 / (1 - rate), 0)
    return inputs * scale.astype(inputs.dtype)


@jax.custom_vjp
def gelu(x: Array):
    """Computes GELU of bfloat16 or float16 in float32. Only x is kept for the gradient."""
    wide = _widen(x)
    return (wide * _normal_cdf(wide)).astype(x.dtype)


def _gelu_gradient(x, upstream):
    wide = _widen(x)
    density = jnp.exp(-0.5 * jnp.square(wide)) * (1 / math.sqrt(2 * math.pi))
    gradient = _widen(upstream) * (_normal_cdf(wide) + wide * density)
    return (gradient.astype(x.dtype),)


def _normal_cdf(x):
    return 0.5 * (1 + lax.erf(x * math.sqrt(0.5)))


def _widen(x):
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


gelu.defvjp(lambda x: (gelu(x), x), _gelu_gradient)
