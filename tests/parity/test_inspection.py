"""The page of `bert-keras inspect` tells what transformers tells of the same weights and texts."""

import shutil

import numpy as np
import pytest

from bert_keras.downstream.task import softmax
from bert_keras.reports.inspection import inspect_texts
from tests.inspected import data_of, weights_of

pytest.importorskip("torch", reason='needs PyTorch: pip install "bert-keras[parity]"')
transformers = pytest.importorskip("transformers", reason='needs "bert-keras[parity]"')
pytestmark = pytest.mark.extra

import their_side  # noqa: E402

TEXTS = ["He sat on the bank of the river.", "The bank lends money to 10,000 people."]
PRECISION = 2e-5  # of a probability: half a step of the page, and rounding


def encoded(folder, *texts):
    """The inputs as transformers makes them, and its pieces."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    data = tokenizer(*texts, return_tensors="np")
    names = {
        "input_ids": "input_ids",
        "attention_mask": "input_mask",
        "token_type_ids": "segment_ids",
    }
    tokens = tokenizer.convert_ids_to_tokens(data["input_ids"][0])
    return {ours: data[theirs] for theirs, ours in names.items()}, tokens


@pytest.mark.parametrize("texts", [TEXTS[:1], TEXTS], ids=["one", "pair"])
def test_attention_with_real_weights(real_weights, tmp_path, texts):
    inspect_texts(real_weights, texts, output=tmp_path / "page.html")
    data = data_of(tmp_path / "page.html")
    batch, tokens = encoded(real_weights, *texts)
    outputs = their_side.outputs(their_side.real_reference("BertEncoder", real_weights), batch)
    expected = [outputs[f"attentions/{layer}"][0] for layer in range(data["num_layers"])]
    np.testing.assert_allclose(weights_of(data), np.stack(expected), rtol=0, atol=PRECISION)
    assert data["attention"]["tokens"] == tokens
    assert data["masked"] == {"missing": "BertSentenceEncoder"}


def test_masked_words_with_a_random_head(real_weights, tmp_path):
    reference = their_side.real_reference("BertMaskedLM", real_weights)
    reference.save_pretrained(tmp_path / "model")
    for name in ("vocab.txt", "tokenizer_config.json"):
        shutil.copy(real_weights / name, tmp_path / "model")
    text = "The [MASK] lends [MASK]."
    inspect_texts(tmp_path / "model", [text], output=tmp_path / "page.html", num_tokens=5)
    batch, tokens = encoded(real_weights, text)
    probabilities = softmax(their_side.outputs(reference, batch)["masked_lm"][0])
    data = data_of(tmp_path / "page.html")["masked"]["predictions"]
    masks = [at for at, token in enumerate(tokens) if token == "[MASK]"]
    assert [each["position"] for each in data] == masks
    for each in data:
        expected = np.sort(probabilities[each["position"]])[::-1][:5]
        np.testing.assert_allclose(
            [probability for _, probability in each["top"]], expected, rtol=1e-4
        )
