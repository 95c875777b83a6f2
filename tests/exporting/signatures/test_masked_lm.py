"""The signatures of a masked language model predict the same tokens as the Keras model."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras import BertPretrainer
from bert_keras.exporting.signatures.masked_lm import NUM_TOKENS
from bert_keras.exporting.verify import run_requests
from bert_keras.kinds.kind import softmax
from bert_keras.runs.export import export
from bert_keras.text.packing import encode_masked
from tests.exporting.conftest import TOKENIZER, VOCABULARY
from tests.factories import tiny_config, with_noise

CONFIG = tiny_config(vocab_size=len(VOCABULARY) + 3, max_positions=16)
TEXTS = [
    "He [MASK] the door, [MASK] sings.",
    "no such word",
    "",
    "[MASK]東京 Café\u200b 😀 [mask]",
    "x " * 12 + "[MASK] [MASK] [MASK]",  # two masks fit
]


@pytest.fixture(scope="module")
def model():
    return with_noise(BertPretrainer(CONFIG))


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "pretrainer" / "1"
    return export(model, folder, tokenizer=TOKENIZER)


def best_tokens(model, text: str) -> list[list[tuple[str, float]]]:
    """Returns the most probable tokens of each mask of one text, with their probabilities."""
    inputs = encode_masked(TOKENIZER, [text], max_length=16)
    positions = np.pad(inputs["masked_lm_positions"], [(0, 0), (1, 0)])  # at least one
    outputs = model({**inputs, "masked_lm_positions": positions}, training=False)
    probabilities = softmax(np.asarray(outputs["masked_lm"])[0, 1:, : len(VOCABULARY)])
    best = np.argsort(-probabilities, axis=1)[:, :NUM_TOKENS]
    return [
        [(VOCABULARY.tokens[token_id], row[token_id]) for token_id in token_ids]
        for token_ids, row in zip(best, probabilities, strict=True)
    ]


def assert_best_tokens(model, served, *, num_masks: int):
    assert np.shape(served["tokens"]) == np.shape(served["probabilities"])
    assert np.shape(served["tokens"])[1] == num_masks
    for row, text in enumerate(TEXTS):
        expected = best_tokens(model, text)
        padding = [[("", 0)] * NUM_TOKENS] * (num_masks - len(expected))
        for index, best in enumerate([*expected, *padding]):
            tokens, probabilities = zip(*best, strict=True)
            assert served["tokens"][row][index] == list(tokens)
            found = served["probabilities"][row][index]
            np.testing.assert_allclose(found, probabilities, atol=1e-5)


def test_texts_with_several_masks_one_and_none(model, folder, assert_frozen):
    assert_frozen("pretrainer", folder)
    tensors = encode_masked(TOKENIZER, TEXTS, max_length=16)
    positions = np.pad(tensors["masked_lm_positions"], [(0, 0), (0, 2)])
    assert (positions > 0).sum(axis=1).tolist() == [2, 0, 0, 1, 2]
    tensors["masked_lm_positions"] = positions
    texts, default = ["the door", ""], "serving_default"
    requests = [(default, {"text": TEXTS}), (default, {"text": texts}), ("tensors", tensors)]
    requests = [{"signature": signature, "inputs": inputs} for signature, inputs in requests]
    texts, none, arrays = run_requests(folder, requests)
    assert_best_tokens(model, texts, num_masks=2)
    assert_best_tokens(model, arrays, num_masks=4)
    assert none == {"tokens": [[], []], "probabilities": [[], []]}
    logits = model(tensors, training=False)["next_sentence"]
    expected = softmax(np.asarray(logits))[:, 0]
    np.testing.assert_allclose(arrays["is_next_probability"], expected, atol=1e-5)


def test_next_sentence_probabilities_equal_keras(model, folder):
    pairs = {"text": ["he sings", "", "[MASK] x"], "text_pair": ["the 東 [MASK]", "x " * 30, ""]}
    (served,) = run_requests(folder, [{"signature": "next_sentence", "inputs": pairs}])
    inputs = encode_masked(TOKENIZER, *pairs.values(), max_length=16)
    expected = softmax(np.asarray(model(inputs, training=False)["next_sentence"]))[:, 0]
    assert np.ptp(expected) > 0.001
    np.testing.assert_allclose(served["is_next_probability"], expected, atol=1e-5)


def test_positions_outside_of_a_row_are_padding(folder):
    """Otherwise they would read another row, which can belong to another request of a batch."""
    signature = tf.saved_model.load(str(folder)).signatures["tensors"]
    row = tf.ones([2, 4], tf.int32)
    inputs = {"input_ids": row, "input_mask": row, "segment_ids": row - 1}
    positions = tf.constant([[1, 4, 7], [-1, 3, 99]])
    served = signature(**inputs, masked_lm_positions=positions)
    expected = [[True, False, False], [False, True, False]]
    assert (served["probabilities"].numpy() > 0).all(axis=2).tolist() == expected
    assert (served["tokens"].numpy() != b"").all(axis=2).tolist() == expected
