"""What layers compute in other ways under JAX: dropout, GELU, cross-entropy, kernels for a GPU."""

from tests.under_jax import needs_jax, under_jax

pytestmark = needs_jax

OPERATIONS = """
import jax
import jax.numpy as jnp
import keras
import numpy as np
from bert_keras.layers.jax_ops import gelu
from bert_keras.layers.primitives import Dropout
from bert_keras.training.losses import MaskedLMLoss

shape = (8, 160, 160)
for rate in (0.1, 0.5, 0.9):
    layer = Dropout(rate, seed=1)
    draws = [np.asarray(layer(jnp.ones(shape), training=True)) for _ in range(3)]
    kept = [draw > 0 for draw in draws]
    for each in kept:
        assert abs(each.mean() - (1 - rate)) < 5 * (rate * (1 - rate) / each.size) ** 0.5
    np.testing.assert_allclose(draws[0][kept[0]], 1 / (1 - rate), rtol=1e-6)
    x = kept[0].astype(float)
    pairs = [(x[1:], x[:-1]), (x[:, 1:], x[:, :-1]), (x[..., 1:], x[..., :-1])]
    pairs += [(x[..., 2:], x[..., :-2]), (x, kept[1]), (x, kept[2])]
    other = Dropout(rate, seed=2)(jnp.ones(shape), training=True) > 0
    for first, second in [*pairs, (x, other)]:
        assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 5 / x.size**0.5
    for axes in ((0, 1), (0, 2), (1, 2)):  # no row or column has more than its share
        means, count = x.mean(axes), np.prod([shape[axis] for axis in axes])
        assert np.abs(means - means.mean()).max() < 5 * (rate * (1 - rate) / count) ** 0.5
np.testing.assert_array_equal(draws[0], Dropout(0.9, seed=1)(jnp.ones(shape), training=True))
x, layer = jnp.asarray(np.random.default_rng(0).normal(size=(64, 64))), Dropout(0.5, seed=1)
y, gradient = jax.value_and_grad(lambda x: layer(x, training=True).sum())(x)
assert set(np.unique(gradient)) == {0.0, 2.0}
np.testing.assert_allclose(y, (gradient * x).sum(), rtol=1e-5)

x = jnp.linspace(-12, 12, 1001)
ours, theirs = (
    jax.vmap(jax.value_and_grad(f))(x) for f in (gelu, lambda x: jax.nn.gelu(x, False))
)
np.testing.assert_allclose(ours, theirs, atol=2e-6)

logits = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3, 7)))
targets = jnp.ones((2, 3), int)
ours, theirs = (
    jax.grad(lambda logits: loss(targets, logits))(logits)
    for loss in (
        lambda y, x: MaskedLMLoss()(y, x, jnp.ones((2, 3))) * 6.00001,
        lambda y, x: keras.losses.sparse_categorical_crossentropy(y, x, from_logits=True).sum(),
    )
)
np.testing.assert_allclose(ours, theirs, atol=1e-6)
"""

