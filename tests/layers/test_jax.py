"""What layers compute in other ways under JAX: dropout, GELU, cross-entropy."""

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


def test_dropout_gelu_and_the_gradient_of_the_masked_lm_loss():
    under_jax(OPERATIONS)
