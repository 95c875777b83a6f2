"""Kernels for a GPU with JAX: multi-head attention, and LayerNorm(residual + dropout(x)).

They keep scores, probabilities and dropout masks in registers (Dao et al. 2022), and recompute them
for the gradient. On a CPU, they run in Pallas' interpreter, which is for tests. Import this
module only if `jax_ops.takes_kernels` returns True.

A program of a kernel computes one block of rows; its arguments, the refs, are the blocks of arrays
in memory. `lse` is the logarithm of the sum of the exponentials of a query's scores, in base 2.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax import Array, lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from bert_keras.layers.jax_ops import KERNEL_BLOCK, is_kept, key_of

_LOG2_E = math.log2(math.e)  # a factor of the scores, because the kernels compute exp2


def draw_dropout(dropout: keras.layers.Dropout) -> tuple[float, Array]:
    """Returns the rate of a dropout layer and a new random key."""
    if not dropout.rate:
        return 0.0, jnp.zeros((2,), jnp.uint32)
    return dropout.rate, key_of(dropout.seed_generator.next())


def _kept(shape, *first, width: int, key, rate: float):
    """Returns which elements of a block to keep; `first` is the row and column of its start."""
    rows, columns = (
        lax.broadcasted_iota(jnp.uint32, shape, axis) + jnp.asarray(index).astype(jnp.uint32)
        for axis, index in enumerate(first)
    )
    return is_kept(rows * np.uint32(width) + columns, key, rate)


def _call_kernel(kernel, name, *, arrays, outputs, warps=8, stages=1, **options):
    """Calls a kernel; `outputs` are pairs of a block and the shape and dtype of the array."""
    return pl.pallas_call(
        kernel,
        out_specs=[block for block, _ in outputs],
        out_shape=[jax.ShapeDtypeStruct(*array) for _, array in outputs],
        compiler_params=triton.CompilerParams(num_warps=warps, num_stages=stages),
        interpret=jax.default_backend() == "cpu",
        name=name,
        **options,
    )(*arrays)


def _scores(query, key, bias, scale):
    return triton.dot(query, key.T) * (scale * _LOG2_E) + bias.astype(jnp.float32)[None] * _LOG2_E


def _attention(  # noqa: PLR0913 - one for each array
    random_ref, query_ref, keys_ref, values_ref, bias_ref, out_ref, lse_ref, *, rate, size
):
    rows, head_size = query_ref.shape
    length, query = keys_ref.shape[0], query_ref[...]
    batch, head, block = (pl.program_id(axis) for axis in range(3))
    first_row = (batch * pl.num_programs(1) + head) * length + block * rows
    key, scale = (random_ref[0], random_ref[1]), 1 / math.sqrt(head_size)

    def body(index, carry):
        context, highest, total = carry
        part = pl.dslice(index * size, size)
        scores = _scores(query, keys_ref[part, :], bias_ref[part], scale)
        higher = jnp.maximum(highest, scores.max(-1))
        shrink, weights = jnp.exp2(highest - higher), jnp.exp2(scores - higher[:, None])
        total = total * shrink + weights.sum(-1)
        if rate:
            kept = _kept(scores.shape, first_row, index * size, width=length, key=key, rate=rate)
            weights = jnp.where(kept, weights, 0.0)
        values = values_ref[part, :]
        context = context * shrink[:, None] + triton.dot(weights.astype(values.dtype), values)
        return context, higher, total

    start = jnp.zeros((rows, head_size)), jnp.full((rows,), -jnp.inf), jnp.zeros((rows,))
    context, highest, total = lax.fori_loop(0, length // size, body, start)
    out_ref[...] = (context / (total * (1 - rate))[:, None]).astype(out_ref.dtype)
    lse_ref[...] = highest + jnp.log2(total)


def _attention_gradient(*refs, rate):
    """Computes the gradients of the keys, values and queries of one block of tokens."""
    random_ref, query_ref, keys_ref, values_ref, bias_ref, out_ref, upstream_ref, lse_ref = refs[:8]
    query_grad_ref, key_grad_ref, value_grad_ref = refs[8:]
    length, head_size = query_ref.shape
    batch, head, block = (pl.program_id(axis) for axis in range(3))
    first_row = (batch * pl.num_programs(1) + head) * length
    own, scale, keep = block * KERNEL_BLOCK, 1 / math.sqrt(head_size), 1 / (1 - rate)
    key = (random_ref[0], random_ref[1])

    def gradients(row, column):
        """Returns queries, upstream gradients, probabilities and the gradients of scores."""
        rows, columns = pl.dslice(row, KERNEL_BLOCK), pl.dslice(column, KERNEL_BLOCK)
        query, upstream = query_ref[rows, :], upstream_ref[rows, :]
        context = out_ref[rows, :].astype(jnp.float32)
        mean = (upstream.astype(jnp.float32) * context).sum(-1)[:, None]
        scores = _scores(query, keys_ref[columns, :], bias_ref[columns], scale)
        weights = jnp.exp2(scores - lse_ref[rows][:, None])
        grad = triton.dot(upstream, values_ref[columns, :].T)
        dropped = weights
        if rate:
            kept = _kept(grad.shape, first_row + row, column, width=length, key=key, rate=rate)
            dropped, grad = (jnp.where(kept, array * keep, 0.0) for array in (weights, grad))
        grad = weights * (grad - mean) * scale
        return query, upstream, dropped.astype(query.dtype), grad.astype(query.dtype)

    def add_key_gradients(index, carry):
        key_grad, value_grad = carry
        query, upstream, dropped, grad = gradients(index * KERNEL_BLOCK, own)
        if length == KERNEL_BLOCK:
            query_grad = triton.dot(grad, keys_ref[pl.dslice(0, KERNEL_BLOCK), :])
            query_grad_ref[...] = query_grad.astype(query_grad_ref.dtype)
        return key_grad + triton.dot(grad.T, query), value_grad + triton.dot(dropped.T, upstream)

    def add_query_gradients(index, query_grad):
        column = index * KERNEL_BLOCK
        *_, grad = gradients(own, column)
        return query_grad + triton.dot(grad, keys_ref[pl.dslice(column, KERNEL_BLOCK), :])

    zeros, count = jnp.zeros((KERNEL_BLOCK, head_size)), length // KERNEL_BLOCK
    key_grad, value_grad = lax.fori_loop(0, count, add_key_gradients, (zeros, zeros))
    key_grad_ref[...] = key_grad.astype(key_grad_ref.dtype)
    value_grad_ref[...] = value_grad.astype(value_grad_ref.dtype)
    if length > KERNEL_BLOCK:
        query_grad = lax.fori_loop(0, count, add_query_gradients, zeros)
        query_grad_ref[...] = query_grad.astype(query_grad_ref.dtype)


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def attention(query: Array, key: Array, value: Array, bias: Array, random_key: Array, rate: float):
    """Computes the context [B, T, N, H] of multi-head attention.

    Args:
        query: [B, T, N, H], like key and value; T is a multiple of 128.
        bias: [B, T], which is added to the scores of all queries.
        random_key, rate: The key, uint32 [2], and the rate of the dropout, from `draw_dropout`.
    """
    return _attention_forward(query, key, value, bias, random_key, rate)[0]


def _attention_blocks(shape, rows):
    """Returns the blocks of the random key, `rows` tokens, all tokens and the bias of a head."""
    _, length, _, head_size = shape
    return (
        pl.BlockSpec((2,), lambda batch, head, block: (0,)),
        pl.BlockSpec((None, rows, None, head_size), lambda b, head, block: (b, block, head, 0)),
        pl.BlockSpec((None, length, None, head_size), lambda b, head, block: (b, 0, head, 0)),
        pl.BlockSpec((None, length), lambda b, head, block: (b, 0)),
    )


def _attention_forward(query, key, value, bias, random_key, rate):
    batch, length, heads, _ = shape = query.shape
    rows = 64 if length == KERNEL_BLOCK else KERNEL_BLOCK
    random, part, whole, line = _attention_blocks(shape, rows)
    lse = pl.BlockSpec((None, None, rows), lambda b, head, block: (b, head, block))
    context, lse = _call_kernel(
        partial(_attention, rate=rate, size=64),
        "attention",
        grid=(batch, heads, length // rows),
        in_specs=[random, part, whole, whole, line],
        outputs=[(part, (shape, query.dtype)), (lse, ((batch, heads, length), jnp.float32))],
        warps=4,
        stages=2,
        arrays=(random_key, query, key, value, bias),
    )
    return context, (query, key, value, bias, random_key, context, lse)


def _attention_backward(rate, kept, upstream):
    query, key, value, bias, random_key, context, lse = kept
    batch, length, heads, _ = shape = query.shape
    random, part, whole, line = _attention_blocks(shape, KERNEL_BLOCK)
    row = pl.BlockSpec((None, None, length), lambda b, head, block: (b, head, 0))
    gradients = _call_kernel(
        partial(_attention_gradient, rate=rate),
        "attention_gradient",
        grid=(batch, heads, length // KERNEL_BLOCK),
        in_specs=[random, whole, whole, whole, line, whole, whole, row],
        outputs=3 * [(part, (shape, query.dtype))],
        stages=1,  # two stages in blocks of 64 give wrong gradients on an H100 with JAX 0.11.2
        arrays=(random_key, query, key, value, bias, context, upstream, lse),
    )
    return *gradients, None, None


attention.defvjp(_attention_forward, _attention_backward)


def _columns(size, rows):
    """Returns a slice of 2^n columns, and masks [columns] and [rows, columns] of those used."""
    width = 1 << (size - 1).bit_length()
    used = jnp.arange(width) < size
    return pl.dslice(0, width), used, jnp.broadcast_to(used, (rows, width))


def _load(ref, *index, mask):
    return triton.load(ref.at[index], mask=mask, other=0.0).astype(jnp.float32)


def _norm(  # noqa: PLR0913 - one for each array
    random_ref, x_ref, residual_ref, gamma_ref, beta_ref, out_ref, sum_ref, *stats, rate, eps
):
    rows, size = x_ref.shape
    columns, used, mask = _columns(size, rows)
    x, residual = (_load(ref, slice(None), columns, mask=mask) for ref in (x_ref, residual_ref))
    if rate:
        first, key = pl.program_id(0) * rows, (random_ref[0], random_ref[1])
        kept = _kept(x.shape, first, 0, width=size, key=key, rate=rate)
        x = jnp.where(kept, x * (1 / (1 - rate)), 0.0)
    total = (residual + x).astype(sum_ref.dtype)
    triton.store(sum_ref.at[:, columns], total, mask=mask)
    total = total.astype(jnp.float32)
    mean = total.sum(-1) / size
    centred = jnp.where(mask, total - mean[:, None], 0.0)
    scale = lax.rsqrt(jnp.square(centred).sum(-1) / size + eps)
    gamma, beta = (_load(ref, columns, mask=used)[None] for ref in (gamma_ref, beta_ref))
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
    gamma = _load(gamma_ref, columns, mask=used)[None]
    start = pl.program_id(0) * all_rows

    def body(index, carry):
        gamma_grad, beta_grad = carry
        part = pl.dslice(index * rows, rows)
        upstream, total = (_load(ref, part, columns, mask=mask) for ref in (up_ref, sum_ref))
        scale = scale_ref[part][:, None]
        normed = jnp.where(mask, (total - mean_ref[part][:, None]) * scale, 0.0)
        scaled = upstream * gamma
        means = ((values.sum(-1) / size)[:, None] for values in (scaled, scaled * normed))
        grad = scale * (scaled - next(means) - normed * next(means))
        triton.store(residual_ref.at[part, columns], grad.astype(residual_ref.dtype), mask=mask)
        if rate:
            first, key = start + index * rows, (random_ref[0], random_ref[1])
            kept = _kept(grad.shape, first, 0, width=size, key=key, rate=rate)
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
        x: [X, D], like the residual; X is a multiple of 128.
        gamma: The factors of LayerNorm, float32 [D].
        beta: The addends of LayerNorm, float32 [D].
        random_key, rate: As in `attention`.
    """
    return _norm_forward(x, residual, gamma, beta, random_key, rate, epsilon)[0]


def _rows(size, *, elements):
    """Returns the number of rows in a block (a power of two)."""
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
    out, total, *stats = _call_kernel(
        partial(_norm, rate=rate, eps=epsilon),
        "dropout_add_norm",
        grid=(count // rows,),
        in_specs=[random, block, block, line, line],
        outputs=2 * [(block, (x.shape, x.dtype))] + 2 * [(stat, ((count,), jnp.float32))],
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
    residual, x, gammas, betas = _call_kernel(
        partial(_norm_gradient, rate=rate, rows=rows),
        "dropout_add_norm_gradient",
        grid=(programs,),
        in_specs=[random, block, block, stat, stat, line],
        outputs=2 * [(block, (upstream.shape, upstream.dtype))]
        + 2 * [(sums, ((programs, size), jnp.float32))],
        arrays=(random_key, upstream, total, mean, scale, gamma),
    )
    return x, residual, gammas.sum(0), betas.sum(0), None


dropout_add_norm.defvjp(_norm_forward, _norm_backward)