KERNELS = """
import jax
import jax.numpy as jnp
import numpy as np
from bert_keras.layers.jax_attention import attention
from bert_keras.layers.jax_kernels import dropout_add_norm
from bert_keras.layers.jax_ops import is_kept

random, key = np.random.default_rng(0), jnp.array([5, 77], jnp.uint32)

def draw(*shape):
    return jnp.asarray(random.normal(size=shape), jnp.float32)

def dropped(x, rate):
    kept = is_kept(jnp.arange(x.size, dtype=jnp.uint32).reshape(x.shape), key, rate)
    return jnp.where(kept, x / (1 - rate), 0) if rate else x

def plain_attention(query, key, value, bias, rate):
    query, key, value = (x.transpose(0, 2, 1, 3) for x in (query, key, value))
    scores = query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5 + bias[:, None, None]
    return (dropped(jax.nn.softmax(scores), rate) @ value).transpose(0, 2, 1, 3)

def plain_norm(x, residual, gamma, beta, rate):
    x = residual + dropped(x, rate)
    x = x - x.mean(-1, keepdims=True)
    return x / jnp.sqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6) * gamma + beta

def check(ours, theirs, arguments, upstream):
    for f in (lambda f, *x: f(*x), lambda f, *x: jax.vjp(f, *x)[1](upstream)):
        compiled = jax.jit(f, static_argnums=0)
        results = (jax.tree.leaves(compiled(each, *arguments)) for each in (ours, theirs))
        for a, b in zip(*results, strict=True):
            assert np.linalg.norm(a - b) <= 1e-5 * np.linalg.norm(b)

for length, size, rate in ((128, 64, 0.1), (256, 32, 0.1), (256, 64, 0.0)):
    shape = (2, length, 2, size)
    bias = jnp.where(jnp.arange(length) < jnp.array([[length], [length // 3]]), 0.0, -1e4)
    check(
        lambda *x: attention(*x, bias, key, rate),
        lambda *x: plain_attention(*x, bias, rate),
        [draw(*shape) for _ in range(3)],
        draw(*shape),
    )
for size, rate in ((128, 0.1), (96, 0.1), (768, 0.0)):  # 96 and 768 are no powers of two
    check(
        lambda *x: dropout_add_norm(*x, key, rate, 1e-6),
        lambda *x: plain_norm(*x, rate),
        [draw(256, size), draw(256, size), draw(size), draw(size)],
        draw(256, size),
    )
"""

MODEL = """
import jax
import jax.numpy as jnp
import keras
import numpy as np
from bert_keras.layers import jax_ops
from bert_keras import BertPretrainer
from bert_keras.families import preset

ids = np.random.default_rng(0).integers(5, 90, (2, 128))
mask = np.arange(128) < np.array([[128], [70]])
x = {"input_ids": ids, "input_mask": mask.astype(int), "segment_ids": np.where(mask, 1, 0)}
x["masked_lm_positions"] = np.array([[1, 5], [9, 60]])

def gradients(rate, *, in_kernels, **changes):
    jax_ops.takes_kernels = lambda length, **_: in_kernels
    keras.utils.set_random_seed(1)
    rates = {"hidden_dropout_rate": rate, "attention_dropout_rate": rate}
    model = BertPretrainer(preset("tiny", vocab_size=90, num_heads=4, **rates, **changes))

    def loss(weights, rest):
        outputs, rest = model.stateless_call(weights, rest, x, training=True)
        return sum(jnp.square(output).sum() for output in outputs.values()), rest

    rest = [each.value for each in model.non_trainable_variables]
    weights = [each.value for each in model.trainable_variables]
    gradient = jax.jit(jax.grad(loss, has_aux=True))
    first, later = gradient(weights, rest)
    return first, gradient(weights, rest)[0], gradient(weights, later)[0]

def distance(a, b):
    squares = [(np.square(x - y).sum(), np.square(y).sum()) for x, y in zip(a, b, strict=True)]
    return np.sqrt(np.divide(*np.sum(squares, axis=0)))

for changes in ({"norm_position": "pre", "position_kind": "rotary"}, {}):
    plain, kernels = (gradients(0.0, in_kernels=each, **changes)[0] for each in (False, True))
    assert distance(kernels, plain) < 1e-5
first, same, second = gradients(0.1, in_kernels=True)
assert distance(same, first) == 0
assert 1e-3 < distance(second, first) < 2  # the next step draws anew
assert 1e-3 < distance(first, kernels) < 2
"""


def test_dropout_gelu_and_the_gradient_of_the_masked_lm_loss():
    under_jax(OPERATIONS)


def test_kernels_compute_the_formulas_and_their_gradients():
    under_jax(KERNELS)


def test_a_model_in_kernels_has_the_gradients_of_one_without():
    under_jax(MODEL)
