"""Embeddings of the lines of a file: values, a stopped run, wrong arguments."""

import sys

import keras
import numpy as np
import pytest

from bert_keras.cli import main
from bert_keras.config import BertConfig, EmbeddingConfig
from bert_keras.errors import InputError
from bert_keras.models.sentence_encoder import BertSentenceEncoder
from bert_keras.runs.embeddings import write_embeddings
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *"abcdef", "##a"))
CONFIG = BertConfig(vocab_size=12, hidden_size=8, num_layers=1, num_heads=2, max_positions=12)
TEXTS = [" ".join("abcdef"[: 1 + n % 6]) + " a" * (n // 6 % 8) for n in range(1_300)]  # 3 chunks


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of a sentence encoder."""
    folder = tmp_path_factory.mktemp("models") / "model"
    keras.utils.set_random_seed(1)
    embedding = EmbeddingConfig(prompts={"query": "a b "})
    encoder = BertSentenceEncoder(CONFIG, embedding=embedding)
    encoder.save_pretrained(folder, tokenizer=WordPieceTokenizer(VOCABULARY))
    return folder


@pytest.fixture(scope="module")
def expected(model):
    return BertSentenceEncoder.from_pretrained(model).encode(TEXTS)


@pytest.fixture
def lines(tmp_path):
    (tmp_path / "lines.txt").write_text("\n".join(TEXTS) + "\n")
    return tmp_path / "lines.txt"


def test_the_vectors_are_those_of_the_model(model, lines, expected, tmp_path):
    npy = tmp_path / "new" / "vectors.npy"
    assert write_embeddings(lines, npy, model=model) == (1300, 8)
    vectors = np.load(npy, mmap_mode="r")
    assert vectors.dtype == np.float32 and [*npy.parent.iterdir()] == [npy]
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_a_stopped_run_continues(model, lines, tmp_path, monkeypatch):
    """The new run encodes the missing chunks only, and the file has the same bytes."""
    write_embeddings(lines, tmp_path / "whole.npy", model=model)
    output, encode, sizes = tmp_path / "vectors.npy", BertSentenceEncoder.encode, []

    def counted(self, texts, **options):
        sizes.append(sys.exit() if len(sizes) == 2 else len(texts))
        return encode(self, texts, **options)

    monkeypatch.setattr(BertSentenceEncoder, "encode", counted)
    with pytest.raises(SystemExit):
        write_embeddings(lines, output, model=model)
    with (tmp_path / "vectors.npy.partial" / "work").open("ab") as partial:
        partial.write(b"of a killed run")
    with pytest.raises(InputError):
        write_embeddings(lines, output, model=model, dimensions=3)
    sizes.append(0)
    write_embeddings(lines, output, model=model)
    assert sizes == [512, 512, 0, 276] and not (tmp_path / "vectors.npy.partial").exists()
    assert output.read_bytes() == (tmp_path / "whole.npy").read_bytes()


def test_blank_lines_are_skipped_and_counted(model, tmp_path, capsys):
    (tmp_path / "lines.txt").write_text("\na b\n\n  \nc\n")
    assert write_embeddings(tmp_path / "lines.txt", tmp_path / "v.npy", model=model) == (2, 8)
    assert "skipped 3 blank lines" in capsys.readouterr().err


@pytest.mark.slow
def test_dimensions_and_prompt(model, lines, expected, tmp_path, capsys):
    command = f"embed {model} --data {lines} --output {tmp_path}/short.npy --dimensions 3"
    assert main(command.split()) == 0
    assert f"1,300 of 3 values in {tmp_path}/short.npy\n" in capsys.readouterr().out
    assert main(command.split()) == 2  # the file exists
    short = expected[:, :3] / np.linalg.norm(expected[:, :3], axis=1, keepdims=True)
    np.testing.assert_allclose(np.load(tmp_path / "short.npy"), short, atol=1e-6)
    write_embeddings(lines, tmp_path / "queries.npy", model=model, prompt="query")
    queries = BertSentenceEncoder.from_pretrained(model).encode([f"a b {each}" for each in TEXTS])
    np.testing.assert_allclose(np.load(tmp_path / "queries.npy"), queries, atol=1e-6)
