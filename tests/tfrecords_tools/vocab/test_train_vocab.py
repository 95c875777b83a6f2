import os
import subprocess
import sys
from collections import Counter

import pytest

from bert_keras.errors import InputError
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tfrecords_tools.vocab import word_counts
from tfrecords_tools.vocab.train_vocab import (
    alphabet_of,
    reserved_tokens,
    train_vocabulary,
    train_wordpiece,
)
from tfrecords_tools.vocab.word_counts import Reading


def test_exact_tokens():
    words = Counter({"low": 5, "lower": 2, "newest": 6, "widest": 3})
    tokens = train_wordpiece(words, size=45).tokens
    first, inside = sorted("lowernstid"), sorted("owerstid")
    assert tokens[: 5 + 10 + 8] == (*SPECIAL_TOKENS, *first, *(f"##{each}" for each in inside))
    assert tokens[23:26] == ("##es", "##est", "lo")  # 9 each, then 7: ties go to the lower ids
    assert len(tokens) <= 45
    assert "newest" in tokens


def test_rare_characters_and_their_words_are_left_out():
    alphabet, inside = alphabet_of(Counter({"ab": 9, "ac": 5, "d": 1}), num_tokens=5)
    assert (alphabet, inside) == (["a", "b", "c"], ["##b", "##c"])
    alphabet, inside = alphabet_of(Counter({"ab": 9, "ac": 5, "d": 1}), num_tokens=4)
    assert (alphabet, inside) == (["a", "b"], ["##b"])
    assert "##c" not in train_wordpiece(Counter({"ab": 9, "ac": 5}), size=9).tokens


def test_characters_take_the_tokens_for_which_there_are_no_merges():
    """Half of 16 tokens are the 5 most frequent syllables, of which only two words consist."""
    words = Counter({"가나": 9, "다라": 8} | {f"{one}마": 2 for one in "바사아자차카"})
    tokens = train_wordpiece(words, size=5 + 16).tokens
    assert len(tokens) == 21 and {"가나", "다라", *"가나다라마바사아자차카"} < {*tokens}
    assert len(train_wordpiece(words, size=60).tokens) == 5 + 22  # the corpus provides no more


def test_tokens_are_unique(tmp_path):
    (tmp_path / "a").write_text("[MASK] [UNK] [unused1] mask " * 50)
    tokens = train_vocabulary([tmp_path / "a"], size=60).tokens
    assert tokens[:5] == SPECIAL_TOKENS
    assert len(set(tokens)) == len(tokens)
    assert not any("[" in token and len(token) > 1 for token in tokens[5:])
    assert "mask" in tokens


def test_trained_vocabulary_covers_its_corpus(corpus):
    vocabulary = train_vocabulary(corpus, size=150)
    assert len(vocabulary) <= 150
    tokenizer = WordPieceTokenizer(vocabulary)
    assert vocabulary.unk_id not in tokenizer.encode(corpus[0].read_text()).ids
    assert "doc" in vocabulary.ids


def test_unused_tokens_have_the_ids_of_published_vocabularies(shared_data):
    published = Vocabulary.from_file(shared_data / "vocab/bert-base-uncased-vocab.txt").tokens
    assert tuple(reserved_tokens(994)) == published[:999]
    assert reserved_tokens(2) == ["[PAD]", "[unused0]", "[unused1]", *SPECIAL_TOKENS[1:]]


def test_unused_tokens_replace_the_last_tokens():
    words = Counter({"low": 5, "lower": 2, "newest": 6, "widest": 3})
    tokens = train_wordpiece(words, size=33).tokens
    with_unused = train_wordpiece(words, size=35, unused=2).tokens
    assert with_unused == (*reserved_tokens(2), *tokens[5:])


@pytest.mark.parametrize(
    ("size", "unused", "message"),
    [
        (6, 0, "size is 6; expected at least 7 tokens for wordpiece with 0"),
        (50, 44, "size is 50; expected at least 51 tokens for wordpiece with 44 unused tokens"),
        (50, -1, "unused is -1; expected 0 or more"),
    ],
)
def test_invalid_sizes_are_refused(corpus, size, unused, message):
    with pytest.raises(InputError, match=message):
        train_vocabulary(corpus, size=size, unused=unused)


def test_chinese_characters_are_single_tokens(tmp_path):
    (tmp_path / "a").write_text("他走了。 你好，世界！\n" * 9, encoding="utf-8")
    tokens = train_vocabulary([tmp_path / "a"], size=60).tokens
    assert set("他走了。你好，世界！") <= set(tokens)
    assert not any(token.startswith("##") for token in tokens)


def test_only_the_most_frequent_words_are_learnt(monkeypatch):
    monkeypatch.setattr(word_counts, "MAX_LEARNT_WORDS", 2)
    words = Counter({"abab": 5, "caca": 4, "dbdb": 4})
    tokens = train_wordpiece(words, size=60).tokens
    assert "abab" in tokens
    assert "caca" in tokens
    assert "dbdb" not in tokens


def test_repairs_are_logged(tmp_path):
    (tmp_path / "a").write_bytes(b"some text\xff here\n" * 3)
    remarks = []
    train_vocabulary(
        [tmp_path / "a"], size=60, reading=Reading(errors="replace"), log=remarks.append
    )
    (remark,) = remarks
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
