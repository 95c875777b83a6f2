"""Counted words and the vocabularies that are learnt from them."""

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tokenizers.pre_tokenizers import BertPreTokenizer

from bert_keras.errors import InputError
from bert_keras.text.fast_tokenizer import FastTokenizer, vocabulary_from
from bert_keras.text.tokenizer import WordPieceTokenizer, normalizer
from bert_keras.text.vocab import SPECIAL_TOKENS
from tfrecords_tools import vocab as counting
from tfrecords_tools.cli import main
from tfrecords_tools.vocab import reserved_tokens, train_vocabulary, train_wordpiece

LICENSE = (Path(__file__).parents[2] / "LICENSE").read_text("utf-8")
WORDS = Counter({"low": 5, "lower": 2, "newest": 6, "widest": 3})
LETTERS = "aAbB.,-'é\u0301İßΣςﬁ日本。「あア\u200b\u00a0\u2028\t\x0c\x00🙂1٣" + " " * 10


@pytest.mark.parametrize("lowercase", [True, False])
def test_words_are_counted_as_the_tokenizer_divides_them(lowercase):
    characters = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    rare = [each for each in characters if ord(each) < 0x600 or ord(each) % 1601 == 0]
    texts = [" ".join(f"a{each}b {each} .{each}, {each}A{each}{each}" for each in rare)]
    texts += ["".join(random.Random(seed).choices(LETTERS, k=4000)) for seed in range(5)]
    texts += ["The café, the CAFE\u0301! [MASK] 日本 a\u200bb a\tb\x0cc don't", ""]
    for text in texts:
        normalized = normalizer(lowercase=lowercase).normalize_str(text)
        words = [word for word, _ in BertPreTokenizer().pre_tokenize_str(normalized)]
        assert counting.count_bert_words([text], lowercase=lowercase) == Counter(words)
    counts = counting.count_bert_words(["a b.", "", "a日 b"], lowercase=True)
    assert counts == {"a": 2, "b": 2, ".": 1, "日": 1}


def test_the_vocabulary_does_not_depend_on_the_processes(tmp_path, monkeypatch):
    monkeypatch.setattr("tfrecords_tools.build.BYTES_PER_WORKER", 1)
    monkeypatch.setattr(counting, "UNIT_BYTES", 400)
    (tmp_path / "a").write_text("".join(f"word{n % 7} line{n} the\n\n" for n in range(500)))
    vocabulary = train_vocabulary([tmp_path / "a"], size=100)
    assert "the" in vocabulary.ids
    assert train_vocabulary([tmp_path / "a"], size=100, workers=2) == vocabulary


def test_rare_words_are_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(counting, "MAX_WORDS", 4)
    (tmp_path / "b").write_text("aa aa aa bb bb cd de ef\n")
    notes = []
    tokens = train_vocabulary([tmp_path / "b"], size=60, log=notes.append).tokens
    assert tokens[5:] == ("a", "b", "##a", "##b", "aa", "bb") and "3 rare words" in notes[0]
    monkeypatch.setattr(counting, "MAX_LEARNT_WORDS", 2)
    tokens = train_wordpiece(Counter({"abab": 5, "caca": 4, "dbdb": 4}), size=60).tokens
    assert {"abab", "caca"} < {*tokens} and "dbdb" not in tokens


def test_exact_tokens_of_wordpiece():
    tokens = train_wordpiece(WORDS, size=45).tokens
    first, inside = sorted("lowernstid"), sorted("owerstid")
    assert tokens[: 5 + 10 + 8] == (*SPECIAL_TOKENS, *first, *(f"##{each}" for each in inside))
    assert tokens[23:26] == ("##es", "##est", "lo")  # 9 each, then 7: ties go to the lower ids
    assert len(tokens) <= 45 and "newest" in tokens


def test_a_learnt_vocabulary_covers_its_corpus(corpus, tmp_path):
    vocabulary = train_vocabulary(corpus, size=150)
    assert len(vocabulary) <= 150 and "doc" in vocabulary.ids
    ids = WordPieceTokenizer(vocabulary).encode(corpus[0].read_text()).ids
    assert vocabulary.unk_id not in ids
    (tmp_path / "a").write_text("[MASK] [UNK] [unused1] mask 他走了。 你好，世界！\n" * 50, "utf-8")
    tokens = train_vocabulary([tmp_path / "a"], size=60).tokens
    assert tokens[:5] == SPECIAL_TOKENS and len(set(tokens)) == len(tokens)
    assert not any("[" in token and len(token) > 1 for token in tokens[5:])
    assert {"mask", *"他走了。你好，世界！"} <= {*tokens}


def test_unused_tokens_have_the_ids_of_published_vocabularies():
    assert reserved_tokens(2) == ["[PAD]", "[unused0]", "[unused1]", *SPECIAL_TOKENS[1:]]


@pytest.mark.parametrize("model", ["wordpiece", "bpe", "unigram"])
def test_a_new_process_with_other_threads_learns_the_same_bytes(tmp_path, model):
    rare = "".join(f"w{n % 97}x{n % 89} é{n % 13}日{chr(0x4E00 + n % 50)} " for n in range(1000))
    (tmp_path / "a").write_text(LICENSE + "naïve 東京 " * 9 + rare, encoding="utf-8")
    output = tmp_path / ("vocab.txt" if model == "wordpiece" else "tokenizer.json")
    command = ["vocab", str(tmp_path / "a"), "--model-type", model, "--size", "420", "--output"]
    assert main([*command, str(output), "--workers", "1"]) == 0
    vocabulary, first = vocabulary_from(output), output.read_bytes()
    output.unlink()
    program = [sys.executable, "-m", "tfrecords_tools.cli", *command, output, "--workers", "1"]
    environment = os.environ | {"RAYON_NUM_THREADS": "3"}
    subprocess.run(program, env=environment, check=True, capture_output=True)
    assert output.read_bytes() == first
    assert 300 < len(vocabulary) <= 420
    if model == "wordpiece":
        return
    tokenizer, text = FastTokenizer(vocabulary), "Derivative Works, naïve 東京"
    expected = text if model == "bpe" else "derivative works, naive 東京"
    assert tokenizer.decode(tokenizer.encode(text).ids) == expected
    assert {"ĠWork", "▁work"} & {*vocabulary.tokens}
    if model == "unigram":
        assert vocabulary.tokens[:5] == ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
        cased = train_vocabulary([tmp_path / "a"], size=420, model="unigram", lowercase=False)
        assert FastTokenizer(cased).decode(FastTokenizer(cased).encode(text).ids) == text


@pytest.mark.parametrize(
    "options",
    [
        *({"size": 6}, {"size": 50, "unused": 44}, {"size": 200, "model": "bpe"}),
        *({"size": 400, "model": "unigram", "unused": 3}, {"size": 400, "model": "bep"}),
        {"size": 400, "model": "bpe", "segmenter": "shlex:split"},
    ],
)
def test_impossible_vocabularies_are_refused(corpus, options):
    with pytest.raises(InputError):
        train_vocabulary(corpus, **options)
