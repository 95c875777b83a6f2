"""Ids equal those of the original tokenizer: BERT_ORIGINAL=/path/to/google-research-bert pytest ...

The original has no offsets; tests/text/test_tokenizer.py holds ours against its algorithm, retold
so that each character is led along with its place.
"""

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import tensorflow as tf

from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import Vocabulary
from tests.unicode_texts import CHARACTERS, TEXTS, characters_in_any_order

pytestmark = pytest.mark.extra


@pytest.fixture(params=["uncased", "cased"])
def both(request, shared_data, monkeypatch):
    """Ours, and the original's text -> ids, with the published vocabulary of that case."""
    folder = os.environ.get("BERT_ORIGINAL")
    if not folder:
        pytest.skip("needs the original's folder: BERT_ORIGINAL=/path/to/bert")
    monkeypatch.setitem(sys.modules, "tensorflow", tf.compat.v1)  # it was written for version 1
    spec = spec_from_file_location("tokenization", Path(folder) / "tokenization.py")
    tokenization = module_from_spec(spec)
    spec.loader.exec_module(tokenization)
    path = shared_data / f"vocab/bert-base-{request.param}-vocab.txt"
    lowercase = request.param == "uncased"
    theirs = tokenization.FullTokenizer(str(path), do_lower_case=lowercase)
    ours = WordPieceTokenizer(Vocabulary.from_file(path), lowercase=lowercase)
    return ours, lambda text: theirs.convert_tokens_to_ids(theirs.tokenize(text))


def assert_equal(texts, both):
    ours, theirs = both
    for text, tokens in zip(texts, ours.encode_batch(texts), strict=True):
        assert tokens.ids == theirs(text), ascii(text)


def test_unicode_suite(both):
    assert_equal(TEXTS, both)


def test_every_character(both):
    """Letters around show whether one is dropped, is a space, stands alone or joins the word."""
    assert_equal([f"a{character}B {character}" for character in CHARACTERS], both)


def test_characters_in_any_order(both):
    assert_equal(characters_in_any_order(20_000), both)


def test_some_real_text(both, shared_data):
    for name in ("wiki.txt", "books.txt"):
        lines = (shared_data / "corpus" / name).read_text("utf-8").split("\n")
        assert_equal(lines[::50], both)


@pytest.mark.slow
def test_all_real_text(both, shared_data):
    for path in sorted(path for path in (shared_data / "corpus").rglob("*") if path.is_file()):
        assert_equal(path.read_text("utf-8").split("\n"), both)
