import os
import subprocess
import sys
from collections import Counter

import pytest

from bert_keras.errors import InputError
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_PIECES
from tfrecords_tools.train_vocab import characters, count_words, train_vocabulary, trained


def test_words_are_counted_as_the_tokenizer_sees_them(tmp_path):
    (tmp_path / "a").write_text(
        "The café, the CAFE\u0301!\n\n[MASK] 日本 a\u200bb", encoding="utf-8"
    )
    counts = {"the": 2, "cafe": 2, ",": 1, "!": 1, "[": 1, "]": 1, "mask": 1, "日": 1, "本": 1}
    assert count_words([tmp_path / "a"], lowercase=True) == {**counts, "ab": 1}
    cased = count_words([tmp_path / "a"], lowercase=False)
    assert cased["The"] == cased["café"] == cased["MASK"] == 1


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


def test_too_small_a_size(corpus):
    with pytest.raises(InputError, match="a vocabulary of 6 pieces is too small"):
        train_vocabulary(corpus, size=6)


def test_fresh_processes_and_any_number_of_threads_give_the_same_bytes(tmp_path):
    text = "".join(f"w{n % 97}x{n % 89} é{n % 13}日{chr(0x4E00 + n % 50)} " for n in range(4000))
    (tmp_path / "a").write_text(text, encoding="utf-8")
    files = []
    for threads in "137":
        files.append(tmp_path / f"vocab{threads}")
        command = [sys.executable, "-m", "tfrecords_tools.cli", "vocab", tmp_path / "a"]
        subprocess.run(
            [*command, "--output", files[-1], "--size", "700"],
            env=os.environ | {"RAYON_NUM_THREADS": threads},
            check=True,
            capture_output=True,
        )
    first, *others = [file.read_bytes() for file in files]
    assert others == [first, first]
    assert first.count(b"\n") > 300
