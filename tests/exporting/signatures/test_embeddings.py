"""The signatures of an encoder return the vectors of the Keras model."""

import dataclasses

import keras
import numpy as np
import pytest

from bert_keras.checkpoints.pretrained import save_model
from bert_keras.config import (
    BertConfig,
    DenseModule,
    EmbeddingConfig,
    ModelMetadata,
    NormalizeModule,
)
from bert_keras.errors import InputError
from bert_keras.exporting.export import export
from bert_keras.exporting.verify import run_requests
from bert_keras.models import BertEncoder, BertSentenceEncoder
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, "the", "cafe", "##s", "東", ".", "x", "[", "]"))
TOKENIZER = WordPieceTokenizer(VOCABULARY, lowercase=True)
TEXTS = ["The cafés.", "", "x " * 40, "[MASK] 東x a\u200bb 😀"]


def encoder(**changes) -> BertEncoder:
    keras.utils.set_random_seed(3)
    sizes = {"hidden_size": 16, "num_layers": 2, "num_heads": 2, "max_positions": 16}
    model = BertEncoder(BertConfig(vocab_size=len(VOCABULARY), **sizes, **changes))
    model.build()
    for weight in model.weights:  # initial weights give nearly equal outputs
        weight.assign(weight + keras.random.normal(weight.shape, stddev=0.3))
    return model


def vectors(model, text: str) -> dict[str, np.ndarray]:
    """Returns the vectors of one text without padding."""
    inputs = pack(TOKENIZER.ids_batch([text]), vocabulary=VOCABULARY, max_length=12)
    encoded = model(inputs, training=False)
    mean = np.asarray(encoded["sequence_output"])[0].mean(axis=0)
    expected = {"embedding": mean / np.linalg.norm(mean)}
    if "pooled_output" in encoded:
        expected["pooled"] = np.asarray(encoded["pooled_output"])[0]
    return expected


@pytest.mark.parametrize(
    ("name", "has_pooler"),
    [("embeddings", True), pytest.param("no_pooler", False, marks=pytest.mark.slow)],
)
def test_vectors_of_a_batch_equal_the_vectors_of_each_text(
    tmp_path, assert_frozen, name, has_pooler
):
    model = encoder(has_pooler=has_pooler)
    metadata = ModelMetadata(
        model="BertEncoder", config=model.config, lowercase=True, max_length=12
    )
    save_model(model, tmp_path / "model", metadata=metadata, vocabulary=VOCABULARY)
    folder = export(tmp_path / "model", tmp_path / name / "1")
    assert_frozen(name, folder)
    inputs = pack(TOKENIZER.ids_batch(TEXTS), vocabulary=VOCABULARY, max_length=12)
    tensors = {name: array.tolist() for name, array in inputs.items()}
    requests = [
        {"signature": "serving_default", "inputs": {"text": TEXTS}},
        {"signature": "tensors", "inputs": tensors},
    ]
    for served in run_requests(folder, requests):
        for row, text in enumerate(TEXTS):
            expected = vectors(model, text)
            assert set(served) == set(expected)
            for kind, vector in expected.items():
                np.testing.assert_allclose(served[kind][row], vector, atol=1e-5, err_msg=text)


PROMPTED = {"prompts": {"x": "x the "}, "default_prompt_name": "x"}
CASES = {
    "cls": EmbeddingConfig(pooling=("cls",)),
    "not_normalized": EmbeddingConfig(pooling=("max", "weightedmean", "lasttoken"), modules=()),
    "dense": EmbeddingConfig(
        pooling=("mean_sqrt_len_tokens", "mean"),
        modules=(DenseModule(units=8, activation="gelu"), NormalizeModule()),
        **PROMPTED,
    ),
    "without_prompt": EmbeddingConfig(
        pooling=("mean", "cls"), modules=(), includes_prompt=False, **PROMPTED
    ),
}


@pytest.fixture
def sentence_encoder():
    def make(embedding) -> BertSentenceEncoder:
        keras.utils.set_random_seed(3)
        model = BertSentenceEncoder(encoder().config, embedding=embedding)
        for weight in model.weights:
            weight.assign(weight + keras.random.normal(weight.shape, stddev=0.3))
        model.tokenizer = TOKENIZER
        return model

    return make


@pytest.mark.parametrize("name", CASES)
def test_a_sentence_encoder_returns_the_vectors_of_encode(
    sentence_encoder, tmp_path, assert_frozen, name
):
    model = sentence_encoder(CASES[name])
    model.save_pretrained(tmp_path / "model", format="sentence-transformers")
    folder = export(tmp_path / "model", tmp_path / name / "1", max_length=12)
    if name == "dense":
        assert_frozen("sentence_encoder", folder)
    model = BertSentenceEncoder.from_pretrained(tmp_path / "model")
    prompt = CASES[name].prompt()
    rows = TOKENIZER.ids_batch([prompt + text for text in TEXTS])
    inputs = pack(rows, vocabulary=VOCABULARY, max_length=12)
    requests = [
        {"signature": "serving_default", "inputs": {"text": TEXTS}},
        {"signature": "tensors", "inputs": {n: array.tolist() for n, array in inputs.items()}},
        {"signature": "num_tokens", "inputs": {"text": TEXTS}},
    ]
    *served, counts = run_requests(folder, requests)
    assert counts["num_tokens"] == inputs["input_mask"].sum(axis=1).tolist()
    model.metadata = dataclasses.replace(model.stored_metadata(None), max_length=12)
    expected = model.encode(TEXTS)
    for outputs in served:
        assert set(outputs) == {"embedding"}
        vectors = np.array(outputs["embedding"])
        np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-5)
        cosines = (vectors * expected).sum(axis=1)
        cosines /= np.linalg.norm(vectors, axis=1) * np.linalg.norm(expected, axis=1)
        assert cosines.min() >= 0.99999


def test_dimensions_are_fixed_at_export(sentence_encoder, tmp_path):
    model = sentence_encoder(EmbeddingConfig())
    folder = export(model, tmp_path / "short" / "1", dimensions=5)
    request = {"signature": "serving_default", "inputs": {"text": TEXTS}}
    (served,) = run_requests(folder, [request])
    expected = model.encode(TEXTS, dimensions=5)
    np.testing.assert_allclose(served["embedding"], expected, rtol=0, atol=1e-5)
    with pytest.raises(InputError, match="dimensions is 17; expected 1 to 16"):
        export(model, tmp_path / "short" / "2", dimensions=17)
    plain = encoder()
    plain.tokenizer = TOKENIZER
    with pytest.raises(InputError, match="BertEncoder; only a BertSentenceEncoder takes a number"):
        export(plain, tmp_path / "short" / "2", dimensions=5)
