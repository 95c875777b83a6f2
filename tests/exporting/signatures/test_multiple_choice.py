"""The signatures of a multiple choice model return the predictions of the Keras model."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras import BertMultipleChoice
from bert_keras.data.preprocessor import ChoicePreprocessor
from bert_keras.exporting.signatures.multiple_choice import served_multiple_choice
from bert_keras.exporting.text_ops.text_to_inputs import WINDOWS_AT_ONCE, TextToInputs
from bert_keras.exporting.verify import run_requests
from bert_keras.runs.export import export
from bert_keras.serving.rest_api import Refusal
from tests.exporting.conftest import TOKENIZER, VOCABULARY
from tests.factories import assert_served, tiny_config, with_noise

MAX_LENGTH = 24


@pytest.fixture(scope="module")
def model():
    return with_noise(BertMultipleChoice(tiny_config(vocab_size=len(VOCABULARY))))


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved_models") / "swag" / "1"
    return export(model, folder, tokenizer=TOKENIZER, max_length=MAX_LENGTH)


def text_request(contexts, choices) -> dict:
    inputs = {"context": contexts, "choices": choices}
    return {"signature": "serving_default", "inputs": inputs}


def test_any_number_of_choices(model, folder, assert_frozen):
    assert_frozen("multiple_choice", folder)
    contexts = ["He opens the door.", "", "the cafés, " * 30]
    choices = [
        ["sings", "[MASK] 東京 Café\u200b 😀", ""],
        ["x", "the " * 40, "sleeps ,"],
        ["", "she sings, " * 9, ""],
    ]
    requests = [(contexts, choices), (["he"], [["x"] * 7]), (["he"], [["", ""]])]
    several, equal, none = run_requests(folder, [text_request(*each) for each in requests])
    model.preprocessor = ChoicePreprocessor(TOKENIZER, max_length=MAX_LENGTH)
    assert_served(several, model.predict((contexts, *map(list, zip(*choices, strict=True)))))
    np.testing.assert_allclose(equal["probabilities"], [[1 / 7] * 7], atol=1e-6)
    assert none == {"choice": [0], "probabilities": [[0.0, 0.0]]}
    with pytest.raises(Refusal):
        run_requests(folder, [text_request(["he"], [[]])])


def test_the_model_reads_a_limited_number_of_choices_at_a_time(tmp_path):
    counts = []

    def model(inputs, training):
        tf.py_function(lambda rows: counts.append(len(rows)), [inputs["input_ids"]], [])
        return tf.cast(tf.reduce_sum(inputs["input_ids"], axis=-1), tf.float32)

    VOCABULARY.save(tmp_path / "vocab.txt")
    reader = TextToInputs(tmp_path / "vocab.txt", lowercase=True, max_length=MAX_LENGTH)
    choose = served_multiple_choice(model, reader).signatures["serving_default"]
    outputs = choose(context=tf.constant(["he", "she"]), choices=tf.constant([["x"] * 10] * 2))
    np.testing.assert_allclose(outputs["probabilities"], np.full([2, 10], 0.1), rtol=1e-6)
    assert sum(counts) == 20 and max(counts) == WINDOWS_AT_ONCE
