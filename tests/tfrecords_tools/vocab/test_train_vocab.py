import os
import subprocess
import sys
from collections import Counter

import pytest

from bert_keras.errors import InputError
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary
from tfrecords_tools.vocab import word_counts
from tfrecords_tools.vocab.train_vocab import characters, reserved, train_vocabulary, trained
from tfrecords_tools.vocab.word_counts import Reading


def test_pieces_exactly():
    words = Counter({"low": 5, "lower": 2, "newest": 6, "widest": 3})
    pieces = trained(words, size=45).pieces
    first, inside = sorted("lowernstid"), sorted("owerstid")
    assert pieces[: 5 + 10 + 8] == (*SPECIAL_PIECES, *first, *(f"##{each}" for each in inside))
    assert pieces[23:26] == ("##es", "##est", "lo")  # 9 each, then 7: ties go to the lower ids
    assert len(pieces) <= 45
    assert "newest" in pieces


def test_rare_characters_and_their_words_are_left_out():
    alphabet, inside = characters(Counter({"ab": 9, "ac": 5, "d": 1}), room=5)
    assert (alphabet, inside) == (["a", "b", "c"], ["##b", "##c"])
    alphabet, inside = characters(Counter({"ab": 9, "ac": 5, "d": 1}), room=4)
    assert (alphabet, inside) == (["a", "b"], ["##b"])
    assert "##c" not in trained(Counter({"ab": 9, "ac": 5}), size=13).pieces


def test_specials_stand_once_and_nothing_is_twice(tmp_path):
    (tmp_path / "a").write_text("[MASK] [UNK] [unused1] mask " * 50)
    pieces = train_vocabulary([tmp_path / "a"], size=60).pieces
    assert pieces[:5] == SPECIAL_PIECES
    assert len(set(pieces)) == len(pieces)
    assert not any("[" in piece and len(piece) > 1 for piece in pieces[5:])
    assert "mask" in pieces


def test_a_trained_vocabulary_leaves_nothing_unknown(corpus):
    vocabulary = train_vocabulary(corpus, size=150)
    assert len(vocabulary) <= 150
    tokenizer = WordPieceTokenizer(vocabulary)
    assert vocabulary.unk_id not in tokenizer.encode(corpus[0].read_text()).ids
    assert "doc" in vocabulary.ids


def test_slots_stand_where_published_vocabularies_have_them(shared_data):
    published = Vocabulary.from_file(shared_data / "vocab/bert-base-uncased-vocab.txt").pieces
    assert tuple(reserved(994, size=30522)) == published[:999]
    assert reserved(2, size=30) == ["[PAD]", "[unused0]", "[unused1]", *SPECIAL_PIECES[1:]]


def test_slots_take_the_place_of_the_last_pieces():
    words = Counter({"low": 5, "lower": 2, "newest": 6, "widest": 3})
    pieces = trained(words, size=33).pieces
    with_slots = trained(words, size=35, unused=2).pieces
    assert with_slots == (*reserved(2, size=35), *pieces[5:])


@pytest.mark.parametrize(
    ("size", "unused", "told"),
    [
        (6, 0, "a vocabulary of 6 pieces is too small; expected at least 7"),
        (
            50,
            44,
            "a vocabulary of 50 pieces with 44 unused slots is too small; expected at le.* 51",
        ),
        (50, -1, "no negative number of slots"),
    ],
)
def test_too_small_a_size(corpus, size, unused, told):
    with pytest.raises(InputError, match=told):
        train_vocabulary(corpus, size=size, unused=unused)


def test_chinese_text_gives_characters_of_their_own(tmp_path):
    (tmp_path / "a").write_text("他走了。 你好，世界！\n" * 9, encoding="utf-8")
    pieces = train_vocabulary([tmp_path / "a"], size=60).pieces
    assert set("他走了。你好，世界！") <= set(pieces)
    assert not any(piece.startswith("##") for piece in pieces)


def test_too_many_words_leave_the_most_frequent(monkeypatch):
    monkeypatch.setattr(word_counts, "MOST_LEARNT", 2)
    words = Counter({"abab": 5, "caca": 4, "dbdb": 4})
    pieces = trained(words, size=60).pieces
    assert "abab" in pieces
    assert "caca" in pieces
    assert "dbdb" not in pieces


def test_what_was_left_out_is_told(tmp_path):
    (tmp_path / "a").write_bytes(b"some text\xff here\n" * 3)
    told = []
    train_vocabulary([tmp_path / "a"], size=60, reading=Reading(errors="replace"), tell=told.append)
    (remark,) = told
    assert "UTF-8" in remark


def test_fresh_processes_and_any_number_of_threads_give_the_same_bytes(tmp_path):
    text = "".join(f"w{n % 97}x{n % 89} é{n % 13}日{chr(0x4E00 + n % 50)} " for n in range(4000))
    (tmp_path / "a").write_text(text, encoding="utf-8")
    files = []
    for threads in "17":
        files.append(tmp_path / f"vocab{threads}")
        command = [sys.executable, "-m", "tfrecords_tools.cli", "vocab", tmp_path / "a"]
        subprocess.run(
            [*command, "--output", files[-1], "--size", "700", "--workers", "1"],
            env=os.environ | {"RAYON_NUM_THREADS": threads},
            check=True,
            capture_output=True,
        )
    first, other = [file.read_bytes() for file in files]
    assert other == first
    assert first.count(b"\n") > 300
