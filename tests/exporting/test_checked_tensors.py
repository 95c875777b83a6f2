"""`tensors` refuses long rows before it allocates memory, and masks the padding of TF Serving."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.config import BertConfig
from bert_keras.exporting.servable import ServableModel, tensor_specs
from bert_keras.exporting.signatures.derived import with_checked_tensors
from bert_keras.models.task_models import BertClassifier

CLS, SEP, NUM_POSITIONS = 2, 3, 16


def pad_with_first(values, shape):
    """Pads rows with their first value, as TF Serving's batching_util.cc does."""
    padding = [
        (0, 0),
        *((0, size - n) for size, n in zip(shape[1:], values.shape[1:], strict=True)),
    ]
    return np.pad(values, padding, constant_values=values.flat[0])


@pytest.fixture(scope="module")
def tensors():
    """Returns the signature with the checks and without them."""
    keras.utils.set_random_seed(7)
    config = BertConfig(
        vocab_size=30, hidden_size=32, num_layers=2, num_heads=2, max_positions=NUM_POSITIONS
    )
    model = BertClassifier(config, num_labels=3)
    for weight in model.weights:  # initial weights give nearly equal outputs
        weight.assign(weight + keras.random.normal(weight.shape, stddev=0.3))

    @tf.function
    def from_tensors(**inputs):
        return {"logits": model(inputs, training=False)}

    unchecked = from_tensors.get_concrete_function(**tensor_specs(rank=2))
    servable = ServableModel({"tensors": unchecked}, [])
    checked = with_checked_tensors(servable, max_positions=NUM_POSITIONS, cls_id=CLS)
    return checked.signatures["tensors"], unchecked


def inputs_of(ids):
    ids = np.int32(ids)
    return {"input_ids": ids, "input_mask": np.int32(ids > 0), "segment_ids": np.int32(ids > 20)}


def logits(signature, inputs):
    return signature(**{name: tf.constant(values) for name, values in inputs.items()})["logits"]


def test_outputs_equal_those_without_checks(tensors):
    checked, unchecked = tensors
    inputs = inputs_of([[CLS, 7, 8, SEP, 9, 25, SEP], [CLS, 9, CLS, SEP, 0, 0, 0]])
    np.testing.assert_array_equal(logits(checked, inputs), logits(unchecked, inputs))


def test_the_padding_of_tf_serving_is_masked(tensors):
    checked, unchecked = tensors
    row = inputs_of([[CLS, 7, 8, SEP]])
    padded = {name: pad_with_first(values, (1, 12)) for name, values in row.items()}
    assert padded["input_mask"].all()
    np.testing.assert_allclose(logits(checked, padded), logits(unchecked, row), atol=1e-5)
    assert np.abs(logits(unchecked, padded) - logits(unchecked, row)).max() > 0.01


@pytest.mark.parametrize("name", ["input_ids", "input_mask", "segment_ids"])
def test_rows_longer_than_the_model_reads_are_refused(tensors, name):
    checked, _ = tensors
    inputs = inputs_of([[CLS, 7, SEP]])
    inputs[name] = np.ones([1, 20_000_000], np.int32)  # whose embeddings would take 2.5 GB
    sentence = f"{name} has more than the 16 positions that the model reads"
    with pytest.raises(tf.errors.InvalidArgumentError, match=sentence):
        logits(checked, inputs)
