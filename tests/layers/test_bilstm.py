import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.layers.bilstm import BiLSTM, LayerMix

VECTORS = np.random.default_rng(0).normal(size=(3, 6, 5)).astype("float32")
LENGTHS = (6, 4, 1)
MASK = np.arange(6) < np.array(LENGTHS)[:, None]


def new(**changes):
    keras.utils.set_random_seed(1)
    bilstm = BiLSTM(4, num_layers=2, dropout_rate=0.5, name="bilstm", **changes)
    bilstm.build(VECTORS.shape)
    return bilstm


def test_weights_have_their_public_names():
    expected = {}
    for layer, size in enumerate((5, 8)):
        for direction in ("forward", "backward"):
            cell = f"bilstm/layer_{layer}/{direction}_lstm/lstm_cell"
            expected[f"{cell}/kernel"] = (size, 16)
            expected[f"{cell}/recurrent_kernel"] = (4, 16)
            expected[f"{cell}/bias"] = (16,)
    assert {w.path: tuple(w.shape) for w in new().weights} == expected


def test_padding_changes_neither_direction():
    bilstm = new()
    actual = np.asarray(bilstm(VECTORS, MASK))
    assert actual.shape == (3, 6, 8)
    np.testing.assert_array_equal(actual[~MASK], 0.0)
    other = np.where(MASK[..., None], VECTORS, 1e3).astype("float32")
    np.testing.assert_array_equal(bilstm(other, MASK), actual)
    for row, length in enumerate(LENGTHS):
        alone = bilstm(VECTORS[row : row + 1, :length], np.ones((1, length), bool))
        np.testing.assert_allclose(actual[row, :length], alone[0], atol=1e-6)


def test_every_word_depends_on_both_sides():
    bilstm, mask = new(), np.ones((3, 6), bool)
    before = np.asarray(bilstm(VECTORS, mask))
    for changed in (0, 5):
        vectors = VECTORS.copy()
        vectors[:, changed] += 1.0
        assert (np.abs(np.asarray(bilstm(vectors, mask)) - before).max(axis=(0, 2)) > 1e-6).all()


def test_any_length_in_one_graph_and_dropout_only_in_training():
    bilstm = new()
    graph = tf.function(lambda *inputs: bilstm(*inputs), reduce_retracing=True)
    for length in (1, 3, 6):
        inputs = VECTORS[:, :length], MASK[:, :length]
        actual = graph(*map(tf.constant, inputs))
        np.testing.assert_allclose(actual, bilstm(*inputs), atol=1e-6)
    assert graph.experimental_get_tracing_count() <= 2
    dropped = np.asarray(bilstm(VECTORS, MASK, training=True))
    assert np.abs(dropped - bilstm(VECTORS, MASK)).max() > 0.01


def test_config_rebuilds_the_bilstm():
    bilstm = new()
    rebuilt = keras.layers.deserialize(json.loads(json.dumps(keras.layers.serialize(bilstm))))
    assert rebuilt.get_config() == bilstm.get_config()
    rebuilt.build(VECTORS.shape)
    rebuilt.set_weights(bilstm.get_weights())
    np.testing.assert_array_equal(rebuilt(VECTORS, MASK), bilstm(VECTORS, MASK))


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_policies_are_close_to_float32(policy):
    mixed, exact = new(dtype=policy), np.asarray(new()(VECTORS, MASK))
    actual = keras.ops.convert_to_numpy(mixed(VECTORS, MASK)).astype("float32")
    assert {weight.dtype for weight in mixed.weights} == {"float32"}
    np.testing.assert_allclose(actual, exact, atol=0.02)


FEATURES = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype("float32")


def test_the_initial_mix_is_the_mean():
    np.testing.assert_allclose(LayerMix()(FEATURES), FEATURES.mean(axis=2), atol=1e-6)


def test_layers_are_weighted_by_a_softmax_and_scaled():
    mix = LayerMix(name="mix")
    mix.build(FEATURES.shape)
    assert {w.path: tuple(w.shape) for w in mix.weights} == {
        "mix/layer_logits": (4,),
        "mix/scale": (),
    }
    mix.layer_logits.assign(np.log([1.0, 2.0, 3.0, 4.0]))
    mix.scale.assign(10.0)
    expected = sum((k + 1) * FEATURES[:, :, k] for k in range(4))
    np.testing.assert_allclose(mix(FEATURES), expected, rtol=1e-5, atol=1e-5)


def test_config_rebuilds_the_mix():
    mix = LayerMix(name="mix")
    rebuilt = keras.layers.deserialize(keras.layers.serialize(mix))
    assert rebuilt.get_config() == mix.get_config()
