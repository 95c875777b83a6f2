"""The signatures of an encoder return the vectors of the Keras model."""

import keras
import numpy as np
import pytest

from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.config import BertConfig
from bert_keras.exporting.export import export
from bert_keras.exporting.verify import run_requests
from bert_keras.models import BertEncoder
from bert_keras.models.pretrained import save_model
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
