"""Folders in the layout of multilingual-e5, with random weights: embeddings of texts in Python and
from a server. The small size is a BERT, with more rows than XLM-RoBERTa's tokenizer has tokens."""

import json

import numpy as np
import pytest

from bert_keras.config import EmbeddingConfig
from bert_keras.exporting import saved_model
from bert_keras.exporting.export import export
from bert_keras.exporting.verify import run_requests
from bert_keras.models import BertSentenceEncoder
from bert_keras.serving.client import Client
from bert_keras.serving.server import running_server
from tests.multilingual_texts import DECOMPOSED, SENTENCES

torch = pytest.importorskip("torch", reason='needs PyTorch: pip install "bert-keras[parity]"')
transformers = pytest.importorskip("transformers", reason='needs "bert-keras[parity]"')
sentence_transformers = pytest.importorskip(
    "sentence_transformers", reason='needs sentence-transformers: "bert-keras[parity]"'
)
pytestmark = pytest.mark.extra

PACKAGE = "sentence_transformers.models"
MODULES = ("Transformer", "Pooling", "Normalize")
MOST = 1e-6  # largest difference of a value of two vectors of length 1
NUM_EXTRA_ROWS = 35


@pytest.fixture
def published(subwords, tmp_path):
    """Returns a function that writes a folder, and returns it with its model and tokenizer."""

    def make(prefix: str):
        tokenizer = transformers.XLMRobertaTokenizerFast.from_pretrained(subwords["xlm-roberta"])
        is_bert = prefix == "Bert"
        config = getattr(transformers, f"{prefix}Config")(
            vocab_size=len(tokenizer) + is_bert * NUM_EXTRA_ROWS,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=128 if is_bert else 130,
            type_vocab_size=2 if is_bert else 1,
            pad_token_id=0 if is_bert else 1,
            initializer_range=0.2,
            tokenizer_class="XLMRobertaTokenizer",
        )
        transformers.set_seed(1)
        model = getattr(transformers, f"{prefix}Model")(config).eval()
        model.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        paths = ["", "1_Pooling", "2_Normalize"]
        modules = [
            {"idx": index, "name": str(index), "path": path, "type": f"{PACKAGE}.{kind}"}
            for index, (path, kind) in enumerate(zip(paths, MODULES, strict=True))
        ]
        modes = {"mean_tokens": True, "cls_token": False, "max_tokens": False}
        pooling = {"word_embedding_dimension": 32, "pooling_mode_mean_sqrt_len_tokens": False}
        pooling |= {f"pooling_mode_{name}": value for name, value in modes.items()}
        for path in paths:
            (tmp_path / path).mkdir(exist_ok=True)
        for file, values in {
            "modules.json": modules,
            "1_Pooling/config.json": pooling,
            "sentence_bert_config.json": {"max_seq_length": 128, "do_lower_case": False},
        }.items():
            (tmp_path / file).write_text(json.dumps(values))
        return tmp_path, model, tokenizer

    return make


@pytest.mark.parametrize("prefix", ["XLMRoberta", "Bert"])
def test_embeddings_equal_the_mean_of_transformers(published, tmp_path, monkeypatch, prefix):
    folder, theirs, tokenizer = published(prefix)
    texts = [*SENTENCES, *DECOMPOSED]
    ours = BertSentenceEncoder.from_pretrained(folder, pad_vocabulary=prefix == "Bert")
    assert (ours.embedding, ours.metadata.max_length) == (EmbeddingConfig(), 128)
    reference = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    for prompt in ("query: ", "passage: "):
        prompted = [prompt + text for text in texts]
        encoded = tokenizer(prompted, padding=True, return_tensors="pt")
        with torch.no_grad():
            states = theirs(encoded["input_ids"], encoded["attention_mask"]).last_hidden_state
        mask = encoded["attention_mask"][..., None]
        means = (states * mask).sum(1) / mask.sum(1)
        expected = torch.nn.functional.normalize(means).numpy()
        assert np.ptp(expected @ expected.T) > 0.1
        actual = ours.encode(texts, prompt=prompt)
        assert np.abs(actual - expected).max() <= MOST
        assert np.abs(actual - reference.encode(prompted)).max() <= MOST

    monkeypatch.setattr(saved_model, "run_in_fresh_process", run_requests)  # saves seconds
    export(ours, tmp_path / "saved" / "e5" / "1")
    with (
        running_server(tmp_path / "saved" / "e5") as url,
        Client(f"{url}/v1/models/e5") as client,
    ):
        served = client.predict(prompted)
    assert np.abs(np.array(served) - expected).max() <= MOST
