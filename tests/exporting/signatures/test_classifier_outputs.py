import numpy as np
import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.exporting.signatures.classifier_outputs import classifier_outputs

LOGITS = tf.constant([[2.0, -1.0, 0.0], [-3.0, -0.5, -0.1], [1.0, 1.5, 0.5]])
LABELS = ("sport", "politics", "не знаю")


def as_lists(outputs_of):
    served = {name: tensor.numpy() for name, tensor in outputs_of(LOGITS).items()}

    def decoded(value):
        return value.decode() if isinstance(value, bytes) else [decoded(each) for each in value]

    return {
        name: array.tolist() if array.dtype == np.float32 else decoded(array.tolist())
        for name, array in served.items()
    }


@pytest.mark.parametrize(
    ("problem_type", "names", "row"),
    [
        ("", ["sport", "не знаю", "politics"], [0.8437947, 0.0420101, 0.1141952]),
        ("single_label_classification", ["sport", "не знаю", "politics"], None),
        (
            "multi_label_classification",
            ["sport,не знаю", "", "sport,politics,не знаю"],
            [0.8807971, 0.2689414, 0.5],
        ),
    ],
)
def test_labels_and_their_probabilities(problem_type, names, row):
    outputs_of = classifier_outputs(LABELS, problem_type=problem_type)
    served = as_lists(outputs_of)
    assert served["label"] == names
    assert served["labels"] == [list(LABELS)] * 3
    if row:
        np.testing.assert_allclose(served["probabilities"][0], row, atol=1e-6)


def test_a_regression_returns_a_score():
    for problem_type in ("regression", ""):
        outputs = classifier_outputs(["similarity"], problem_type=problem_type)(LOGITS[:, :1])
        assert list(outputs) == ["score"] and outputs["score"].numpy().tolist() == [2.0, -3.0, 1.0]
    with pytest.raises(InputError, match="a regression has 2 labels; expected 1"):
        classifier_outputs(["a", "b"], problem_type="regression")
