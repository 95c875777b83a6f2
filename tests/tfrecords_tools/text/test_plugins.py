"""Imported functions of the user and words of a segmenter."""

import pytest

from bert_keras.errors import InputError
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tfrecords_tools.text.plugins import continues, import_function


@pytest.fixture(autouse=True)
def plugins(tmp_path, monkeypatch):
    (tmp_path / "own_plugin.py").write_text(
        "number = 3\n"
        "def words(text): return text.split()\n"
        "def text(text): return text\n"
        "def lazily(text): return (word for word in text.split())\n"
        "def numbers(text): return [1, 2]\n"
        "def nothing(): return []\n"
    )
    (tmp_path / "own_broken.py").write_text("import no_such_module_anywhere")
    (tmp_path / "own_misspelt.py").write_text("def words(text) return text.split()")
    monkeypatch.syspath_prepend(tmp_path)


def test_a_function_is_imported_and_called():
    assert import_function("own_plugin:words")("a b") == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_plugin", "'own_plugin' is not a function; expected module:function"),
        ("own_plugin:", "is not a function; expected"),
        (":words", "is not a function; expected"),
        ("own_missing:words", r"cannot be imported \(No module named 'own_missing'\); install it"),
        ("own_broken:words", r"cannot be imported \(No module named 'no_such_module_anywhere'\)"),
        ("own_misspelt:words", r"fails when it is imported \(SyntaxError: .*; correct it"),
        ("own_plugin:other", r"other does not exist in .*own_plugin\.py; expected a function"),
        ("own_plugin:number", r"number is not a function in .*own_plugin\.py"),
    ],
)
def test_functions_that_cannot_be_imported_are_refused(name, message):
    with pytest.raises(InputError, match=message):
        import_function(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("text", "own_plugin:text returned 'a b' for 'a b'; expected a list of texts"),
        ("lazily", r"returned <generator object .* for 'a b'; expected a list"),
        ("numbers", r"returned \[1, 2\] for 'a b'"),
        ("nothing", r"own_plugin:nothing fails for 'a b' \(TypeError: .*; expected a function"),
    ],
)
def test_wrong_results_are_refused(name, message):
    with pytest.raises(InputError, match=message):
        import_function(f"own_plugin:{name}")("a b")


VOCABULARY = Vocabulary(
    (
        *SPECIAL_TOKENS,
        *"使用语言模型来预测下一个词的。",
        "play",
        "##ing",
        "bert",
        "la",
        "cafe",
        "1",
        ".",
        "##5",
        "5",
    )
)
TOKENIZER = WordPieceTokenizer(VOCABULARY)


def continuing(text, words):
    """Returns the tokens of the text; a "+" precedes each token that continues a word."""
    tokenized = TOKENIZER.encode(text)
    flags = continues(text, tokenized, words)
    assert len(flags) == len(tokenized.tokens)
    return " ".join("+" * flag + token for flag, token in zip(flags, tokenized.tokens, strict=True))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("使用 语言 模型 来 预测 下 一个 词 。", "使 +用 语 +言 模 +型 来 预 +测 下 一 +个 词 。"),
        ("使用语言模型 来", "使 +用 +语 +言 +模 +型 来"),
        ("的 的 的", "的 的 的"),
    ],
)
def test_characters_of_a_word_continue_it(words, expected):
    assert continuing(words.replace(" ", ""), words.split()) == expected


def test_white_space_and_other_scripts():
    text = "  使用 Bert 来playing Café,  la 1.5"
    words = ["使用", " ", "Bert", "来", "playing", "Café", ",", "la", "1.5"]
    assert continuing(text, words) == ("使 +用 bert 来 play +##ing cafe [UNK] la 1 +. +5")
    assert continuing("使\u0301用", ["使\u0301用"]) == "使 +用"
    assert continuing("\u200b使用 \x00来", ["\u200b使用", "\x00来"]) == "使 +用 来"


def test_a_token_of_two_words_belongs_to_the_first():
    assert continuing("playing la", ["pl", "aying", "la"]) == "play ##ing la"
    assert continuing("bert", ["be", "rt"]) == "bert"


def test_texts_without_tokens():
    assert continuing("", []) == ""
    assert continuing(" \t ", []) == ""
    assert continuing("\u200b", ["\u200b"]) == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["使用", "模型"], r"differ from the text after '使用' \(next word: '模型', text: '语言"),
        (["使用", "语言", "模型", "来"], "next word: '来', text: ''"),
        (["使用", "语言"], "next word: 'none', text: '模型'"),
        (["语言", "模型"], "after '' .next word: '语言', text: '使用语言模型'"),
    ],
)
def test_words_that_differ_from_the_text_are_refused(words, message):
    with pytest.raises(InputError, match=message):
        continuing("使用语言模型", words)


def test_an_imported_segmenter(tmp_path, monkeypatch):
    (tmp_path / "own_segmenter.py").write_text(
        "def pairs(text): return [text[start : start + 2] for start in range(0, len(text), 2)]"
    )
    monkeypatch.syspath_prepend(tmp_path)
    words = import_function("own_segmenter:pairs")("使用语言模")
    assert continuing("使用语言模", words) == "使 +用 语 +言 模"
