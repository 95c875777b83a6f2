"""The signatures of a masked language model predict the same tokens as the Keras model."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.config import BertConfig
from bert_keras.downstream.task import softmax
from bert_keras.exporting.export import export
from bert_keras.exporting.saved_model import write_saved_model
from bert_keras.exporting.signatures.masked_lm import NUM_TOKENS, served_masked_lm
from bert_keras.exporting.text_ops.text_to_inputs import MaskedTextToInputs
from bert_keras.exporting.verify import run_requests
from bert_keras.models import BertMaskedLM, BertPretrainer
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import WordPieceTokenizer, ids_with_masks
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

WORDS = "he she opens the cafe ##s door sings sleeps 東 , . [ ] mask ignore x"
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *WORDS.split()))
TOKENIZER = WordPieceTokenizer(VOCABULARY, lowercase=True)
ARGUMENTS = {"tokenizer": TOKENIZER, "max_length": 16}
CONFIG = BertConfig(
    vocab_size=len(VOCABULARY) + 3, hidden_size=32, num_layers=2, num_heads=2, max_positions=16
)
TEXTS = [
    "He [MASK] the door, [MASK] sings.",
    "no such word",
    "",
    "[MASK]東京 Café\u200b 😀 [mask]",
    "x " * 12 + "[MASK] [MASK] [MASK]",  # two masks fit
]


@pytest.fixture(scope="module")
def pretrainer(tmp_path_factory):
    """Returns a model, whose outputs differ between positions, and its export."""
    model = BertPretrainer(CONFIG)
    keras.utils.set_random_seed(7)
    for weight in model.weights:
        weight.assign(weight + keras.random.normal(weight.shape, stddev=0.3))
    folder = tmp_path_factory.mktemp("models") / "pretrainer" / "1"
    arguments = {"make": served_masked_lm, "reader": MaskedTextToInputs, **ARGUMENTS}
    return model, write_saved_model(model, folder, **arguments)


def best_tokens(model, text: str) -> list[list[tuple[str, float]]]:
    """Returns the most probable tokens of each mask of one text, with their probabilities."""
    inputs = pack(ids_with_masks([text], TOKENIZER), vocabulary=VOCABULARY, max_length=16)
    mask_positions = np.flatnonzero(inputs["input_ids"][0] == VOCABULARY.mask_id)
    positions = np.array([[0, *mask_positions]], np.int32)  # at least one
    outputs = model({**inputs, "masked_lm_positions": positions}, training=False)
    probabilities = softmax(np.asarray(outputs["masked_lm"])[0, 1:, : len(VOCABULARY)])
    best = np.argsort(-probabilities, axis=1)[:, :NUM_TOKENS]
    return [
        [(VOCABULARY.tokens[token_id], row[token_id]) for token_id in token_ids]
        for token_ids, row in zip(best, probabilities, strict=True)
    ]


def assert_best_tokens(model, served, *, num_masks: int):
    assert np.shape(served["pieces"]) == np.shape(served["probabilities"])
    assert np.shape(served["pieces"])[1] == num_masks
    for row, text in enumerate(TEXTS):
        expected = best_tokens(model, text)
        padding = [[("", 0)] * NUM_TOKENS] * (num_masks - len(expected))
        for index, best in enumerate([*expected, *padding]):
            tokens, probabilities = zip(*best, strict=True)
            assert served["pieces"][row][index] == list(tokens)
            np.testing.assert_allclose(
                served["probabilities"][row][index], probabilities, atol=1e-5
            )


def test_signatures_are_frozen(pretrainer, assert_frozen):
    assert_frozen("pretrainer", pretrainer[1])


@pytest.mark.slow
def test_signatures_of_a_masked_lm_are_frozen(tmp_path, assert_frozen):
    model = BertMaskedLM(dataclasses.replace(CONFIG, vocab_size=len(VOCABULARY)))
    model.save_pretrained(tmp_path / "model", tokenizer=TOKENIZER)
    assert_frozen("masked_lm", export(tmp_path / "model", tmp_path / "masked_lm" / "1"))


def test_texts_with_several_masks_one_and_none(pretrainer):
    model, folder = pretrainer
    ids = ids_with_masks(TEXTS, TOKENIZER)
    inputs = pack(ids, vocabulary=VOCABULARY, max_length=16)
    positions = np.zeros((len(TEXTS), 4), np.int32)
    for row, each in enumerate(inputs["input_ids"]):
        mask_positions = np.flatnonzero(each == VOCABULARY.mask_id)
        positions[row, : len(mask_positions)] = mask_positions
    tensors = {**inputs, "masked_lm_positions": positions}
    texts, arrays = run_requests(
        folder,
        [
            {"signature": "serving_default", "inputs": {"text": TEXTS}},
            {"signature": "tensors", "inputs": {n: each.tolist() for n, each in tensors.items()}},
        ],
    )
    assert (positions > 0).sum(axis=1).tolist() == [2, 0, 0, 1, 2]
    assert_best_tokens(model, texts, num_masks=2)
    assert_best_tokens(model, arrays, num_masks=4)
    logits = model(tensors, training=False)["next_sentence"]
    expected = softmax(np.asarray(logits))[:, 0]
    np.testing.assert_allclose(arrays["is_next_probability"], expected, atol=1e-5)


def test_texts_without_masks_have_empty_outputs(pretrainer):
    signature = tf.saved_model.load(str(pretrainer[1])).signatures["serving_default"]
    served = signature(text=tf.constant(["the door", ""]))
    assert served["pieces"].shape == served["probabilities"].shape == (2, 0, NUM_TOKENS)


def test_next_sentence_probabilities_equal_keras(pretrainer):
    model, folder = pretrainer
    pairs = {"text": ["he sings", "", "[MASK] x"], "text_pair": ["the 東 [MASK]", "x " * 30, ""]}
    (served,) = run_requests(folder, [{"signature": "next_sentence", "inputs": pairs}])
    ids = [ids_with_masks(column, TOKENIZER) for column in pairs.values()]
    inputs = pack(*ids, vocabulary=VOCABULARY, max_length=16)
    positions = np.zeros((3, 1), np.int32)
    logits = model({**inputs, "masked_lm_positions": positions}, training=False)["next_sentence"]
    expected = softmax(np.asarray(logits))[:, 0]
    assert np.ptp(expected) > 0.01
    np.testing.assert_allclose(served["is_next_probability"], expected, atol=1e-5)


def test_positions_outside_of_a_row_are_padding(pretrainer):
    """Otherwise they would read another row, which can belong to another request of a batch."""
    signature = tf.saved_model.load(str(pretrainer[1])).signatures["tensors"]
    row = tf.ones([2, 4], tf.int32)
    inputs = {"input_ids": row, "input_mask": row, "segment_ids": row - 1}
    positions = tf.constant([[1, 4, 7], [-1, 3, 99]])
    served = signature(**inputs, masked_lm_positions=positions)
    expected = [[True, False, False], [False, True, False]]
    assert (served["probabilities"].numpy() > 0).all(axis=2).tolist() == expected
    assert (served["pieces"].numpy() != b"").all(axis=2).tolist() == expected
