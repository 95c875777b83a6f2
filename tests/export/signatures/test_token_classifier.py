import dataclasses
from functools import partial

import keras
import numpy as np
import pytest

from bert_keras.checkpoints.card import ModelCard
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.export.model_folder import export_model
from bert_keras.export.saved_model import write_saved_model
from bert_keras.export.signatures.token_classifier import served_token_labels
from bert_keras.export.verify import answer
from bert_keras.models import BertTokenClassifier
from bert_keras.models.pretrained import save_model
from bert_keras.tasks.batches import Predictor
from bert_keras.tasks.ner.files import Sentence, read_conll
from bert_keras.tasks.ner.scoring import entities
from bert_keras.tasks.ner.task import NER_TASK
from bert_keras.text.google_words import google_words
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,?!'#@:/-"
VOCABULARY = Vocabulary(
    (*SPECIAL_PIECES, *LETTERS, *(f"##{each}" for each in LETTERS), "the", "北", "京", "ß", "😀")
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
    for weight in model.weights:  # far from the start, where all answers are alike
        weight.assign(weight + keras.random.normal(weight.shape, stddev=0.3))
    return model


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    card = ModelCard(
        model="BertTokenClassifier",
        config=model.config,
        lowercase=True,
        max_length=24,
        labels=LABELS,
        task=TASK.settings(),
    )
    place = tmp_path_factory.mktemp("saved_models")
    save_model(model, place / "ours", card=card, vocabulary=VOCABULARY)
    return export_model(place / "ours", place / "ner" / "1")


def offline(model, texts):
    """Entities of each text by the code of evaluation, which reads words one by one: first and
    last character, text without marks behind, type."""
    words = [google_words(text, lowercase=True) for text in texts]
    sentences = [
        Sentence(tuple(word.text for word in of_text), None, 0, 1) for of_text in words if of_text
    ]
    encoded = TASK.encode(sentences, WordPieceTokenizer(VOCABULARY))
    outputs, _ = Predictor(model)(encoded, batch_size=8)
    tags = iter(TASK.predictions(sentences, encoded, outputs))
    found = []
    for of_text in words:
        spans = entities(next(tags)) if of_text else ()
        found.append(
            [
                (min(of_text[first].places), max(of_text[after - 1].places) + 1, kind)
                for first, after, kind in spans
            ]
        )
    return found


def assert_entities_are(answer, texts, expected):
    assert max(map(len, expected)) == len(answer["entities"][0])
    for row, (text, entities_of_text) in enumerate(zip(texts, expected, strict=True)):
        for column, (start, end, kind) in enumerate(entities_of_text):
            cut = answer["entities"][row][column]
            assert cut.startswith(text[start:end]) and len(cut) - (end - start) in (0, 1)
            assert answer["starts"][row][column] == start
            assert answer["ends"][row][column] == start + len(cut)
            assert answer["labels"][row][column] == kind
            assert 0.2 <= answer["scores"][row][column] <= 1
        count = len(entities_of_text)
        assert not any(answer["entities"][row][count:])
        assert set(answer["starts"][row][count:]) <= {-1}


def request(texts):
    return {"signature": "serving_default", "inputs": {"text": texts}}


def test_signatures_are_frozen(folder, assert_frozen):
    assert_frozen("token_labels", folder)


def test_entities_are_those_of_evaluation(model, folder):
    inputs = {
        "input_ids": [[2, 9, 8, 3], [2, 7, 3, 0]],
        "input_mask": [[1, 1, 1, 1], [1, 1, 1, 0]],
        "segment_ids": [[0] * 4] * 2,
    }
    together, alone, nothing, tensors = answer(
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
    assert_entities_are(alone, TEXTS[:1], expected[:1])
    assert len(nothing) == 5 and all(each == [[], []] for each in nothing.values())
    logits = model({name: np.array(rows) for name, rows in inputs.items()}, training=False)
    odds = np.exp(np.asarray(logits))
    probabilities = odds / odds.sum(axis=-1, keepdims=True)
    probabilities[1, 3] = 0  # padding
    np.testing.assert_allclose(tensors["probabilities"], probabilities, atol=1e-5)
    assert tensors["label_ids"] == probabilities.argmax(axis=-1).tolist()
    assert tensors["label_names"] == [list(LABELS)] * 2


def test_labels_that_do_not_fit_are_refused(model, tmp_path):
    with pytest.raises(InputError, match="2 labels came with 5 logits"):
        write_saved_model(
            model,
            tmp_path / "ner" / "1",
            make=partial(served_token_labels, labels=("O", "B-X")),
            tokenizer=WordPieceTokenizer(VOCABULARY),
            max_length=24,
        )


@pytest.mark.slow
def test_real_sentences(model, folder, shared_data):
    """Random weights, so any entity, but those of evaluation."""
    sentences = read_conll(shared_data / "ner/wnut17/dev.conll")[:60]
    texts = [" ".join(sentence.words) for sentence in sentences]
    (found,) = answer(folder, [request(texts)])
    assert_entities_are(found, texts, offline(model, texts))
