"""The signatures of an encoder return the vectors of the Keras model."""

import dataclasses

import numpy as np
import pytest

from bert_keras import BertEncoder, BertSentenceEncoder
from bert_keras.config import DenseModule, EmbeddingConfig, NormalizeModule
from bert_keras.exporting.verify import run_requests
from bert_keras.runs.export import export
from bert_keras.text.packing import encode
from tests.exporting.conftest import TOKENIZER, VOCABULARY
from tests.factories import tiny_config, with_noise

CONFIG = tiny_config(vocab_size=len(VOCABULARY), max_positions=16)
TEXTS = ["The cafés.", "", "x " * 40, "[MASK] 東x a\u200bb 😀"]


def vectors(model, text: str) -> dict[str, np.ndarray]:
    """Returns the vectors of one text without padding."""
    encoded = model(encode(TOKENIZER, [text], max_length=12), training=False)
    mean = np.asarray(encoded["sequence_output"])[0].mean(axis=0)
    expected = {"embedding": mean / np.linalg.norm(mean)}
    if "pooled_output" in encoded:
        expected["pooled"] = np.asarray(encoded["pooled_output"])[0]
    return expected


def requests_of(texts):
    return [
        {"signature": "serving_default", "inputs": {"text": TEXTS}},
        {"signature": "tensors", "inputs": encode(TOKENIZER, texts, max_length=12)},
    ]


@pytest.mark.parametrize(("name", "has_pooler"), [("embeddings", True), ("no_pooler", False)])
@pytest.mark.slow
def test_vectors_of_a_batch_equal_those_of_each_text(tmp_path, assert_frozen, name, has_pooler):
    model = with_noise(BertEncoder(dataclasses.replace(CONFIG, has_pooler=has_pooler)))
    folder = export(model, tmp_path / name / "1", tokenizer=TOKENIZER, max_length=12)
    assert_frozen(name, folder)
    for served in run_requests(folder, requests_of(TEXTS)):
        for row, text in enumerate(TEXTS):
            expected = vectors(model, text)
            assert set(served) == set(expected)
            for kind, vector in expected.items():
                np.testing.assert_allclose(served[kind][row], vector, atol=1e-5, err_msg=text)


EMBEDDING = EmbeddingConfig(
    pooling=("mean_sqrt_len_tokens", "mean"),
    modules=(DenseModule(units=8, activation="gelu"), NormalizeModule()),
    prompts={"x": "x the "},
    default_prompt_name="x",
)


def test_a_sentence_encoder_returns_the_vectors_of_encode(tmp_path, assert_frozen):
    model = with_noise(BertSentenceEncoder(CONFIG, embedding=EMBEDDING))
    model.tokenizer = TOKENIZER
    model.save_pretrained(tmp_path / "model", format="sentence-transformers")
    folder = export(tmp_path / "model", tmp_path / "sentences" / "1", max_length=12)
    assert_frozen("sentence_encoder", folder)
    model = BertSentenceEncoder.from_pretrained(tmp_path / "model")
    requests = requests_of([EMBEDDING.prompt() + text for text in TEXTS])
    counting = {"signature": "num_tokens", "inputs": {"text": TEXTS}}
    *served, counts = run_requests(folder, [*requests, counting])
    mask = requests[1]["inputs"]["input_mask"]
    assert counts["num_tokens"] == mask.sum(axis=1).tolist()
    model.metadata = dataclasses.replace(model.stored_metadata(None), max_length=12)
    expected = model.encode(TEXTS)
    for outputs in served:
        assert set(outputs) == {"embedding"}
        np.testing.assert_allclose(outputs["embedding"], expected, rtol=0, atol=1e-5)
