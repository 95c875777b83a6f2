"""What a sample's answer is compared with."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.export.servable import Sample, check_answer
from bert_keras.export.verify import plain

OUTPUTS = plain({"label": tf.constant(["né", ""]), "score": tf.constant([[0.5, 200.0], [0, 1]])})
SAMPLE = Sample({"signature": "tensors", "inputs": {}}, OUTPUTS)


def test_text_is_told_as_str_and_numbers_as_they_are():
    assert OUTPUTS["label"].tolist() == ["né", ""]
    assert OUTPUTS["score"].dtype == np.float32


def test_what_differs_in_the_last_digits_is_equal():
    check_answer({"label": ["né", ""], "score": [[0.500001, 200.001], [0, 1]]}, SAMPLE)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label": ["ne", ""]}, "tensors answers with label other than the Keras model's"),
        ({"label": [""]}, r"label of the shape \(1,\); expected \(2,\)"),
        ({"score": [[0.5, 200], [0, 1.1]]}, "score 1.0e-01 off the Keras model's; expected at mos"),
        ({"score": [[0.5, 200], [0, np.nan]]}, "score nan off the Keras model's"),
    ],
)
def test_what_differs_is_named(changes, message):
    served = {name: array.tolist() for name, array in OUTPUTS.items()} | changes
    with pytest.raises(RuntimeError, match=message):
        check_answer(served, SAMPLE)
