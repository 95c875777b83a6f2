import numpy as np
import pytest
import tensorflow as tf

from bert_keras.exporting.text_ops.windows import (
    WINDOWS_AT_ONCE,
    TextWindows,
    pooled_logits,
    windows_of_tensors,
)


@pytest.mark.parametrize("num_windows", [1, 8, 9, 20])
@pytest.mark.parametrize(("pooling", "pooled"), [("mean", np.mean), ("max", np.max)])
def test_logits_of_each_text_are_pooled(num_windows, pooling, pooled):
    random = np.random.default_rng(num_windows)
    logits = random.normal(size=(num_windows, 3)).astype("float32") - 5
    text_ids = np.sort(random.integers(0, 4, num_windows))
    counts = []

    def logits_of(row):
        tf.py_function(lambda rows: counts.append(len(rows)), [row], [])
        return {"logits": tf.gather(logits, row[:, 0])}

    @tf.function
    def in_graph():
        windows = TextWindows(
            {"row": tf.range(num_windows)[:, None]}, tf.constant(text_ids), tf.constant(4)
        )
        return pooled_logits(logits_of, windows, pooling=pooling)

    actual = in_graph().numpy()
    assert actual.shape == (4, 3)
    for text_id in set(text_ids):
        np.testing.assert_allclose(
            actual[text_id], pooled(logits[text_ids == text_id], axis=0), rtol=1e-5, atol=1e-6
        )
    assert sum(counts) == num_windows and max(counts) <= WINDOWS_AT_ONCE


def test_windows_without_a_mask_are_padding():
    mask = tf.constant([[[1, 1], [1, 0]], [[1, 1], [0, 0]]])
    windows = windows_of_tensors({"input_ids": 7 * mask, "input_mask": mask})
    assert windows.text_ids.numpy().tolist() == [0, 0, 1] and windows.num_texts == 2
    assert windows.inputs["input_ids"].numpy().tolist() == [[7, 7], [7, 0], [7, 7]]
