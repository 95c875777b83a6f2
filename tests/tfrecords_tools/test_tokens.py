"""Sentences become ids; functions of the user split text; words of segmenters."""

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tests.tfrecords_tools.test_store import read
from tfrecords_tools.corpus import divide_into_units
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.tokens import (
    TokenizeUnit,
    divide_long_sentences,
    find_continuations,
    import_function,
)


def tokenized(text, vocabulary, tmp_path, **changes):
    """Returns documents as lists of sentences of words, and what the job returns."""
    (tmp_path / "a.txt").write_text(text)
    settings = BuildSettings(**{"max_predictions": 5, **changes})
    (unit,) = divide_into_units([tmp_path / "a.txt"], unit_bytes=1 << 20)
    job = TokenizeUnit(unit, tmp_path / "tokens", vocabulary, settings)
    result = job()
    return [
        [" ".join(vocabulary.tokens[number] for number in sentence) for sentence in document]
        for document in read(job.output)
    ], result


def test_documents_sentences_and_tokens(vocabulary, tmp_path):
    text = "Ada sees cats. And Ben too!\nCy.\n\n\nDora likes Zed.\n"
    documents, result = tokenized(text, vocabulary, tmp_path)
    assert documents == [["ada sees cats .", "and ben too !", "cy ."], ["dora likes [UNK] ."]]
    assert result["documents"] == 2
    assert result["counts"] == {"unknown": 1, "long_sentences_cut": 0}


def test_long_sentences_are_cut_and_counted(vocabulary, tmp_path):
    text = "cats " * 23 + "\nada sees. maps\n"
    documents, result = tokenized(text, vocabulary, tmp_path, max_length=13, splitter="lines")
    assert [len(each.split()) for each in documents[0]] == [8, 8, 7, 4]
    assert result["counts"]["long_sentences_cut"] == 1
    long = np.array([3, 0, 25]), np.array([True, False, True])
    lengths, is_first = divide_long_sentences(*long, longest=10)
    assert lengths.tolist() == [3, 0, 9, 8, 8] and is_first.tolist() == [1, 0, 1, 0, 0]


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    (tmp_path / "own_plugin.py").write_text(
        "number = 3\n"
        "def words(text): return text.split()\n"
        "def pairs(text): return [text[n : n + 2] for n in range(0, len(text), 2)]\n"
    )
    (tmp_path / "own_broken.py").write_text("import no_such_module_anywhere")
    monkeypatch.syspath_prepend(tmp_path)


def test_functions_are_imported_by_name(plugins):
    assert import_function("own_plugin:words")("a b") == ["a", "b"]
    for name in ("own_plugin", ":words", "own_missing:words", "own_broken:words", "own_plugin:no"):
        with pytest.raises(InputError):
            import_function(name)


WORDPIECES = "使用语言模型来预测下一个词的。", "play", "##ing", "bert", "la", "cafe", *"1.5", "##5"
TOKENIZER = WordPieceTokenizer(Vocabulary((*SPECIAL_TOKENS, *WORDPIECES[0], *WORDPIECES[1:])))


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("使用语言模型来", "使用 语言 模型 来", "使 +用 语 +言 模 +型 来"),
        ("使用语言模型来", "使用语言模型 来", "使 +用 +语 +言 +模 +型 来"),
        ("的的 的", "的 的 的", "的 的 的"),
        ("  使用 来playing Café,", "使用 来 playing Café ,", "使 +用 来 play +##ing cafe [UNK]"),
        ("使\u0301用", "使\u0301用", "使 +用"),
        ("playing la", "pl aying la", "play ##ing la"),  # a token belongs to its first word
        (" \t ", "", ""),
    ],
)
def test_tokens_of_a_word_continue_it(text, words, expected):
    """A "+" precedes each token that continues a word."""
    tokenized = TOKENIZER.encode(text)
    flags = find_continuations(text, tokenized, words.split())
    marked = ["+" * flag + token for flag, token in zip(flags, tokenized.tokens, strict=True)]
    assert " ".join(marked) == expected


def test_a_segmenter_raises_the_ids_that_continue_a_word(plugins, tmp_path):
    vocabulary = Vocabulary((*SPECIAL_TOKENS, "。", *"今天北京语言"))
    options = {"segmenter": "own_plugin:pairs", "mask_unit": "word", "splitter": "zh"}
    (tmp_path / "a.txt").write_text("今天语言。北京今天。", "utf-8")
    (unit,) = divide_into_units([tmp_path / "a.txt"], unit_bytes=1 << 20)
    settings = BuildSettings(**options, max_length=50)
    TokenizeUnit(unit, tmp_path / "tokens", vocabulary, settings)()
    size = len(vocabulary)
    expected = [[6, 7 + size, 10, 11 + size, 5], [8, 9 + size, 6, 7 + size, 5]]
    assert read(tmp_path / "tokens") == [expected]
