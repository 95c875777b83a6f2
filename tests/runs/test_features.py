"""Vectors for any file of texts: which they are, what is written, what cannot be."""

import errno
import json
import resource

import keras
import numpy as np
import pytest

from bert_keras.checkpoints.card import ModelCard
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.models import BertClassifier
from bert_keras.models.pretrained import save_model
from bert_keras.runs import features
from bert_keras.runs.features import write_features
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_PIECES, *"abcdef", "##a"))
CONFIG = BertConfig(vocab_size=12, hidden_size=8, num_layers=3, num_heads=2, max_positions=12)
TEXTS = ["aa b c", "d", "a b c d e f aa f e d c b a aa a b", "f  e"]


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(1)
    return BertClassifier(CONFIG, num_labels=2)


@pytest.fixture
def checkpoint(model, tmp_path):
    card = ModelCard(
        model="BertClassifier", config=CONFIG, lowercase=True, max_length=10, labels=("no", "yes")
    )
    save_model(model, tmp_path / "model", card=card, vocabulary=VOCABULARY)
    return tmp_path / "model"


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    return tmp_path / "texts.txt"


def states(model, ids) -> np.ndarray:
    """[T, L + 1, D] of one sequence of piece ids."""
    ids = np.array([ids], "int32")
    inputs = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
    return np.stack([state[0] for state in model.encoder.states(inputs).hidden_states], axis=1)


def ids_of(text: str) -> list[int]:
    return [2, *WordPieceTokenizer(VOCABULARY).encode(text).ids, 3]


def test_every_piece_has_the_vectors_of_its_layers(checkpoint, texts, model, tmp_path):
    write_features(checkpoint, texts, tmp_path / "out.npz", layers=(-1, 0))
    found = np.load(tmp_path / "out.npz")
    assert len(found.files) == 2 * len(TEXTS)
    assert found["tokens_0"].tolist() == ["[CLS]", "a", "##a", "b", "c", "[SEP]"]
    for number in (0, 1, 3):
        expected = states(model, ids_of(TEXTS[number]))[:, [3, 0]]
        assert found[str(number)].dtype == np.float32
        np.testing.assert_allclose(found[str(number)], expected, atol=1e-6)


def test_a_long_text_is_read_in_windows_and_nothing_is_cut(
    checkpoint, texts, model, tmp_path, capsys
):
    write_features(checkpoint, texts, tmp_path / "out.npz", layers=(3,))
    assert " x 1 layer x 8 numbers" in capsys.readouterr().err
    found = np.load(tmp_path / "out.npz")
    pieces = [VOCABULARY.pieces[number] for number in ids_of(TEXTS[2])]
    assert found["tokens_2"].tolist() == pieces
    vectors, ids = found["2"][:, 0], ids_of(TEXTS[2])[1:-1]
    assert len(vectors) == len(pieces) == 20 > 10
    # Windows of eight pieces begin at 0, 4, 8 and 10; each piece is nearest to one middle.
    for window, first, after in ((0, 0, 6), (4, 6, 10), (8, 10, 13), (10, 13, 18)):
        expected = states(model, [2, *ids[window : window + 8], 3])[:, 3]
        inside = slice(1 + first - window, 1 + after - window)
        np.testing.assert_allclose(vectors[1 + first : 1 + after], expected[inside], atol=1e-6)
        if window == 0:
            np.testing.assert_allclose(vectors[0], expected[0], atol=1e-6)
    np.testing.assert_allclose(vectors[-1], expected[-1], atol=1e-6)


def test_words_have_the_vector_of_their_first_piece(checkpoint, texts, model, tmp_path):
    write_features(checkpoint, texts, tmp_path / "out.npz", layers=(2,), of="words")
    found = np.load(tmp_path / "out.npz")
    assert found["tokens_0"].tolist() == ["aa", "b", "c"]
    expected = states(model, ids_of(TEXTS[0]))[[1, 3, 4]][:, [2]]
    np.testing.assert_allclose(found["0"], expected, atol=1e-6)
    assert found["2"].shape == (16, 1, 8)


