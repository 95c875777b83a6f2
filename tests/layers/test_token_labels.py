import numpy as np

from bert_keras.layers.token_labels import TokenLabelsHead

HIDDEN = np.random.default_rng(0).normal(size=(2, 6, 8)).astype("float32")


def test_logits_are_those_of_each_token_alone():
    head = TokenLabelsHead(3, dropout_rate=0.5, initializer_stddev=0.5)
    head(HIDDEN)
    head.dense.bias.assign([1.0, 2.0, 3.0])
    kernel, bias = (np.asarray(weight) for weight in head.get_weights())
    np.testing.assert_allclose(head(HIDDEN), HIDDEN @ kernel + bias, atol=1e-5)


def test_states_are_dropped_in_training_alone():
    head = TokenLabelsHead(3, dropout_rate=0.5, initializer_stddev=0.5)
    calm = np.asarray(head(HIDDEN))
    assert (np.asarray(head(HIDDEN, training=True)) != calm).all()
    np.testing.assert_array_equal(head(HIDDEN, training=False), calm)
