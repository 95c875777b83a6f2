"""Vectors of the texts of a file: values, file formats and wrong arguments."""

import dataclasses
import json

import keras
import numpy as np
import pytest

from bert_keras.checkpoints.huggingface.tokenizer import read_rules
from bert_keras.checkpoints.pretrained import save_model
from bert_keras.config import BertConfig, ModelMetadata
from bert_keras.errors import InputError
from bert_keras.models import BertClassifier, BertEncoder
from bert_keras.runs import features
from bert_keras.runs.features import write_features
from bert_keras.text.fast_tokenizer import FastTokenizer, rules_vocabulary
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *"abcdef", "##a"))
CONFIG = BertConfig(vocab_size=12, hidden_size=8, num_layers=3, num_heads=2, max_positions=12)
TEXTS = ["aa b c", "d", "a b c d e f aa f e d c b a aa a b", "f  e"]


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(1)
    return BertClassifier(CONFIG, num_labels=2)


@pytest.fixture
def checkpoint(model, tmp_path):
    metadata = ModelMetadata(
        model="BertClassifier", config=CONFIG, lowercase=True, max_length=10, labels=("no", "yes")
    )
    save_model(model, tmp_path / "model", metadata=metadata, vocabulary=VOCABULARY)
    return tmp_path / "model"


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    return tmp_path / "texts.txt"


def states(model, ids) -> np.ndarray:
    """Returns the hidden states [T, L + 1, D] of one sequence of token ids."""
    ids = np.array([ids], "int32")
    inputs = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
    return np.stack([state[0] for state in model.encoder.states(inputs).hidden_states], axis=1)


def ids_of(text: str) -> list[int]:
    return [2, *WordPieceTokenizer(VOCABULARY).encode(text).ids, 3]


def test_every_token_has_the_vectors_of_its_layers(checkpoint, texts, model, tmp_path):
    write_features(checkpoint, texts, tmp_path / "out.npz", layers=(-1, 0))
    archive = np.load(tmp_path / "out.npz")
    assert len(archive.files) == 2 * len(TEXTS)
    assert archive["tokens_0"].tolist() == ["[CLS]", "a", "##a", "b", "c", "[SEP]"]
    for number, text in enumerate(TEXTS):
        ids = ids_of(text)
        ids = ids if len(ids) <= 10 else [*ids[:9], 3]  # a long text is cut
        expected = states(model, ids)[:, [3, 0]]
        assert archive[str(number)].dtype == np.float32
        np.testing.assert_allclose(archive[str(number)], expected, atol=1e-6)


def test_the_names_of_special_tokens_are_those_of_the_vocabulary(subwords, tmp_path):
    vocabulary = rules_vocabulary(read_rules(subwords["roberta"], {}))
    config = dataclasses.replace(CONFIG, vocab_size=len(vocabulary))
    BertEncoder(config).save_pretrained(tmp_path / "model", tokenizer=FastTokenizer(vocabulary))
    (tmp_path / "texts.txt").write_text("work\n")
    write_features(tmp_path / "model", tmp_path / "texts.txt", tmp_path / "out.npz")
    names = np.load(tmp_path / "out.npz")["tokens_0"].tolist()
    assert (names[0], names[-1]) == ("<s>", "</s>")


def test_json_lines_have_the_format_of_the_original(checkpoint, texts, tmp_path):
    write_features(checkpoint, texts, tmp_path / "out.jsonl", layers=(-1, -2, -3, -4))
    write_features(checkpoint, texts, tmp_path / "out.npz", layers=(-1, -2, -3, -4))
    exact = np.load(tmp_path / "out.npz")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["linex_index"] for line in lines] == [0, 1, 2, 3]
    for number, line in enumerate(lines):
        assert list(line) == ["linex_index", "features"]
        token_names = exact[f"tokens_{number}"].tolist()
        assert [feature["token"] for feature in line["features"]] == token_names
        for feature, vectors in zip(line["features"], exact[str(number)], strict=True):
            assert [layer["index"] for layer in feature["layers"]] == [-1, -2, -3, -4]
            values = [layer["values"] for layer in feature["layers"]]
            np.testing.assert_allclose(values, vectors, atol=5.1e-7)


def test_vectors_do_not_depend_on_chunks_and_batches(checkpoint, texts, tmp_path, monkeypatch):
    write_features(checkpoint, texts, tmp_path / "one.npz")
    monkeypatch.setattr(features, "CHUNK_CHARACTERS", 1)
    monkeypatch.setattr(features, "BATCH_SIZE", 2)
    write_features(checkpoint, texts, tmp_path / "two.npz")
    one, two = np.load(tmp_path / "one.npz"), np.load(tmp_path / "two.npz")
    assert set(one.files) == set(two.files)
    for number in range(len(TEXTS)):
        np.testing.assert_allclose(one[str(number)], two[str(number)], atol=1e-6)


@pytest.mark.parametrize(
    ("content", "options", "word"),
    [
        ("a\n\nb\n", {}, "line 2"),
        ("", {}, "empty"),
        ("a\n", {"layers": (4,)}, "to 3"),
        ("a\n", {"layers": (-5,)}, "to -4"),
        ("a\n", {"layers": (-1, 0, 3)}, "once"),
        ("a\n", {"output": "out.csv"}, "out.csv"),
    ],
)
def test_wrong_arguments_are_refused(checkpoint, tmp_path, monkeypatch, content, options, word):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text(content)
    with pytest.raises(InputError, match=word):
        write_features(checkpoint, "texts.txt", **{"output": "out.npz"} | options)
    assert not list(tmp_path.glob("*out.*"))
