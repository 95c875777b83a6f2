"""Log-likelihoods of sentences, written out and as in minicons, and scores of minimal pairs."""

import json

import numpy as np
import pytest

from bert_keras import BertMaskedLM
from bert_keras.downstream.minimal_pairs import log_likelihoods
from bert_keras.errors import InputError
from bert_keras.runs.evaluate import evaluate
from bert_keras.text.tokenizer import WordPieceTokenizer
from tests.factories import LINES, random_model, tiny_vocabulary

TOKENIZER = WordPieceTokenizer(tiny_vocabulary())
KEYS = ("UID", "field", "sentence_good", "sentence_bad")
ROWS = [("a", "x", "a film", "a films"), ("a", "x", "good", "bad"), ("b", "x", "is", "the was")]


def log_likelihood(model, text):
    ids_T, mask = TOKENIZER([text])["input_ids"][0], TOKENIZER.vocabulary.mask_id
    masked_P1 = np.arange(1, len(ids_T) - 1)[:, None]
    ids_PT = np.where(np.arange(len(ids_T)) == masked_P1, mask, ids_T)
    inputs = {"input_ids": ids_PT, "masked_lm_positions": masked_P1}
    logits_PV = np.asarray(model(inputs)["masked_lm"])[:, 0].astype("float64")
    targets_P1 = np.take_along_axis(logits_PV, ids_T[masked_P1], axis=1)
    return targets_P1.sum() - np.log(np.exp(logits_PV).sum(axis=1)).sum()


def test_a_folder_of_minimal_pairs(tmp_path):
    model = random_model("BertMaskedLM")
    model.tokenizer = TOKENIZER
    lines = [json.dumps(dict(zip(KEYS, row, strict=True))) for row in ROWS]
    data = tmp_path / "pairs"
    data.mkdir()
    (data / "pairs.jsonl").write_text("\n".join(lines))
    expected_N2 = np.array([[log_likelihood(model, text) for text in row[2:]] for row in ROWS])
    actual = log_likelihoods(model, [text for row in ROWS for text in row[2:]])
    np.testing.assert_allclose(actual, expected_N2.flat, rtol=0, atol=1e-4)
    a, other, b = (expected_N2[:, 0] > expected_N2[:, 1]).astype(float).tolist()
    mean, page = (a + other + 2 * b) / 4, tmp_path / "page.html"
    scores = {"accuracy": mean, "field x": mean, "paradigm a": (a + other) / 2, "paradigm b": b}
    assert evaluate(model, task="blimp", data=data, report=page) == scores
    assert "<h2>Paradigm</h2>" in page.read_text()
    with pytest.raises(InputError):
        evaluate(random_model("BertMaskedLM", config={"is_causal": True}), task="blimp", data=data)


@pytest.mark.extra
def test_minicons(tmp_path):
    transformers = pytest.importorskip("transformers", reason='needs "bert-keras[parity]"')
    scorer = pytest.importorskip("minicons.scorer", reason='needs "bert-keras[parity]"')
    texts, folder = [*LINES, "The unbanks was filming", "zebras", "a " * 40], tmp_path / "model"
    model = random_model("BertMaskedLM", max_length=64)
    model.save_pretrained(folder, tokenizer=TOKENIZER, format="huggingface")
    theirs = transformers.BertForMaskedLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    theirs = scorer.MaskedLMScorer(theirs, "cpu", tokenizer=tokenizer)
    # Given texts, minicons calls a method of tokenizers that transformers 5 lacks.
    encoded = tokenizer(texts, padding=True, return_tensors="pt")
    scores = theirs.compute_stats(theirs.prepare_text(encoded))
    expected = [sum(values) for values in scores]
    ours = BertMaskedLM.from_pretrained(folder)
    np.testing.assert_allclose(log_likelihoods(ours, texts), expected, rtol=0, atol=1e-4)
