import dataclasses
from functools import partial

import keras
import numpy as np
import pytest

from bert_keras.checkpoints.pretrained import save_model
from bert_keras.config import BertConfig, ModelMetadata
from bert_keras.downstream.batches import Predictor
from bert_keras.downstream.ner.tags import Sentence, entities, read_conll
from bert_keras.downstream.ner.task import NER_TASK
from bert_keras.errors import InputError
from bert_keras.exporting.export import export
from bert_keras.exporting.saved_model import write_saved_model
from bert_keras.exporting.signatures.token_classifier import served_token_labels
from bert_keras.exporting.verify import run_requests
from bert_keras.models import BertTokenClassifier
from bert_keras.text.google_words import google_words
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,?!'#@:/-"
VOCABULARY = Vocabulary(
    (*SPECIAL_TOKENS, *LETTERS, *(f"##{each}" for each in LETTERS), "the", "北", "京", "ß", "😀")
)
LABELS = ("O", "B-LOC", "B-PER", "I-LOC", "I-PER")
TASK = dataclasses.replace(NER_TASK, max_length=24, labels=LABELS)
TEXTS = [
    "It was Zoe\u0308, in Cafe\u0301 北京 ß 😀 I\u0307\u200b!",
    "",
    "Jose\u0301 said, 'in 1984', " * 12,
    "\u00a0 the \x00\ufffd end\u0301\n",
    " ".join(str(number * number) for number in range(150)),
]


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(3)
    config = BertConfig(
        vocab_size=len(VOCABULARY), hidden_size=32, num_layers=2, num_heads=2, max_positions=64
    )
    model = BertTokenClassifier(config, num_labels=5)
    for weight in model.weights:  # initial weights give nearly equal outputs
        weight.assign(weight + keras.random.normal(weight.shape, stddev=0.3))
    return model


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    metadata = ModelMetadata(
        model="BertTokenClassifier",
        config=model.config,
        lowercase=True,
        max_length=24,
        labels=LABELS,
        task=TASK.settings(),
    )
    parent = tmp_path_factory.mktemp("saved_models")
    save_model(model, parent / "model", metadata=metadata, vocabulary=VOCABULARY)
    return export(parent / "model", parent / "ner" / "1")


def offline(model, texts):
    """Returns the entities of each text by the code of evaluation: start, end without combining
    marks, and type."""
    words = [google_words(text, lowercase=True) for text in texts]
    sentences = [Sentence(tuple(word.text for word in row), None, 0, 1) for row in words if row]
    encoded = TASK.encode(sentences, WordPieceTokenizer(VOCABULARY))
    outputs, _ = Predictor(model)(encoded, batch_size=8)
    tags = iter(TASK.predictions(sentences, encoded, outputs))
    entities_of_texts = []
    for row in words:
        spans = entities(next(tags)) if row else ()
        entities_of_texts.append(
            [
                (min(row[first].indices), max(row[after - 1].indices) + 1, kind)
                for first, after, kind in spans
            ]
        )
    return entities_of_texts


def assert_entities_are(outputs, texts, expected):
    assert max(map(len, expected)) == len(outputs["entities"][0])
    for row, (text, entities_of_text) in enumerate(zip(texts, expected, strict=True)):
        for column, (start, end, kind) in enumerate(entities_of_text):
            cut = outputs["entities"][row][column]
            assert cut.startswith(text[start:end]) and len(cut) - (end - start) in (0, 1)
            assert outputs["starts"][row][column] == start
            assert outputs["ends"][row][column] == start + len(cut)
            assert outputs["labels"][row][column] == kind
            assert 0.2 <= outputs["scores"][row][column] <= 1
        count = len(entities_of_text)
        assert not any(outputs["entities"][row][count:])
        assert set(outputs["starts"][row][count:]) <= {-1}


def request(texts):
    return {"signature": "serving_default", "inputs": {"text": texts}}


def test_signatures_are_frozen(folder, assert_frozen):
    assert_frozen("token_labels", folder)


def test_entities_equal_those_of_evaluation(model, folder):
    inputs = {
        "input_ids": [[2, 9, 8, 3], [2, 7, 3, 0]],
        "input_mask": [[1, 1, 1, 1], [1, 1, 1, 0]],
        "segment_ids": [[0] * 4] * 2,
    }
    together, single, empty, tensors = run_requests(
        folder,
        [
            request(TEXTS),
            request(TEXTS[:1]),
            request(["", " \0"]),
            {"signature": "tensors", "inputs": inputs},
        ],
    )
    expected = offline(model, TEXTS)
    assert sum(map(len, expected)) > 20
    assert_entities_are(together, TEXTS, expected)
    assert_entities_are(single, TEXTS[:1], expected[:1])
    assert len(empty) == 5 and all(each == [[], []] for each in empty.values())
    logits = model({name: np.array(rows) for name, rows in inputs.items()}, training=False)
    odds = np.exp(np.asarray(logits))
    probabilities = odds / odds.sum(axis=-1, keepdims=True)
    probabilities[1, 3] = 0  # padding
    np.testing.assert_allclose(tensors["probabilities"], probabilities, atol=1e-5)
    assert tensors["label_ids"] == probabilities.argmax(axis=-1).tolist()
    assert tensors["label_names"] == [list(LABELS)] * 2


def test_a_wrong_number_of_labels_is_refused(model, tmp_path):
    with pytest.raises(InputError, match="there are 2 labels for 5 logits"):
        write_saved_model(
            model,
            tmp_path / "ner" / "1",
            make=partial(served_token_labels, labels=("O", "B-X")),
            tokenizer=WordPieceTokenizer(VOCABULARY),
            max_length=24,
        )


@pytest.mark.slow
def test_entities_of_real_sentences_equal_those_of_evaluation(model, folder, shared_data):
    """The weights are random; the entities equal those of evaluation."""
    sentences = read_conll(shared_data / "ner/wnut17/dev.conll")[:60]
    texts = [" ".join(sentence.words) for sentence in sentences]
    (outputs,) = run_requests(folder, [request(texts)])
    assert_entities_are(outputs, texts, offline(model, texts))
