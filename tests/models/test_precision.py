"""Under the mixed policies: what stays in float32, what does not overflow, how far states drift."""

import keras
import numpy as np
import pytest
from keras import ops

from bert_keras import BertClassifier
from bert_keras.config import BertConfig
from bert_keras.data.record_file import SEQUENCE_FEATURES
from bert_keras.errors import InputError
from bert_keras.layers.attention import FullPattern, SelfAttention, packed_bias, padding_bias
from bert_keras.layers.primitives import LayerNorm
from bert_keras.training.optimizer import BertAdamW

POLICIES = ("mixed_bfloat16", "mixed_float16")
B, T, D, N = 2, 6, 16, 2
HIDDEN = np.random.default_rng(0).normal(size=(B * T, D)).astype("float32")


@pytest.mark.parametrize("policy", POLICIES)
def test_softmax_and_the_addition_of_the_bias_are_float32(policy):
    keras.utils.set_random_seed(1)
    layer = SelfAttention(N, dropout_rate=0.0, initializer_stddev=0.5, dtype=policy)
    # Exact in bfloat16, but lost where it is added to a score of 4 or more in float16.
    bias = np.full((B, 1, 1, T), 2.0**-9, "float32")
    bias[..., ::2] = 0.0
    _, attention = layer(HIDDEN, FullPattern(bias))

    def heads(dense):
        states = dense(ops.cast(HIDDEN, layer.compute_dtype))
        return ops.transpose(ops.reshape(states, (B, T, N, D // N)), (0, 2, 1, 3))

    query, key = heads(layer.query_dense) * (D // N) ** -0.5, heads(layer.key_dense)
    scores = ops.cast(ops.matmul(query, ops.transpose(key, (0, 1, 3, 2))), "float64") + bias
    assert np.abs(scores).max() > 4
    assert keras.backend.standardize_dtype(attention.dtype) == "float32"
    np.testing.assert_allclose(attention, ops.softmax(scores), rtol=1e-5)


@pytest.mark.parametrize("policy", POLICIES)
def test_layer_norm_is_float32(policy):
    layer = LayerNorm(epsilon=1e-12, dtype=policy)
    random = np.random.default_rng(0)
    # Squares of 1,000 are beyond float16, differences of 1,000.5 and 1,000 below bfloat16's steps.
    x = random.choice([-1.0, 1.0], (5, D)) * 1_000 + random.normal(size=(5, D))
    x = x.astype("float32")
    layer.build(x.shape)
    layer.gamma.assign(random.normal(1.0, 0.1, D))
    layer.beta.assign(random.normal(0.0, 0.1, D))
    centred = x.astype("float64") - x.mean(-1, keepdims=True, dtype="float64")
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True))
    expected = expected * np.asarray(layer.gamma) + np.asarray(layer.beta)
    half_a_step = {"mixed_bfloat16": 2.0**-9, "mixed_float16": 2.0**-12}[policy]
    assert keras.backend.standardize_dtype(layer(x).dtype) == layer.compute_dtype
    np.testing.assert_allclose(
        ops.cast(layer(x), "float32"), expected, rtol=2 * half_a_step, atol=1e-6
    )


@pytest.mark.parametrize("dtype", ("float16", "bfloat16", "float32"))
def test_a_bias_is_finite_and_leaves_padding_no_probability(dtype):
    mask = np.array([[1, 1, 0], [1, 0, 0]])
    scores = np.random.default_rng(0).normal(0, 50, (2, 1, 3, 3)).astype("float32")
    for bias in (padding_bias(mask, dtype=dtype), packed_bias(mask, dtype=dtype)):
        bias = ops.convert_to_numpy(ops.cast(bias, "float32"))
        assert np.isfinite(bias).all()
        attention = ops.convert_to_numpy(ops.softmax(scores + bias))
        assert (attention[np.broadcast_to(bias, attention.shape) < 0] == 0).all()


def test_one_training_step_and_one_token_with_bfloat16_weights(recwarn):
    config = BertConfig(vocab_size=9, hidden_size=8, num_layers=1, num_heads=2)
    model = BertClassifier(config, num_labels=2, dtype="bfloat16")
    data = {name: np.ones((4, 1), "int32") for name in SEQUENCE_FEATURES}, np.array([0, 1, 1, 1])
    before, loss = model.get_weights(), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="sgd", loss=loss)
    history = model.fit(*data, verbose=0).history
    assert history["loss"][0] == pytest.approx(np.log(2), rel=0.05)
    assert any((old != new).any() for old, new in zip(before, model.get_weights(), strict=True))
    assert {weight.dtype for weight in model.weights[:-2]} == {"bfloat16"}
    assert not [each for each in recwarn if "softmax" in str(each.message)]
    model.compile(optimizer=BertAdamW(), loss=loss)
    with pytest.raises(InputError):
        model.fit(*data, verbose=0)
