"""Comparison of served outputs with the outputs of a sample."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.exporting.servable import Sample, check_outputs
from bert_keras.exporting.verify import to_arrays

OUTPUTS = to_arrays(
    {"label": tf.constant(["né", ""]), "score": tf.constant([[0.5, 200.0], [0, 1]])}
)
SAMPLE = Sample({"signature": "tensors", "inputs": {}}, OUTPUTS)


def test_text_becomes_str_and_numbers_are_unchanged():
    assert OUTPUTS["label"].tolist() == ["né", ""]
    assert OUTPUTS["score"].dtype == np.float32


def test_differences_within_the_tolerance_are_accepted():
    check_outputs({"label": ["né", ""], "score": [[0.500001, 200.001], [0, 1]]}, SAMPLE)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label": ["ne", ""]}, "output label of the signature tensors differs from the Keras"),
        ({"label": [""]}, r"tensors has the shape \(1,\); expected \(2,\)"),
        (
            {"score": [[0.5, 200], [0, 1.1]]},
            "tensors differs by 1.0e-01 from the Keras model's; expec",
        ),
        ({"score": [[0.5, 200], [0, np.nan]]}, "tensors differs by nan from the Keras model's"),
    ],
)
def test_other_differences_are_refused(changes, message):
    served = {name: array.tolist() for name, array in OUTPUTS.items()} | changes
    with pytest.raises(RuntimeError, match=message):
        check_outputs(served, SAMPLE)
