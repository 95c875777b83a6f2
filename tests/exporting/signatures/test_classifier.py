import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.config import SIGMOID
from bert_keras.data.preprocessor import Preprocessor
from bert_keras.exporting.signatures.classifier import classifier_outputs
from bert_keras.exporting.verify import run_requests
from bert_keras.models.task_models import BertClassifier
from bert_keras.text.packing import encode
from bert_keras.text.tokenizer import WordPieceTokenizer
from tests.factories import assert_served, letter_vocabulary, tiny_config, with_noise

VOCABULARY = letter_vocabulary("the", "cafe", "東", *(f"word{n}" for n in range(30_000)))
TOKENIZER = WordPieceTokenizer(VOCABULARY, lowercase=True)
LABELS = ("no", "yes", "не знаю")
TEXTS = ["The cafés.", "", "the, " * 200, "東[MASK] word7 a\u200bb", "x" * 250]
PAIRS = ["word1 word2", "the " * 200, "cafe, " * 200, "", "\u00a0"]


@pytest.fixture(scope="module")
def model():
    return with_noise(BertClassifier(tiny_config(vocab_size=len(VOCABULARY)), num_labels=3))


def export(model, folder, **changes):
    arguments = {"tokenizer": TOKENIZER, "labels": LABELS, "max_length": 48}
    return model.export(folder, **{**arguments, **changes})


def test_a_moved_export_of_a_pair_model_equals_the_keras_model(model, tmp_path, assert_frozen):
    folder = export(model, tmp_path / "pairs" / "1", num_texts=2)
    assert_frozen("classifier_of_pairs", folder)
    moved = folder.parent.rename(tmp_path / "moved") / "1"
    inputs = encode(TOKENIZER, TEXTS, PAIRS, max_length=48)
    probabilities = tf.nn.softmax(model(inputs, training=False)).numpy()
    of_signature = {"serving_default": {"text": TEXTS, "text_pair": PAIRS}, "tensors": inputs}
    requests = [{"signature": name, "inputs": each} for name, each in of_signature.items()]
    model.metadata = dataclasses.replace(model.new_metadata(), labels=LABELS)
    model.preprocessor = Preprocessor(TOKENIZER, max_length=48)
    served = run_requests(moved, requests)
    assert_served(served[0], model.predict((TEXTS, PAIRS)))
    assert np.ptp(probabilities[:, 0]) > 0.01
    for outputs in served:
        np.testing.assert_allclose(outputs["probabilities"], probabilities, atol=1e-5)
        assert outputs["label"] == [LABELS[index] for index in probabilities.argmax(axis=1)]
        assert outputs["labels"] == [list(LABELS)] * len(TEXTS)


@pytest.mark.slow
def test_a_text_model_and_a_regression(model, tmp_path, assert_frozen):
    assert_frozen("classifier", export(model, tmp_path / "texts" / "12"))
    model = with_noise(BertClassifier(tiny_config(vocab_size=len(VOCABULARY)), num_labels=1))
    folder = export(model, tmp_path / "stars" / "1", labels=["stars"])
    assert_frozen("regression", folder)
    scores = model(encode(TOKENIZER, TEXTS, max_length=48)).numpy()[:, 0]
    (served,) = run_requests(folder, [{"signature": "serving_default", "inputs": {"text": TEXTS}}])
    assert list(served) == ["score"]
    np.testing.assert_allclose(served["score"], scores, atol=1e-5)


LOGITS = tf.constant([[2.0, -1.0, 0.0], [-3.0, -0.5, -0.1], [1.0, 1.5, 0.5]])


@pytest.mark.parametrize(
    ("problem_type", "names", "row"),
    [
        ("", ["no", "не знаю", "yes"], [0.8437947, 0.0420101, 0.1141952]),
        ("multi_label_classification", ["no,не знаю", "", "no,yes,не знаю"],
         [0.8807971, 0.2689414, 0.5]),
    ],
)  # fmt: skip
def test_labels_and_their_probabilities(problem_type, names, row):
    served = classifier_outputs(LABELS, problem_type=problem_type)(LOGITS)
    assert [each.decode() for each in served["label"].numpy()] == names
    np.testing.assert_allclose(served["probabilities"][0], row, atol=1e-6)
    for kind in ("regression", ""):  # one label without a problem type is a regression
        outputs = classifier_outputs(["similarity"], problem_type=kind)(LOGITS[:, :1])
        assert list(outputs) == ["score"] and outputs["score"].numpy().tolist() == [2.0, -3.0, 1.0]
    outputs = classifier_outputs(["similarity"], problem_type=SIGMOID)(LOGITS[:, :1])
    np.testing.assert_allclose(outputs["score"], [0.8807971, 0.0474259, 0.7310586], atol=1e-6)
