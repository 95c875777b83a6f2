"""Multi-head attention as one kernel for a GPU, with JAX.

XLA writes scores, probabilities and masks to memory and transposes the heads. This kernel keeps
them in registers (Dao et al. 2022), and computes them again for the gradient. Import this module
only if `jax_ops.takes_kernels` returns True.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from bert_keras.layers.jax_kernels import call_kernel, kept_elements
from bert_keras.layers.jax_ops import KERNEL_BLOCK

_BLOCK = KERNEL_BLOCK
_LOG2_E = math.log2(math.e)  # scores have the base 2


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
            kept = kept_elements(
                first_row, index * size, scores.shape, width=length, key=key, rate=rate
            )
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
    own, scale, keep = block * _BLOCK, 1 / math.sqrt(head_size), 1 / (1 - rate)

    def gradients(row, column):
        """Returns queries, upstream gradients, probabilities and the gradients of scores."""
        rows, columns = pl.dslice(row, _BLOCK), pl.dslice(column, _BLOCK)
        query, upstream = query_ref[rows, :], upstream_ref[rows, :]
        context = out_ref[rows, :].astype(jnp.float32)
        mean = (upstream.astype(jnp.float32) * context).sum(-1)[:, None]
        scores = _scores(query, keys_ref[columns, :], bias_ref[columns], scale)
        weights = jnp.exp2(scores - lse_ref[rows][:, None])
        grad = triton.dot(upstream, values_ref[columns, :].T)
        dropped = weights
        if rate:
            key = (random_ref[0], random_ref[1])
            kept = kept_elements(
                first_row + row, column, grad.shape, width=length, key=key, rate=rate
            )
            dropped, grad = (jnp.where(kept, array * keep, 0.0) for array in (weights, grad))
        grad = weights * (grad - mean) * scale
        return query, upstream, dropped.astype(query.dtype), grad.astype(query.dtype)

    def of_keys(index, carry):
        key_grad, value_grad = carry
        query, upstream, dropped, grad = gradients(index * _BLOCK, own)
        if length == _BLOCK:
            query_grad = triton.dot(grad, keys_ref[pl.dslice(0, _BLOCK), :])
            query_grad_ref[...] = query_grad.astype(query_grad_ref.dtype)
        return key_grad + triton.dot(grad.T, query), value_grad + triton.dot(dropped.T, upstream)

    def of_queries(index, query_grad):
        *_, grad = gradients(own, index * _BLOCK)
        return query_grad + triton.dot(grad, keys_ref[pl.dslice(index * _BLOCK, _BLOCK), :])

    zeros, count = jnp.zeros((_BLOCK, head_size)), length // _BLOCK
    key_grad, value_grad = lax.fori_loop(0, count, of_keys, (zeros, zeros))
    key_grad_ref[...] = key_grad.astype(key_grad_ref.dtype)
    value_grad_ref[...] = value_grad.astype(value_grad_ref.dtype)
    if length > _BLOCK:
        query_grad = lax.fori_loop(0, count, of_queries, zeros)
        query_grad_ref[...] = query_grad.astype(query_grad_ref.dtype)


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def attention(
    query: Array,
    key: Array,
    value: Array,
    bias: Array,
    random_key: Array,
    rate: float,
):
    """Computes the context [B, T, N, H] of multi-head attention.

    Args:
        query: [B, T, N, H], where T is a multiple of 128.
        key: [B, T, N, H].
        value: [B, T, N, H].
        bias: [B, T], which is added to the scores of all queries.
        random_key: The result of `jax_ops.key_of`.
        rate: The dropout rate of the probabilities.
    """
    return _forward(query, key, value, bias, random_key, rate)[0]


def _blocks(shape, rows):
    """Returns the blocks of the random key, of `rows` and all tokens of a head, and of the bias."""
    _, length, _, head_size = shape
    return (
        pl.BlockSpec((2,), lambda batch, head, block: (0,)),
        pl.BlockSpec((None, rows, None, head_size), lambda b, head, block: (b, block, head, 0)),
        pl.BlockSpec((None, length, None, head_size), lambda b, head, block: (b, 0, head, 0)),
        pl.BlockSpec((None, length), lambda b, head, block: (b, 0)),
    )


def _forward(query, key, value, bias, random_key, rate):
    batch, length, heads, _ = shape = query.shape
    rows = 64 if length == _BLOCK else _BLOCK
    random, part, whole, line = _blocks(shape, rows)
    lse = pl.BlockSpec((None, None, rows), lambda b, head, block: (b, head, block))
    context, lse = call_kernel(
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


def _backward(rate, kept, upstream):
    query, key, value, bias, random_key, context, lse = kept
    batch, length, heads, _ = shape = query.shape
    random, part, whole, line = _blocks(shape, _BLOCK)
    row = pl.BlockSpec((None, None, length), lambda b, head, block: (b, head, 0))
    gradients = call_kernel(
        partial(_attention_gradient, rate=rate),
        "attention_gradient",
        grid=(batch, heads, length // _BLOCK),
        in_specs=[random, whole, whole, whole, line, whole, whole, row],
        outputs=3 * [(part, (shape, query.dtype))],
        warps=8,
        stages=1,  # two, in blocks of 64: wrong gradients on an H100 with JAX 0.11.2
        arrays=(random_key, query, key, value, bias, context, upstream, lse),
    )
    return *gradients, None, None


attention.defvjp(_forward, _backward)
