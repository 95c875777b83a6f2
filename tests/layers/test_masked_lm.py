import numpy as np

from bert_keras.layers.masked_lm import MaskedLMHead


def test_logits_are_those_of_the_masked_positions_alone():
    random = np.random.default_rng(0)
    hidden = random.normal(size=(2, 6, 8)).astype("float32")
    table = random.normal(size=(11, 8)).astype("float32")
    positions = np.array([[0, 3, 3], [5, 1, 0]], "int32")
    head = MaskedLMHead(11, activation="tanh", layer_norm_epsilon=1e-12, initializer_stddev=0.5)
    logits = np.asarray(head(hidden, positions, table))
    head.output_bias.assign(np.arange(11))

    kernel, bias = (np.asarray(w) for w in head.transform.weights)
    picked = hidden[np.arange(2)[:, None], positions]
    x = np.tanh(picked @ kernel + bias)
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True))
    np.testing.assert_allclose(logits, x @ table.T, atol=1e-5)
    np.testing.assert_allclose(
        head(hidden, positions, table), x @ table.T + np.arange(11), atol=1e-5
    )


def test_norm_takes_states_whose_squares_overflow_float16():
    hidden = np.random.default_rng(0).normal(size=(2, 6, 8)).astype("float32")
    table = np.random.default_rng(1).normal(size=(11, 8)).astype("float32")
    positions = np.array([[0, 3, 3], [5, 1, 0]], "int32")

    def logits(dtype):
        head = MaskedLMHead(
            11, activation="relu", layer_norm_epsilon=1e-12, initializer_stddev=0.5, dtype=dtype
        )
        head(hidden, positions, table)
        head.transform.kernel.assign(3000 * np.eye(8))
        return np.asarray(head(hidden, positions, table))

    exact = logits("float32")
    assert np.abs(logits("mixed_float16") - exact).max() <= 0.01 * np.abs(exact).max()
