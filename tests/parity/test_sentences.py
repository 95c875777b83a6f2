"""Sentence vectors against the published model's own, through sentence-transformers and through
transformers with the pooling that the model's folder names."""

import json

import numpy as np
import pytest

from bert_keras.models.encoder import BertEncoder
from bert_keras.text.packing import pack

pytest.importorskip("torch", reason='needs PyTorch: pip install "bert-keras[parity]"')
pytest.importorskip("transformers", reason='needs "bert-keras[parity]"')
pytestmark = pytest.mark.extra

SENTENCES = [
    "Where can I moor a boat?",
    "There is a landing stage below the bridge.",
    "Boats may tie up along the east side of the harbour.",
    "Deposits are insured up to a fixed amount.",
    "Der Zug nach Köln fährt um 8:05 Uhr ab.",
    "日本語の文。 Ça va? naïve café — 100 %",
    "Words " * 400 + "beyond the 256 pieces that it reads.",
    "",
]


@pytest.fixture(scope="module")
def ours(real_weights):
    """The mean of the states, of length 1: modules.json and 1_Pooling/config.json."""
    modules = json.loads((real_weights / "modules.json").read_text("utf-8"))
    assert [m["type"].split(".")[-1] for m in modules] == ["Transformer", "Pooling", "Normalize"]
    pooling = json.loads((real_weights / "1_Pooling/config.json").read_text("utf-8"))
    assert [name for name, value in pooling.items() if value is True] == [
        "pooling_mode_mean_tokens"
    ]
    longest = json.loads((real_weights / "sentence_bert_config.json").read_text("utf-8"))
    encoder = BertEncoder.from_pretrained(real_weights)
    inputs = pack(
        encoder.tokenizer.ids_batch(SENTENCES),
        vocabulary=encoder.tokenizer.vocabulary,
        max_length=longest["max_seq_length"],
    )
    mask_BT1 = inputs["input_mask"][:, :, None]
    states_BTD = encoder.predict_on_batch(inputs)["sequence_output"]
    sums_BD = (states_BTD * mask_BT1).sum(axis=1)
    return sums_BD / np.linalg.norm(sums_BD, axis=1, keepdims=True)


def assert_equal(ours, theirs):
    """Vectors and similarities, ten times closer than the 1e-4 asked for."""
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)
    np.testing.assert_allclose(ours @ ours.T, theirs @ theirs.T, rtol=0, atol=1e-5)
    assert np.ptp(theirs @ theirs.T) > 0.9


def test_sentence_transformers(ours, real_weights):
    package = pytest.importorskip(
        "sentence_transformers", reason='needs sentence-transformers: "bert-keras[parity]"'
    )
    model = package.SentenceTransformer(str(real_weights), device="cpu")
    assert_equal(ours, model.encode(SENTENCES))


def test_transformers(ours, real_weights):
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(real_weights)
    model = transformers.BertModel.from_pretrained(real_weights).eval()
    inputs = tokenizer(
        SENTENCES, padding=True, truncation=True, max_length=256, return_tensors="pt"
    )
    with torch.no_grad():
        states = model(**inputs).last_hidden_state
    sums = (states * inputs["attention_mask"][:, :, None]).sum(dim=1)
    assert_equal(ours, torch.nn.functional.normalize(sums, dim=1).numpy())
