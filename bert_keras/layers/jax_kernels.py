"""What the kernels for a GPU share: their call, and dropout that the gradient draws again.

On a processor, kernels run in the interpreter of Pallas, which is for tests.

Import this module only if `jax_ops.takes_kernels` says so.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from bert_keras.layers.jax_ops import is_kept, key_of


def draw(dropout) -> tuple[float, jax.Array]:
    """Returns the rate of a dropout layer, and a new random key."""
    if not dropout.rate:
        return 0.0, jnp.zeros((2,), jnp.uint32)
    return dropout.rate, key_of(dropout.seed_generator.next())


def _uint32(value):
    return jnp.asarray(value).astype(jnp.uint32)


def kept_elements(first_row, first_column, shape, *, width: int, key, rate: float):
    """Returns which elements of a block of an array with rows of `width` elements are kept."""
    rows = lax.broadcasted_iota(jnp.uint32, shape, 0) + _uint32(first_row)
    columns = lax.broadcasted_iota(jnp.uint32, shape, 1) + _uint32(first_column)
    return is_kept(rows * np.uint32(width) + columns, key, rate)


def call(kernel, name, *, grid, inputs, outputs, warps, stages, arrays):  # noqa: PLR0913
    """Calls a kernel; `outputs` are pairs of a block and of shape and dtype."""
    return pl.pallas_call(
        kernel,
        grid=grid,
        in_specs=inputs,
        out_specs=[block for block, _ in outputs],
        out_shape=[jax.ShapeDtypeStruct(*array) for _, array in outputs],
        compiler_params=triton.CompilerParams(num_warps=warps, num_stages=stages),
        interpret=jax.default_backend() == "cpu",
        name=name,
    )(*arrays)
