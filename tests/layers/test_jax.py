"""What JAX computes in other ways: GELU of short floats, and kernels, in Pallas' interpreter."""

import keras
import numpy as np
import pytest

from bert_keras import BertPretrainer
from bert_keras.families import preset
from tests.under_jax import with_jax

pytestmark = with_jax
if keras.config.backend() == "jax":
    import jax
    import jax.numpy as jnp

    from bert_keras.layers import jax_ops
    from bert_keras.layers.jax_kernels import attention, dropout_add_norm

    KEY = jnp.array([5, 77], jnp.uint32)


def drop(x, rate):
    kept = jax_ops.is_kept(jnp.arange(x.size, dtype=jnp.uint32).reshape(x.shape), KEY, rate)
    return jnp.where(kept, x / (1 - rate), 0) if rate else x


def plain_attention(query, key, value, bias, rate):
    query, key, value = (x.transpose(0, 2, 1, 3) for x in (query, key, value))
    scores = query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5 + bias[:, None, None]
    return (drop(jax.nn.softmax(scores), rate) @ value).transpose(0, 2, 1, 3)


def plain_norm(x, residual, gamma, beta, rate):
    x = residual + drop(x, rate)
    x = x - x.mean(-1, keepdims=True)
    return x / jnp.sqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6) * gamma + beta


def assert_same_outputs_and_gradients(kernel, formula, *shapes):
    """Calls both with random arrays of `shapes`; the outputs have the first shape."""
    random = np.random.default_rng(0)
    all_shapes = (*shapes, shapes[0])
    *arrays, upstream = (jnp.asarray(random.normal(size=s), "float32") for s in all_shapes)
    for f in (lambda f, *x: f(*x), lambda f, *x: jax.vjp(f, *x)[1](upstream)):
        compiled = jax.jit(f, static_argnums=0)
        results = (jax.tree.leaves(compiled(each, *arrays)) for each in (kernel, formula))
        for ours, theirs in zip(*results, strict=True):
            assert np.linalg.norm(ours - theirs) <= 1e-5 * np.linalg.norm(theirs)


def test_gelu_of_short_floats_is_the_gelu_of_jax():
    x = jnp.linspace(-12, 12, 1001)
    functions = jax_ops.gelu, lambda x: jax.nn.gelu(x, False)
    ours, theirs = (jax.vmap(jax.value_and_grad(f))(x) for f in functions)
    np.testing.assert_allclose(ours, theirs, atol=2e-6)


@pytest.mark.parametrize(("length", "size", "rate"), [(128, 64, 0.1), (256, 32, 0.1), (256, 64, 0)])
def test_attention_is_the_formula(length, size, rate):
    bias = jnp.where(jnp.arange(length) < jnp.array([[length], [length // 3]]), 0.0, -1e4)
    assert_same_outputs_and_gradients(
        lambda *x: attention(*x, bias, KEY, rate),
        lambda *x: plain_attention(*x, bias, rate),
        *3 * [(2, length, 2, size)],
    )


@pytest.mark.parametrize(("size", "rate"), [(128, 0.1), (96, 0.1), (768, 0.0)])
def test_dropout_add_and_norm_are_the_formula(size, rate):  # 96 and 768 are not powers of two
    assert_same_outputs_and_gradients(
        lambda *x: dropout_add_norm(*x, KEY, rate, 1e-6),
        lambda *x: plain_norm(*x, rate),
        *((256, size), (256, size), (size,), (size,)),
    )


def model_gradients(rate, *, in_kernels, **changes):
    """Returns the gradients of a step, of the same step again and of the next step."""
    ids = np.random.default_rng(0).integers(5, 90, (2, 128))
    mask = np.arange(128) < np.array([[128], [70]])
    x = {"input_ids": ids, "input_mask": mask.astype(int), "segment_ids": np.where(mask, 1, 0)}
    x["masked_lm_positions"] = np.array([[1, 5], [9, 60]])
    keras.utils.set_random_seed(1)
    rates = {"hidden_dropout_rate": rate, "attention_dropout_rate": rate}
    model = BertPretrainer(preset("tiny", vocab_size=90, num_heads=4, **rates, **changes))

    def loss(weights, rest):
        outputs, rest = model.stateless_call(weights, rest, x, training=True)
        return sum(jnp.square(output).sum() for output in outputs.values()), rest

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax_ops, "takes_kernels", lambda length, **_: in_kernels)
        rest = [each.value for each in model.non_trainable_variables]
        weights = [each.value for each in model.trainable_variables]
        gradient = jax.jit(jax.grad(loss, has_aux=True))
        first, later = gradient(weights, rest)
        return first, gradient(weights, rest)[0], gradient(weights, later)[0]


def distance(a, b):
    squares = [(np.square(x - y).sum(), np.square(y).sum()) for x, y in zip(a, b, strict=True)]
    return np.sqrt(np.divide(*np.sum(squares, axis=0)))


def test_a_model_in_kernels_has_the_gradients_of_one_without():
    modern = {"norm_position": "pre", "position_kind": "rotary"}
    for changes in (modern, {"norm_kind": "rms"}, {}):
        kernels, _, _ = model_gradients(0.0, in_kernels=True, **changes)
        plain, _, _ = model_gradients(0.0, in_kernels=False, **changes)
        assert distance(kernels, plain) < 1e-5
    first, same, second = model_gradients(0.1, in_kernels=True)
    assert distance(same, first) == 0
    assert 1e-3 < distance(second, first) < 2  # the next step draws anew
    assert 1e-3 < distance(first, kernels) < 2
