"""What heads compute in training and from words, written with NumPy."""

import keras
import numpy as np

from bert_keras.layers.bilstm import BiLSTM, LayerMix
from bert_keras.layers.heads import TokenLabelsHead

HIDDEN = np.random.default_rng(0).normal(size=(2, 6, 8)).astype("float32")


def test_states_are_dropped_in_training_alone():
    head = TokenLabelsHead(3, dropout_rate=0.5, initializer_stddev=0.5)
    calm = np.asarray(head(HIDDEN))
    assert (np.asarray(head(HIDDEN, training=True)) != calm).all()
    np.testing.assert_array_equal(head(HIDDEN, training=False), calm)


def test_words_depend_on_both_sides_but_not_on_padding_and_are_dropped_in_training():
    keras.utils.set_random_seed(1)
    bilstm = BiLSTM(4, num_layers=2, dropout_rate=0.5)
    lengths = 6, 2
    mask = np.arange(6) < np.array(lengths)[:, None]
    actual = np.asarray(bilstm(HIDDEN, mask))
    np.testing.assert_array_equal(actual[~mask], 0.0)
    other = np.where(mask[..., None], HIDDEN, 1e3).astype("float32")
    np.testing.assert_array_equal(bilstm(other, mask), actual)
    for row, length in enumerate(lengths):
        alone = bilstm(HIDDEN[row : row + 1, :length], np.ones((1, length), bool))
        np.testing.assert_allclose(actual[row, :length], alone[0], atol=1e-6)
    mask = np.ones((2, 6), bool)
    before = np.asarray(bilstm(HIDDEN, mask))
    for changed in (0, 5):
        vectors = HIDDEN.copy()
        vectors[:, changed] += 1.0
        assert (np.abs(np.asarray(bilstm(vectors, mask)) - before).max(axis=(0, 2)) > 1e-6).all()
    assert np.abs(bilstm(HIDDEN, mask, training=True) - before).max() > 0.01


def test_layers_are_weighted_by_a_softmax_and_scaled():
    features, mix = HIDDEN.reshape(2, 3, 4, 4), LayerMix()
    np.testing.assert_allclose(mix(features), features.mean(axis=2), atol=1e-6)  # initially
    mix.layer_logits.assign(np.log([1.0, 2.0, 3.0, 4.0]))
    mix.scale.assign(10.0)
    expected = sum((k + 1) * features[:, :, k] for k in range(4))
    np.testing.assert_allclose(mix(features), expected, rtol=1e-5, atol=1e-5)