def test_texts_have_the_mean_of_their_pieces(checkpoint, texts, model, tmp_path):
    write_features(checkpoint, texts, tmp_path / "out.npz", layers=(-1,), of="texts")
    found = np.load(tmp_path / "out.npz")
    assert found["tokens_3"].tolist() == ["f  e"]
    expected = states(model, ids_of(TEXTS[3]))[:, 3].mean(axis=0)
    np.testing.assert_allclose(found["3"], expected[None, None], atol=1e-6)


def test_json_lines_are_those_of_the_original(checkpoint, texts, tmp_path):
    write_features(checkpoint, texts, tmp_path / "out.jsonl", layers=(-1, -2, -3, -4))
    write_features(checkpoint, texts, tmp_path / "out.npz", layers=(-1, -2, -3, -4))
    exact = np.load(tmp_path / "out.npz")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["linex_index"] for line in lines] == [0, 1, 2, 3]
    for number, line in enumerate(lines):
        assert list(line) == ["linex_index", "features"]
        tokens = exact[f"tokens_{number}"].tolist()
        assert [feature["token"] for feature in line["features"]] == tokens
        for feature, vectors in zip(line["features"], exact[str(number)], strict=True):
            assert [layer["index"] for layer in feature["layers"]] == [-1, -2, -3, -4]
            values = [layer["values"] for layer in feature["layers"]]
            np.testing.assert_allclose(values, vectors, atol=5.1e-7)


def test_chunks_and_batches_change_nothing(checkpoint, texts, tmp_path, monkeypatch):
    write_features(checkpoint, texts, tmp_path / "one.npz")
    monkeypatch.setattr(features, "CHUNK_CHARACTERS", 1)
    monkeypatch.setattr(features, "BATCH_SIZE", 2)
    write_features(checkpoint, texts, tmp_path / "two.npz")
    one, two = np.load(tmp_path / "one.npz"), np.load(tmp_path / "two.npz")
    assert set(one.files) == set(two.files)
    for number in range(len(TEXTS)):
        np.testing.assert_allclose(one[str(number)], two[str(number)], atol=1e-6)


def test_the_size_is_told_and_a_full_disk_leaves_nothing(checkpoint, texts, tmp_path, capsys):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))
    try:
        with pytest.raises(OSError, match=r"out\.npz") as error:
            write_features(checkpoint, texts, tmp_path / "out.npz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert error.value.errno in (errno.EFBIG, errno.ENOSPC)
    assert not list(tmp_path.glob("*out*")) + list(tmp_path.glob(".*out*"))
    told = capsys.readouterr().err.splitlines()[0]  # four, were there as many
    assert told.startswith("4 texts, 33 vectors x 3 layers x 8 numbers: about 3.2 kB in ")


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("a\n\nb\n", {}, "texts.txt, line 2 holds no word; expected a text on every line"),
        ("a\nb\n \t\n", {"of": "words"}, "texts.txt, line 3 holds no word"),
        ("", {}, "texts.txt is empty; expected a text on every line"),
        ("a\n", {"layers": (4,)}, r"layer 4 was asked for; expected 0 \(the embeddings\) to 3"),
        ("a\n", {"layers": (-5,)}, "layer -5 was asked for; .* from the end -1 to -4"),
        ("a\n", {"layers": (-1, 0, 3)}, "layers -1 0 3 were asked for; expected each layer once"),
        ("a\n", {"of": "chars"}, "'chars' were asked for; expected one of pieces, words, texts"),
    ],
)
def test_what_cannot_be_is_told(checkpoint, tmp_path, content, options, message):
    (tmp_path / "texts.txt").write_text(content)
    with pytest.raises(InputError, match=message):
        write_features(checkpoint, tmp_path / "texts.txt", tmp_path / "out.npz", **options)
    with pytest.raises(InputError, match=r"out.csv ends in '.csv'; expected .npz"):
        write_features(checkpoint, tmp_path / "texts.txt", tmp_path / "out.csv")
