"""Entities in a graph, and their parts, equal those of `predict`."""

import dataclasses
import random

import numpy as np
import pytest
import tensorflow as tf

from bert_keras import BertTokenClassifier
from bert_keras.downstream.ner.task import NER_TASK
from bert_keras.exporting.verify import run_requests
from bert_keras.kinds.words import bio_tags
from bert_keras.runs.export import export
from bert_keras.text.tokenizer import WordPieceTokenizer
from tests.factories import assert_served, letter_vocabulary, tiny_config, with_noise

VOCABULARY = letter_vocabulary("the", "北", "京", "ß", "😀")
TOKENIZER = WordPieceTokenizer(VOCABULARY)
LABELS = ("O", "B-LOC", "I-LOC", "PER", "I-a-b")
TASK = dataclasses.replace(NER_TASK, max_length=24, labels=LABELS)
RNG = random.Random(1)
TEXTS = [
    "It was Zoe\u0308, in Cafe\u0301 北京 ß 😀 I\u0307\u200b!",
    "",
    "Jose\u0301 said, 'in 1984', " * 12,
    "\u00a0 the \x00\ufffd end\u0301\n",
    " ".join(str(number * number) for number in range(150)),
    *("".join(RNG.choices(["aa\u0301 ", "b, ", "ca"], k=RNG.randrange(9))) for _ in range(99)),
]


@pytest.fixture(scope="module")
def model():
    model = BertTokenClassifier(tiny_config(vocab_size=len(VOCABULARY)), num_labels=5)
    fields = {"max_length": 24, "labels": LABELS, "task": TASK.settings()}
    model.metadata = dataclasses.replace(model.new_metadata(), **fields)
    return with_noise(model, seed=3)


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved_models") / "ner" / "1"
    return export(model, folder, tokenizer=TOKENIZER)


def request(texts):
    return {"signature": "serving_default", "inputs": {"text": texts}}


def test_entities_equal_those_of_predict(model, folder, assert_frozen):
    assert_frozen("token_labels", folder)
    inputs = {
        "input_ids": [[2, 9, 8, 3], [2, 7, 3, 0]],
        "input_mask": [[1, 1, 1, 1], [1, 1, 1, 0]],
        "segment_ids": [[0] * 4] * 2,
    }
    requests = [request(TEXTS), request(TEXTS[:1]), request(["", " \0"])]
    together, single, empty, tensors = run_requests(
        folder, [*requests, {"signature": "tensors", "inputs": inputs}]
    )
    model.tokenizer = TOKENIZER
    expected = model.predict(TEXTS)
    assert sum(len(each["entities"]) for each in expected) > 50
    assert_served(together, expected)
    assert_served(single, expected[:1])
    assert len(empty) == 5 and all(each == [[], []] for each in empty.values())
    logits = model({name: np.array(rows) for name, rows in inputs.items()}, training=False)
    probabilities = tf.nn.softmax(logits).numpy()
    probabilities[1, 3] = 0  # padding
    np.testing.assert_allclose(tensors["probabilities"], probabilities, atol=1e-5)
    assert tensors["label_ids"] == probabilities.argmax(axis=-1).tolist()
    assert tensors["label_names"] == [list(LABELS)] * 2
    assert bio_tags(["O", "B-X", "I-X", "PER", "B-"]) == ["O", "B-X", "I-X", "I-PER", "I-B-"]
    assert bio_tags(["NOUN", "VERB"]) == ["B-NOUN", "B-VERB"]  # each word is an entity
