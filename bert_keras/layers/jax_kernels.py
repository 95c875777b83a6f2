"""Kernels for a GPU with JAX: how they are called, and LayerNorm(residual + dropout(x)) as one.

The gradient draws dropout again. On a CPU, kernels run in Pallas' interpreter, which is for tests.
Import this module only if `jax_ops.takes_kernels` returns True.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from bert_keras.layers.jax_ops import KERNEL_BLOCK, is_kept, key_of


def draw_dropout(dropout: Any) -> tuple[float, Array]:
    """Returns the rate of a dropout layer and a new random key."""
    if not dropout.rate:
        return 0.0, jnp.zeros((2,), jnp.uint32)
    return dropout.rate, key_of(dropout.seed_generator.next())


def _uint32(value):
    return jnp.asarray(value).astype(jnp.uint32)


def kept_elements(
    first_row: Any, first_column: Any, shape: tuple, *, width: int, key: Any, rate: float
):
    """Returns whether to keep each element of a block of an array.

    Args:
        first_row: The row of the array in which the block starts.
        first_column: The column in which it starts.
        shape: The shape of the block.
        width: The number of columns of the array.
        key: The two words of the random key.
        rate: The dropout rate.
    """
    rows = lax.broadcasted_iota(jnp.uint32, shape, 0) + _uint32(first_row)
    columns = lax.broadcasted_iota(jnp.uint32, shape, 1) + _uint32(first_column)
    return is_kept(rows * np.uint32(width) + columns, key, rate)


def call_kernel(
    kernel: Callable, name: str, *, arrays: tuple, outputs: list, warps: int, stages: int, **options
):
    """Calls a kernel.

    Args:
        kernel: The function that computes a block.
        name: The name of the kernel in profiles.
        arrays: The inputs.
        outputs: For each output its block, and its shape and dtype.
        warps: The number of warps of a program.
        stages: The number of stages of a loop.
        **options: The options `grid` and `in_specs` of `pl.pallas_call`.
    """
    return pl.pallas_call(
        kernel,
        out_specs=[block for block, _ in outputs],
        out_shape=[jax.ShapeDtypeStruct(*array) for _, array in outputs],
        compiler_params=triton.CompilerParams(num_warps=warps, num_stages=stages),
        interpret=jax.default_backend() == "cpu",
        name=name,
        **options,
    )(*arrays)


def _columns(size, rows):
    """Returns the columns of a block, a power of two, and whether each of them is used."""
    width = 1 << (size - 1).bit_length()
    used = jnp.arange(width) < size
    return pl.dslice(0, width), used, jnp.broadcast_to(used, (rows, width))


def _norm(  # noqa: PLR0913 - one for each array
    random_ref, x_ref, residual_ref, gamma_ref, beta_ref, out_ref, sum_ref, *stats, rate, eps
):
    rows, size = x_ref.shape
    columns, used, mask = _columns(size, rows)
    x, residual = (
        triton.load(ref.at[:, columns], mask=mask, other=0.0).astype(jnp.float32)
        for ref in (x_ref, residual_ref)
    )
    if rate:
        first, key = pl.program_id(0) * rows, (random_ref[0], random_ref[1])
        kept = kept_elements(first, 0, x.shape, width=size, key=key, rate=rate)
        x = jnp.where(kept, x * (1 / (1 - rate)), 0.0)
    total = (residual + x).astype(sum_ref.dtype)
    triton.store(sum_ref.at[:, columns], total, mask=mask)
    total = total.astype(jnp.float32)
    mean = total.sum(-1) / size
    centred = jnp.where(mask, total - mean[:, None], 0.0)
    scale = lax.rsqrt(jnp.square(centred).sum(-1) / size + eps)
    gamma, beta = (
        triton.load(ref.at[columns], mask=used, other=0.0)[None] for ref in (gamma_ref, beta_ref)
    )
    out = centred * scale[:, None] * gamma + beta
    triton.store(out_ref.at[:, columns], out.astype(out_ref.dtype), mask=mask)
    for ref, values in zip(stats, (mean, scale), strict=True):
        ref[...] = values


def _norm_gradient(  # noqa: PLR0913 - one for each array
    random_ref, up_ref, sum_ref, mean_ref, scale_ref, gamma_ref, *outputs, rate, rows
):
    residual_ref, x_ref, gamma_grad_ref, beta_grad_ref = outputs
    all_rows, size = up_ref.shape
    columns, used, mask = _columns(size, rows)
    gamma = triton.load(gamma_ref.at[columns], mask=used, other=0.0)[None]
    start = pl.program_id(0) * all_rows

    def body(index, carry):
        gamma_grad, beta_grad = carry
        part = pl.dslice(index * rows, rows)
        upstream, total = (
            triton.load(ref.at[part, columns], mask=mask, other=0.0).astype(jnp.float32)
            for ref in (up_ref, sum_ref)
        )
        scale = scale_ref[part][:, None]
        normed = jnp.where(mask, (total - mean_ref[part][:, None]) * scale, 0.0)
        scaled = upstream * gamma
        means = ((values.sum(-1) / size)[:, None] for values in (scaled, scaled * normed))
        grad = scale * (scaled - next(means) - normed * next(means))
        triton.store(residual_ref.at[part, columns], grad.astype(residual_ref.dtype), mask=mask)
        if rate:
            key = (random_ref[0], random_ref[1])
            kept = kept_elements(
                start + index * rows, 0, grad.shape, width=size, key=key, rate=rate
            )
            grad = jnp.where(kept, grad * (1 / (1 - rate)), 0.0)
        triton.store(x_ref.at[part, columns], grad.astype(x_ref.dtype), mask=mask)
        return gamma_grad + (upstream * normed).sum(0), beta_grad + upstream.sum(0)

    zeros = jnp.zeros(mask.shape[1:])
    sums = lax.fori_loop(0, all_rows // rows, body, (zeros, zeros))
    for ref, values in zip((gamma_grad_ref, beta_grad_ref), sums, strict=True):
        triton.store(ref.at[columns], values, mask=used)


@partial(jax.custom_vjp, nondiff_argnums=(5, 6))
def dropout_add_norm(
    x: Array,
    residual: Array,
    gamma: Array,
    beta: Array,
    random_key: Array,
    rate: float,
    epsilon: float,
):
    """Computes LayerNorm(residual + dropout(x)), [X, D].

    Args:
        x: [X, D], where X is a multiple of 128.
        residual: [X, D].
        gamma: Float32 [D].
        beta: Float32 [D].
        random_key: The result of `jax_ops.key_of`.
        rate: The dropout rate.
        epsilon: The number that LayerNorm adds to the variance.
    """
    return _norm_forward(x, residual, gamma, beta, random_key, rate, epsilon)[0]


def _rows(size, *, elements):
    """Returns how many rows a block has, a power of two."""
    return max(1, min(KERNEL_BLOCK, elements >> (size - 1).bit_length()))


def _norm_blocks(size, rows):
    return (
        pl.BlockSpec((2,), lambda block: (0,)),
        pl.BlockSpec((rows, size), lambda block: (block, 0)),
        pl.BlockSpec((size,), lambda block: (0,)),
        pl.BlockSpec((rows,), lambda block: (block,)),
    )


def _norm_forward(x, residual, gamma, beta, random_key, rate, epsilon):
    count, size = x.shape
    rows = _rows(size, elements=8192)
    random, block, line, stat = _norm_blocks(size, rows)
    out, total, *stats = call_kernel(
        partial(_norm, rate=rate, eps=epsilon),
        "dropout_add_norm",
        grid=(count // rows,),
        in_specs=[random, block, block, line, line],
        outputs=2 * [(block, (x.shape, x.dtype))] + 2 * [(stat, ((count,), jnp.float32))],
        warps=8,
        stages=1,
        arrays=(random_key, x, residual, gamma, beta),
    )
    return out, (total, *stats, gamma, random_key)


def _norm_backward(rate, epsilon, kept, upstream):
    total, mean, scale, gamma, random_key = kept
    count, size = upstream.shape
    rows = _rows(size, elements=4096)
    programs = math.gcd(count // rows, 512)
    random, block, line, stat = _norm_blocks(size, count // programs)
    sums = pl.BlockSpec((None, size), lambda block: (block, 0))
    residual, x, gammas, betas = call_kernel(
        partial(_norm_gradient, rate=rate, rows=rows),
        "dropout_add_norm_gradient",
        grid=(programs,),
        in_specs=[random, block, block, stat, stat, line],
        outputs=2 * [(block, (upstream.shape, upstream.dtype))]
        + 2 * [(sums, ((programs, size), jnp.float32))],
        warps=8,
        stages=1,
        arrays=(random_key, upstream, total, mean, scale, gamma),
    )
    return x, residual, gammas.sum(0), betas.sum(0), None


dropout_add_norm.defvjp(_norm_forward, _norm_backward)
