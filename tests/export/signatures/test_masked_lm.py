"""A served model of masked words fills in what the Keras model would."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.config import BertConfig
from bert_keras.export.model_folder import export_model
from bert_keras.export.saved_model import write_saved_model
from bert_keras.export.signatures.masked_lm import NUM_PIECES, served_masked_lm
from bert_keras.export.text_ops.text_to_inputs import MaskedTextToInputs
from bert_keras.export.verify import answer
from bert_keras.models import BertMaskedLM, BertPretrainer
from bert_keras.tasks.task import softmax
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import WordPieceTokenizer, ids_with_masks
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary

WORDS = "he she opens the cafe ##s door sings sleeps 東 , . [ ] mask ignore x"
VOCABULARY = Vocabulary((*SPECIAL_PIECES, *WORDS.split()))
TOKENIZER = WordPieceTokenizer(VOCABULARY, lowercase=True)
PARTS = {"tokenizer": TOKENIZER, "max_length": 16}
CONFIG = BertConfig(
    vocab_size=len(VOCABULARY) + 3, hidden_size=32, num_layers=2, num_heads=2, max_positions=16
)
TEXTS = [
    "He [MASK] the door, [MASK] sings.",
    "no such word",
    "",
    "[MASK]東京 Café\u200b 😀 [mask]",
    "x " * 12 + "[MASK] [MASK] [MASK]",  # two fit
]


@pytest.fixture(scope="module")
def pretrainer(tmp_path_factory):
    """A model with weights far from the start, where all answers are alike, and its export."""
    model = BertPretrainer(CONFIG)
    keras.utils.set_random_seed(7)
    for weight in model.weights:
        weight.assign(weight + keras.random.normal(weight.shape, stddev=0.3))
    folder = tmp_path_factory.mktemp("models") / "pretrainer" / "1"
    parts = {"make": served_masked_lm, "reader": MaskedTextToInputs, **PARTS}
    return model, write_saved_model(model, folder, **parts)


def filled(model, text: str) -> list[list[tuple[str, float]]]:
    """The best pieces of each mask of one text alone."""
    inputs = pack(ids_with_masks([text], TOKENIZER), vocabulary=VOCABULARY, max_length=16)
    places = np.flatnonzero(inputs["input_ids"][0] == VOCABULARY.mask_id)
    positions = np.array([[0, *places]], np.int32)  # one at least
    outputs = model({**inputs, "masked_lm_positions": positions}, training=False)
    shares = softmax(np.asarray(outputs["masked_lm"])[0, 1:, : len(VOCABULARY)])
    best = np.argsort(-shares, axis=1)[:, :NUM_PIECES]
    return [
        [(VOCABULARY.pieces[number], row[number]) for number in numbers]
        for numbers, row in zip(best, shares, strict=True)
    ]


def assert_filled(model, served, *, num_masks: int):
    assert np.shape(served["pieces"]) == np.shape(served["probabilities"])
    assert np.shape(served["pieces"])[1] == num_masks
    for row, text in enumerate(TEXTS):
        expected = filled(model, text)
        nothing = [[("", 0)] * NUM_PIECES] * (num_masks - len(expected))
        for place, best in enumerate([*expected, *nothing]):
            pieces, shares = zip(*best, strict=True)
            assert served["pieces"][row][place] == list(pieces)
            np.testing.assert_allclose(served["probabilities"][row][place], shares, atol=1e-5)


def test_signatures_are_frozen(pretrainer, assert_frozen):
    assert_frozen("pretrainer", pretrainer[1])


@pytest.mark.slow
def test_signatures_of_a_masked_lm_are_frozen(tmp_path, assert_frozen):
    model = BertMaskedLM(dataclasses.replace(CONFIG, vocab_size=len(VOCABULARY)))
    model.save_pretrained(tmp_path / "ours", tokenizer=TOKENIZER)
    assert_frozen("masked_lm", export_model(tmp_path / "ours", tmp_path / "masked_lm" / "1"))


def test_several_masks_one_and_none(pretrainer):
    model, folder = pretrainer
    ids = ids_with_masks(TEXTS, TOKENIZER)
    inputs = pack(ids, vocabulary=VOCABULARY, max_length=16)
    positions = np.zeros((len(TEXTS), 4), np.int32)
    for row, each in enumerate(inputs["input_ids"]):
        places = np.flatnonzero(each == VOCABULARY.mask_id)
        positions[row, : len(places)] = places
    tensors = {**inputs, "masked_lm_positions": positions}
    texts, arrays = answer(
        folder,
        [
            {"signature": "serving_default", "inputs": {"text": TEXTS}},
            {"signature": "tensors", "inputs": {n: each.tolist() for n, each in tensors.items()}},
        ],
    )
    assert (positions > 0).sum(axis=1).tolist() == [2, 0, 0, 1, 2]
    assert_filled(model, texts, num_masks=2)
    assert_filled(model, arrays, num_masks=4)
    logits = model(tensors, training=False)["next_sentence"]
    expected = softmax(np.asarray(logits))[:, 0]
    np.testing.assert_allclose(arrays["is_next_probability"], expected, atol=1e-5)


def test_texts_without_any_mask_have_an_empty_answer(pretrainer):
    signature = tf.saved_model.load(str(pretrainer[1])).signatures["serving_default"]
    served = signature(text=tf.constant(["the door", ""]))
    assert served["pieces"].shape == served["probabilities"].shape == (2, 0, NUM_PIECES)


def test_the_next_sentence(pretrainer):
    model, folder = pretrainer
    pairs = {"text": ["he sings", "", "[MASK] x"], "text_pair": ["the 東 [MASK]", "x " * 30, ""]}
    (served,) = answer(folder, [{"signature": "next_sentence", "inputs": pairs}])
    ids = [ids_with_masks(column, TOKENIZER) for column in pairs.values()]
    inputs = pack(*ids, vocabulary=VOCABULARY, max_length=16)
    positions = np.zeros((3, 1), np.int32)
    logits = model({**inputs, "masked_lm_positions": positions}, training=False)["next_sentence"]
    expected = softmax(np.asarray(logits))[:, 0]
    assert np.ptp(expected) > 0.01
    np.testing.assert_allclose(served["is_next_probability"], expected, atol=1e-5)


def test_a_position_outside_of_a_row_is_none(pretrainer):
    """It would read another row, which under batching is another request's."""
    signature = tf.saved_model.load(str(pretrainer[1])).signatures["tensors"]
    row = tf.ones([2, 4], tf.int32)
    asked = {"input_ids": row, "input_mask": row, "segment_ids": row - 1}
    positions = tf.constant([[1, 4, 7], [-1, 3, 99]])
    served = signature(**asked, masked_lm_positions=positions)
    is_told = [[True, False, False], [False, True, False]]
    assert (served["probabilities"].numpy() > 0).all(axis=2).tolist() == is_told
    assert (served["pieces"].numpy() != b"").all(axis=2).tolist() == is_told
