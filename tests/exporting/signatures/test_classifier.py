import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.config import BertConfig
from bert_keras.downstream.texts import windows_of
from bert_keras.errors import InputError
from bert_keras.exporting.model_folder import export_classifier
from bert_keras.exporting.verify import run_requests
from bert_keras.models.task_models import BertClassifier
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

WORDS = ("the", "cafe", "##s", ".", ",", "[", "]", "mask", "東", *SPECIAL_TOKENS)
VOCABULARY = Vocabulary((*WORDS, *(f"word{index}" for index in range(30_522 - len(WORDS)))))
LABELS = ("no", "yes", "не знаю")
TEXTS = ["The cafés.", "", "the, " * 200, "東[MASK] word7 a\u200bb", "x" * 250]
PAIRS = ["word1 word2", "the " * 200, "cafe, " * 200, "", "\u00a0"]


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(7)
    config = BertConfig(
        vocab_size=30_522, hidden_size=32, num_layers=2, num_heads=2, max_positions=64
    )
    model = BertClassifier(config, num_labels=3)
    for weight in model.weights:  # initial weights give nearly equal outputs
        weight.assign(weight + keras.random.normal(weight.shape, stddev=0.3))
    return model


def export(model, folder, **changes):
    arguments = {"vocabulary": VOCABULARY, "lowercase": True, "labels": LABELS, "max_length": 48}
    with pytest.warns(DeprecationWarning, match="use export or model.export"):
        return export_classifier(model, folder, **{**arguments, **changes})


@pytest.fixture(scope="module")
def pair_folder(model, tmp_path_factory):
    return export(model, tmp_path_factory.mktemp("saved_models") / "pairs" / "1", num_texts=2)


def expected_probabilities(model, *columns):
    tokenizer = WordPieceTokenizer(VOCABULARY, lowercase=True)
    ids = [tokenizer.ids_batch(column) for column in columns]
    inputs = pack(*ids, vocabulary=VOCABULARY, max_length=48)
    return inputs, tf.nn.softmax(model(inputs, training=False)).numpy()


def serialized(*texts: str) -> bytes:
    features = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))
        for name, text in zip(("text", "text_pair"), texts, strict=True)
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def test_a_moved_export_of_a_pair_model_equals_the_keras_model(
    model, pair_folder, tmp_path, assert_frozen
):
    assert_frozen("classifier_of_pairs", pair_folder)
    moved = pair_folder.parent.rename(tmp_path / "moved") / "1"
    inputs, probabilities = expected_probabilities(model, TEXTS, PAIRS)
    tensors = {name: array.tolist() for name, array in inputs.items()}
    examples = [serialized(*pair) for pair in zip(TEXTS, PAIRS, strict=True)]
    outputs = run_requests(
        moved,
        [
            {"signature": "serving_default", "inputs": {"text": TEXTS, "text_pair": PAIRS}},
            {"signature": "tensors", "inputs": tensors},
            {"signature": "examples", "inputs": {"examples": examples}},
            {"signature": "classify", "inputs": {"inputs": examples}},
        ],
    )
    assert np.ptp(probabilities[:, 0]) > 0.01
    assert outputs[3] == {"classes": outputs[2]["labels"], "scores": outputs[2]["probabilities"]}
    for served in outputs[:3]:
        np.testing.assert_allclose(served["probabilities"], probabilities, atol=1e-5)
        assert served["label"] == [LABELS[index] for index in probabilities.argmax(axis=1)]
        assert served["labels"] == [list(LABELS)] * len(TEXTS)
    moved.parent.rename(pair_folder.parent)


def test_an_export_has_the_vocabulary_and_stores_weights_once(model, pair_folder):
    folder = pair_folder
    assert [path.name for path in folder.parent.iterdir()] == ["1"]
    assert (folder / "assets/vocab.txt").read_text("utf-8").split("\n")[:-1] == list(
        VOCABULARY.tokens
    )
    weights = sum(weight.value.numpy().nbytes for weight in model.weights)
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= (
        weights + 3 * 2**20
    )


def test_signatures_of_a_text_model_are_frozen(model, tmp_path, assert_frozen, not_verified):
    folder = export(model, tmp_path / "texts" / "12")
    assert folder == tmp_path / "texts" / "12"
    assert_frozen("classifier", folder)


@pytest.mark.slow
def test_windows_of_pairs_with_many_labels(model, tmp_path, assert_frozen):
    changes = {"num_texts": 2, "stride": 20, "problem_type": "multi_label_classification"}
    folder = export(model, tmp_path / "windows" / "1", **changes)
    assert_frozen("classifier_of_windows", folder)
    texts, pairs = ["the cafe", "word3", "", "word5 word6"], ["the, " * 200, "", *TEXTS[2:4]]
    tokenizer = WordPieceTokenizer(VOCABULARY, lowercase=True)
    ids = tuple(tokenizer.ids_batch(column) for column in (texts, pairs))
    arguments = {"max_length": 48, "stride": 20, "vocabulary": VOCABULARY, "locations": texts}
    inputs, _ = windows_of(ids, np.arange(4), **arguments).batch(np.arange(4))
    probabilities = tf.sigmoid(model(inputs, training=False)).numpy()
    assert inputs["input_ids"].shape[:2] == (4, 19)
    assert np.ptp(probabilities[:, 0]) > 0.01
    outputs = run_requests(
        folder,
        [
            {"signature": "serving_default", "inputs": {"text": texts, "text_pair": pairs}},
            {"signature": "tensors", "inputs": {n: each.tolist() for n, each in inputs.items()}},
            {"signature": "serving_default", "inputs": {"text": ["x"], "text_pair": ["the"]}},
        ],
    )
    for served in outputs[:2]:
        np.testing.assert_allclose(served["probabilities"], probabilities, atol=1e-5)
        assert served["label"] == [
            ",".join(np.array(LABELS)[row >= 0.5].tolist()) for row in probabilities
        ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": ["no", "yes"]}, "there are 2 labels for 3 logits"),
        ({"max_length": 2}, "max_length is 2; expected more than the 2 special tokens"),
        ({"max_length": 3, "num_texts": 2}, "max_length is 3; expected more than the 3"),
        ({"max_length": 65}, "65 tokens, but the encoder has 64 positions"),
        ({"num_texts": 3}, "num_texts is 3; expected 1 or 2"),
        ({"stride": 0}, "stride is 0; expected a number of tokens, at least 1"),
        ({"problem_type": "regression"}, "a regression has 3 labels; expected 1"),
        (
            {"vocabulary": Vocabulary((*VOCABULARY.tokens, "more"))},
            "the vocabulary has 30523 tokens and the model has 30522",
        ),
    ],
)
def test_inconsistent_arguments_are_refused(model, tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        export(model, tmp_path / "name" / "1", **changes)
    assert not list(tmp_path.rglob("*.pb")) and not list(tmp_path.glob("name/*"))
