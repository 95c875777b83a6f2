"""Embeddings of sentence encoders against those of sentence-transformers for the same folder."""

import numpy as np
import pytest

from bert_keras.checkpoints.huggingface.tokenizer import read_rules
from bert_keras.config import TEXT_POOLINGS, EmbeddingConfig
from bert_keras.families import FAMILIES
from bert_keras.models import BertSentenceEncoder
from bert_keras.text.fast_tokenizer import FastTokenizer, rules_vocabulary
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import Vocabulary

pytest.importorskip("torch", reason='needs PyTorch: pip install "bert-keras[parity]"')
pytest.importorskip(
    "sentence_transformers", reason='needs sentence-transformers: "bert-keras[parity]"'
)
from sentence_sides import CASES, embeddings, model_of, read, real_sentences, written

pytestmark = pytest.mark.extra

MOST = 1e-6  # largest difference of a value of two vectors of length 1
SENTENCES = [
    "Where can I moor a boat?",
    "There is a landing stage below the bridge.",
    "Der Zug nach Köln fährt um 8:05 Uhr ab.",
    "日本語の文。 Ça va? naïve café — 100 %",
    "Words " * 400 + "beyond the longest input",
    "",
]
PROMPTS = {
    "prompts": {"query": "find the answer to: ", "passage": ""},
    "default_prompt_name": "query",
}


@pytest.fixture(scope="module")
def tokenizer(real_weights):
    return WordPieceTokenizer(Vocabulary.from_file(real_weights / "vocab.txt"))


def assert_equal(ours, theirs, texts, **prompts):
    one, other = embeddings(ours, theirs, texts, **prompts)
    assert np.abs(one - other).max() <= MOST
    assert np.ptp(one @ one.T) > 0.01


@pytest.mark.parametrize("name", CASES)
def test_random_weights(tokenizer, tmp_path, name):
    ours, theirs = written(model_of(CASES[name], tokenizer=tokenizer), tmp_path / "model")
    assert ours.embedding == CASES[name]
    assert theirs.max_seq_length == 64
    assert_equal(ours, theirs, SENTENCES)
    theirs.save(str(tmp_path / "again"))
    again = BertSentenceEncoder.from_pretrained(tmp_path / "again")
    assert again.embedding.modules == ours.embedding.modules
    np.testing.assert_array_equal(again.encode(SENTENCES), ours.encode(SENTENCES))


@pytest.mark.parametrize("includes_prompt", [True, False])
@pytest.mark.parametrize("pooling", [("mean",), ("cls", "max", "weightedmean", "lasttoken")])
def test_prompts(tokenizer, tmp_path, pooling, includes_prompt):
    embedding = EmbeddingConfig(pooling=pooling, includes_prompt=includes_prompt, **PROMPTS)
    ours, theirs = written(model_of(embedding, tokenizer=tokenizer), tmp_path / "model")
    assert theirs.prompts.items() >= PROMPTS["prompts"].items()
    assert theirs.default_prompt_name == "query"
    for prompt in ({}, {"prompt_name": "passage"}, {"prompt": "in other words: "}):
        assert_equal(ours, theirs, SENTENCES, **prompt)


@pytest.mark.parametrize("kind", [kind for kind in FAMILIES if kind != "bert"])
def test_relatives(tokenizer, subwords, tmp_path, kind):
    if kind in subwords:
        tokenizer = FastTokenizer(rules_vocabulary(read_rules(subwords[kind], {})))
    model = model_of(CASES["dense"], tokenizer=tokenizer, kind=kind)
    texts = [text for text in SENTENCES if text.isascii()]
    assert_equal(*written(model, tmp_path / "model"), texts)


def test_trained_weights(real_weights):
    """all-MiniLM-L6-v2: the mean, scaled to length 1, of at most 256 tokens."""
    ours, theirs = read(real_weights)
    assert ours.embedding == EmbeddingConfig()
    assert ours.metadata.max_length == 256
    assert_equal(ours, theirs, SENTENCES)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*TEXT_POOLINGS, "trained"])
def test_real_sentences(tokenizer, real_weights, shared_data, tmp_path, name):
    """1,000 sentences of STS-B."""
    texts = real_sentences(shared_data / "glue/STS-B/dev.tsv")
    if name == "trained":
        assert_equal(*read(real_weights), texts)
    else:
        model = model_of(CASES[name], tokenizer=tokenizer)
        assert_equal(*written(model, tmp_path / "model"), texts)
