"""The signatures of a multiple choice model return the predictions of the Keras model."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.checkpoints.pretrained import save_model
from bert_keras.config import BertConfig, ModelMetadata
from bert_keras.downstream.swag import SwagExample, SwagTask
from bert_keras.downstream.task import softmax
from bert_keras.errors import InputError
from bert_keras.exporting.export import export
from bert_keras.exporting.saved_model import write_saved_model
from bert_keras.exporting.signatures.multiple_choice import served_multiple_choice, signatures
from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs
from bert_keras.exporting.text_ops.windows import WINDOWS_AT_ONCE
from bert_keras.exporting.verify import run_requests
from bert_keras.models import BertMultipleChoice
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

WORDS = "he she opens the cafe ##s door sings sleeps 東 , . [ ] mask ignore x"
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *WORDS.split()))
TOKENIZER = WordPieceTokenizer(VOCABULARY, lowercase=True)
CONFIG = BertConfig(
    vocab_size=len(VOCABULARY), hidden_size=32, num_layers=2, num_heads=2, max_positions=32
)
MAX_LENGTH = 24


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(7)
    model = BertMultipleChoice(CONFIG)
    for weight in model.weights:  # initial weights give nearly equal outputs
        weight.assign(weight + keras.random.normal(weight.shape, stddev=0.3))
    return model


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    parent = tmp_path_factory.mktemp("saved_models")
    metadata = ModelMetadata(
        model="BertMultipleChoice", config=CONFIG, lowercase=True, max_length=MAX_LENGTH
    )
    save_model(model, parent / "model", metadata=metadata, vocabulary=VOCABULARY)
    return export(parent / "model", parent / "swag" / "1")


def probabilities_of(model, context: str, choices: list[str]) -> np.ndarray:
    ids = [TOKENIZER.ids_batch(texts) for texts in ([context] * len(choices), choices)]
    inputs = pack(*ids, vocabulary=VOCABULARY, max_length=MAX_LENGTH)
    logits = model({name: array[None] for name, array in inputs.items()}, training=False)
    return softmax(np.asarray(logits))[0]


def test_signatures_are_frozen(folder, assert_frozen):
    assert_frozen("multiple_choice", folder)


def test_weights_and_graph_are_stored_once(model, folder):
    weights = sum(weight.value.numpy().nbytes for weight in model.weights)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert size <= weights + 3 * 2**20


def test_any_number_of_choices_as_texts_and_examples(model, folder):
    contexts = ["He opens the door.", "", "the cafés, " * 30]
    choices = [
        ["sings", "[MASK] 東京 Café\u200b 😀", ""],
        ["x", "the " * 40, "sleeps ,"],
        ["", "she sings, " * 9, ""],
    ]
    rows = [
        {"signature": "serving_default", "inputs": {"context": contexts, "choices": choices}},
        {"signature": "serving_default", "inputs": {"context": ["he"], "choices": [["x"] * 7]}},
        {"signature": "serving_default", "inputs": {"context": ["he"], "choices": [["", ""]]}},
        {
            "signature": "examples",
            "inputs": {"examples": [example("", ["x", "the"]), example("he", ["sings"])]},
        },
    ]
    several, equal, none, examples = run_requests(folder, rows)
    for row, (context, options) in enumerate(zip(contexts, choices, strict=True)):
        is_real = np.array(options) != ""
        expected = np.zeros(len(options))
        expected[is_real] = probabilities_of(model, context, [each for each in options if each])
        np.testing.assert_allclose(several["probabilities"][row], expected, atol=1e-5)
        assert several["choice"][row] == expected.argmax()
    np.testing.assert_allclose(equal["probabilities"], [[1 / 7] * 7], atol=1e-6)
    assert none == {"choice": [0], "probabilities": [[0.0, 0.0]]}
    expected = [probabilities_of(model, "", ["x", "the"]), [1, 0]]
    np.testing.assert_allclose(examples["probabilities"], expected, atol=1e-5)


def test_a_batch_of_contexts_equals_single_requests(folder):
    contexts = [f"he {'opens the door, ' * (number % 5)}" for number in range(11)]
    choices = [[f"she {'sings, ' * (number % 7)}", "x", ("", "東 the")[number % 2]]
               for number in range(len(contexts))]  # fmt: skip

    def request(rows: slice) -> dict:
        inputs = {"context": contexts[rows], "choices": choices[rows]}
        return {"signature": "serving_default", "inputs": inputs}

    alone = [request(slice(number, number + 1)) for number in range(len(contexts))]
    together, *single = run_requests(folder, [request(slice(None)), *alone])
    assert len({each["choice"][0] for each in single}) > 1
    assert together["choice"] == [each["choice"][0] for each in single]
    expected = [each["probabilities"][0] for each in single]
    np.testing.assert_allclose(together["probabilities"], expected, atol=1e-5)


def test_the_model_reads_a_limited_number_of_choices_at_a_time(tmp_path):
    counts = []

    def model(inputs, training):
        tf.py_function(lambda rows: counts.append(len(rows)), [inputs["input_ids"]], [])
        return tf.cast(tf.reduce_sum(inputs["input_ids"], axis=-1), tf.float32)

    VOCABULARY.save(tmp_path / "vocab.txt")
    reader = TextToInputs(tmp_path / "vocab.txt", lowercase=True, max_length=MAX_LENGTH)
    choose = signatures(model, reader)["serving_default"]
    outputs = choose(context=tf.constant(["he", "she"]), choices=tf.constant([["x"] * 10] * 2))
    np.testing.assert_allclose(outputs["probabilities"], np.full([2, 10], 0.1), rtol=1e-6)
    assert sum(counts) == 20 and max(counts) == WINDOWS_AT_ONCE


def test_a_request_without_choices_is_refused(folder):
    rows = [{"signature": "serving_default", "inputs": {"context": ["he"], "choices": [[]]}}]
    with pytest.raises(tf.errors.InvalidArgumentError, match="choices is empty; send at least one"):
        run_requests(folder, rows)


def example(context: str, choices: list[str]) -> bytes:
    def feature(*texts: str) -> tf.train.Feature:
        values = [text.encode() for text in texts]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))

    features = {"context": feature(context), "choices": feature(*choices)}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def test_swag_examples_equal_the_predictions_of_the_task(model, folder):
    rows = [
        SwagExample("He opens the door.", "She", ("sings", "leaves, x", "opens", "sleeps"), 1),
        SwagExample("The cafés.", "", ("he", "the", "東", "x"), 3),
    ]
    task = SwagTask(max_length=MAX_LENGTH)
    encoded = task.encode(rows, TOKENIZER)
    inputs, _ = encoded.batch(np.arange(2))
    predictions = task.predictions(rows, encoded, np.asarray(model(inputs, training=False)))
    texts = {
        "context": [row.context for row in rows],
        "choices": [[f"{row.start} {ending}" for ending in row.endings] for row in rows],
    }
    tensors = {name: array.tolist() for name, array in inputs.items()}
    requests = [
        {"signature": "serving_default", "inputs": texts},
        {"signature": "tensors", "inputs": tensors},
    ]
    for served in run_requests(folder, requests):
        assert served["choice"] == [each.ending for each in predictions]
        expected = [each.probabilities for each in predictions]
        np.testing.assert_allclose(served["probabilities"], expected, atol=1e-5)


def test_a_max_length_without_space_for_tokens_is_refused(model, tmp_path):
    with pytest.raises(InputError, match="max_length is 3; expected more than the 3"):
        write_saved_model(
            model,
            tmp_path / "x" / "1",
            make=served_multiple_choice,
            tokenizer=TOKENIZER,
            max_length=3,
        )
