"""Too long rows fail before they cost memory; what TF Serving fills rows up with is not read."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.config import BertConfig
from bert_keras.export.servable import Servable, tensor_specs
from bert_keras.export.signatures.derived import with_checked_tensors
from bert_keras.models.task_models import BertClassifier
from bert_keras.serving.tf_serving.measurement import filled_up

CLS, SEP, NUM_POSITIONS = 2, 3, 16


@pytest.fixture(scope="module")
def tensors():
    """The signature with the checks and without."""
    keras.utils.set_random_seed(7)
    config = BertConfig(
        vocab_size=30, hidden_size=32, num_layers=2, num_heads=2, max_positions=NUM_POSITIONS
    )
    model = BertClassifier(config, num_labels=3)
    for weight in model.weights:  # far from the start, where all answers are alike
        weight.assign(weight + keras.random.normal(weight.shape, stddev=0.3))

    @tf.function
    def answer(**inputs):
        return {"logits": model(inputs, training=False)}

    plain = answer.get_concrete_function(**tensor_specs(rank=2))
    servable = Servable({"tensors": plain}, [])
    checked = with_checked_tensors(servable, max_positions=NUM_POSITIONS, cls_id=CLS)
    return checked.signatures["tensors"], plain


def sent(ids):
    ids = np.int32(ids)
    return {"input_ids": ids, "input_mask": np.int32(ids > 0), "segment_ids": np.int32(ids > 20)}


def answer(signature, inputs):
    return signature(**{name: tf.constant(values) for name, values in inputs.items()})["logits"]


def test_what_clients_send_is_answered_as_before(tensors):
    checked, plain = tensors
    inputs = sent([[CLS, 7, 8, SEP, 9, 25, SEP], [CLS, 9, CLS, SEP, 0, 0, 0]])
    np.testing.assert_array_equal(answer(checked, inputs), answer(plain, inputs))


def test_rows_that_tf_serving_filled_up_are_answered_as_alone(tensors):
    checked, plain = tensors
    alone = sent([[CLS, 7, 8, SEP]])
    filled = {name: filled_up(values, (1, 12)) for name, values in alone.items()}
    assert filled["input_mask"].all()
    np.testing.assert_allclose(answer(checked, filled), answer(plain, alone), atol=1e-5)
    assert np.abs(answer(plain, filled) - answer(plain, alone)).max() > 0.01


@pytest.mark.parametrize("name", ["input_ids", "input_mask", "segment_ids"])
def test_a_row_that_no_model_reads_is_refused_at_once(tensors, name):
    checked, _ = tensors
    inputs = sent([[CLS, 7, SEP]])
    inputs[name] = np.ones([1, 20_000_000], np.int32)  # whose embeddings would take 2.5 GB
    sentence = f"{name} has more than the 16 positions that the model reads"
    with pytest.raises(tf.errors.InvalidArgumentError, match=sentence):
        answer(checked, inputs)
