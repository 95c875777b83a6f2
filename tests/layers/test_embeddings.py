"""The embedding tables: sums and gradients in float32, and segments without a gather."""

import numpy as np
import pytest

from bert_keras.layers.embeddings import BertEmbeddings
from tests.tensorflow_or_skip import tf

IDS = np.array([[3, 4, 5, 4], [4, 4, 6, 7]])
SEGMENTS = np.array([[0, 0, 1, 1], [0, 1, 1, 1]])


def embeddings(num_segments, **options):
    options |= {"dropout_rate": 0.0, "layer_norm_epsilon": 1e-12, "initializer_stddev": 0.5}
    layer = BertEmbeddings(8, 6, max_positions=4, num_segments=num_segments, **options)
    layer.build()
    return layer


def sum_and_gradients(layer, segments):
    tables = [layer.token_table.value, layer.position_table.value, layer.segment_table.value]
    with tf.GradientTape() as tape:
        y = layer(IDS, segments)
        total = tf.reduce_sum(tf.cast(y, "float32") * np.arange(6, dtype="float32"))
    return y, tape.gradient(total, tables)


def test_gradients_of_the_tables_are_sums_in_float32():
    """Not of the tables' copies in bfloat16, in which a sum of many gradients loses the small."""
    y, (token, *rest) = sum_and_gradients(embeddings(2, dtype="mixed_bfloat16"), SEGMENTS)
    assert y.dtype == tf.bfloat16
    assert isinstance(token, tf.IndexedSlices) and token.values.dtype == tf.float32
    assert all(gradient.dtype == tf.float32 for gradient in rest)


@pytest.mark.parametrize("num_segments", [1, 2])
def test_few_segments_are_those_of_a_gather(num_segments):
    few, many = embeddings(num_segments), embeddings(3)
    for name in ("token_table", "position_table"):
        getattr(few, name).assign(getattr(many, name))
    few.segment_table.assign(many.segment_table[:num_segments])
    segments = SEGMENTS * (num_segments - 1)
    expected, expected_gradients = sum_and_gradients(many, segments)
    y, gradients = sum_and_gradients(few, segments)
    np.testing.assert_array_equal(y, expected)
    for gradient, other in zip(gradients, expected_gradients, strict=True):
        gradient, other = map(tf.convert_to_tensor, (gradient, other))
        np.testing.assert_allclose(gradient, other[: len(gradient)], rtol=1e-5, atol=1e-6)
