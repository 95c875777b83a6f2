"""Exported models of this package behind the embeddings API and the rerank API."""

import json

import keras
import numpy as np
import pytest

from bert_keras.config import BertConfig
from bert_keras.embedding import EmbeddingConfig
from bert_keras.exporting import saved_model
from bert_keras.exporting.export import export
from bert_keras.models import BertClassifier, BertSentenceEncoder
from bert_keras.serving.server import running_server
from bert_keras.text.encode import encode
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

CONFIG = BertConfig(vocab_size=11, hidden_size=16, num_layers=1, num_heads=2, max_positions=8)
TOKENIZER = WordPieceTokenizer(Vocabulary((*SPECIAL_TOKENS, *"abcdef")))
TEXTS = ["a b c", "f", "b c a d e f a b c d e f", "d e"]  # the third one is cut


@pytest.fixture(scope="module", autouse=True)
def patched():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saved_model, "run_in_fresh_process", lambda *_: [])
        keras.utils.set_random_seed(1)
        yield


def test_a_sentence_encoder_embeds_texts(tmp_path, send):
    embedding = EmbeddingConfig(pooling=("cls", "mean"))
    BertSentenceEncoder(CONFIG, embedding=embedding).save_pretrained(
        tmp_path / "model", tokenizer=TOKENIZER
    )
    export(tmp_path / "model", tmp_path / "saved" / "vectors" / "1")
    model = BertSentenceEncoder.from_pretrained(tmp_path / "model")
    with running_server(tmp_path / "saved" / "vectors") as url:
        for dimensions in (None, 5):
            body = {"model": "vectors", "input": TEXTS, "dimensions": dimensions}
            response = send(url, "POST", "/v1/embeddings", json.dumps(body)).json
            vectors = [each["embedding"] for each in response["data"]]
            expected = model.encode(TEXTS, dimensions=dimensions)
            np.testing.assert_allclose(vectors, expected, atol=1e-5)
            assert response["usage"] == {"prompt_tokens": 20, "total_tokens": 20}


@pytest.mark.parametrize("labels", [("score",), ("no", "yes"), ("entailment", "not_entailment")])
def test_a_classifier_of_pairs_scores_texts(tmp_path, send, labels):
    model = BertClassifier(CONFIG, num_labels=len(labels))
    model.save_pretrained(tmp_path / "model", tokenizer=TOKENIZER, labels=labels)
    export(tmp_path / "model", tmp_path / "saved" / "pairs" / "1", num_texts=2)
    logits = np.asarray(model(encode(TOKENIZER, ["e f"] * 4, TEXTS, max_length=8)))
    if len(labels) == 1:
        expected = logits[:, 0]
    else:
        relevant = labels.index("yes" if "yes" in labels else "entailment")
        expected = logits[:, relevant] - logits[:, 1 - relevant]
    with running_server(tmp_path / "saved" / "pairs") as url:
        body = json.dumps({"query": "e f", "texts": TEXTS, "raw_scores": True})
        results = send(url, "POST", "/rerank", body).json
    assert [each["index"] for each in results] == np.argsort(-expected).tolist()
    np.testing.assert_allclose(
        [each["score"] for each in results], np.sort(expected)[::-1], atol=1e-5
    )
