import numpy as np

from bert_keras.layers.span import SpanHead


def test_the_first_column_scores_starts_and_the_second_ends():
    hidden = np.random.default_rng(0).normal(size=(2, 6, 8)).astype("float32")
    head = SpanHead(initializer_stddev=0.5)
    head(hidden)
    head.dense.bias.assign([1.0, 2.0])
    kernel, bias = (np.asarray(weight) for weight in head.get_weights())
    logits = head(hidden)
    for column, name in enumerate(("start", "end")):
        expected = hidden @ kernel[:, column] + bias[column]
        np.testing.assert_allclose(logits[name], expected, atol=1e-5)
