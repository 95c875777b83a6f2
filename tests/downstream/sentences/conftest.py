"""A small tokenizer."""

import pytest

from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

WORDS = "a good bad film is long short query passage :"


@pytest.fixture(scope="session")
def tokenizer():
    return WordPieceTokenizer(Vocabulary((*SPECIAL_TOKENS, *WORDS.split())))
