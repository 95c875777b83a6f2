"""Dropout and GELU under JAX in forms that XLA computes again for the gradient, and does not store.

Import this module only if `keras.backend.backend()` is "jax".
"""

import math

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax import lax

# Two multiplications and two shifts of "prospector32" (Wellons 2018), with a key before each.
_STEP, _FIRST, _SECOND = np.uint32(0x9E3779B9), np.uint32(0x21F0AAAD), np.uint32(0x735A2D97)

KERNEL_BLOCK = 128  # tokens; the kernels compute lengths that are multiples of it


def takes_kernels(length: int, *, head_size: int, dtype: str) -> bool:
    """Returns whether `jax_kernels` computes sequences of a length: on one NVIDIA GPU."""
    return (
        jax.default_backend() == "gpu"
        and keras.distribution.distribution() is None
        and dtype in ("bfloat16", "float16")
        and length % KERNEL_BLOCK == 0
        and head_size in (32, 64)
    )


def key_of(seed):
    """Returns two independent words, uint32 [2], of the seed of one draw, uint32 [2]."""

    def mixed(word):
        word = (word ^ (word >> np.uint32(16))) * _FIRST
        word = (word ^ (word >> np.uint32(15))) * _SECOND
        return word ^ (word >> np.uint32(15))

    layer, draw = seed.astype(jnp.uint32)
    first = mixed(mixed(layer) + draw * _STEP)
    return jnp.stack([first, mixed(first ^ (layer + _STEP))])


def is_kept(index, key, rate: float):
    """Returns for each index, uint32, whether it is kept with the probability 1 - rate.

    A hash of the index, not a stream: ten integer operations that fuse with those that read the
    result. Threefry needs eighty, and its bits are stored until the gradient has read them.
    """
    bits = index * _STEP + key[0]
    bits = (bits ^ (bits >> np.uint32(16))) * _FIRST + key[1]
    bits = (bits ^ (bits >> np.uint32(15))) * _SECOND
    return bits >= np.uint32(min(round(rate * 2**32), 2**32 - 1))


def dropped(inputs, seed, rate: float):
    """Returns the inputs with dropout; `seed` is uint32 [2], another one for each draw.

    From 2^32 elements on, the draws repeat.
    """
    index, stride = jnp.zeros(inputs.shape, jnp.uint32), 1
    for axis in reversed(range(inputs.ndim)):
        along_axis = lax.broadcasted_iota(jnp.uint32, inputs.shape, axis)
        index = index + along_axis * np.uint32(stride % 2**32)
        stride *= inputs.shape[axis]
    scale = jnp.where(is_kept(index, key_of(seed), rate), 1 / (1 - rate), 0)
    return inputs * scale.astype(inputs.dtype)


@jax.custom_vjp
def gelu(x):
    """Computes GELU of bfloat16 or float16 in float32. Only x is kept for the gradient."""
    return _in_wide(lambda x: x * _probability(x), x)


def _probability(x):
    return 0.5 * (1 + lax.erf(x * math.sqrt(0.5)))


def _derivative(x, upstream):
    density = jnp.exp(-0.5 * jnp.square(x)) * (1 / math.sqrt(2 * math.pi))
    return upstream * (_probability(x) + x * density)


def _in_wide(function, *arrays):
    dtype = arrays[0].dtype
    wide = jnp.promote_types(dtype, jnp.float32)
    return function(*(array.astype(wide) for array in arrays)).astype(dtype)


gelu.defvjp(lambda x: (gelu(x), x), lambda x, upstream: (_in_wide(_derivative, x, upstream),))
