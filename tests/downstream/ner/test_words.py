"""Tokens of words, the units of texts, and the rows in which words are predicted."""

import re

import numpy as np
import pytest

from bert_keras.kinds.words import Sentence, WordTokens, make_rows, tokenize_units, tokenize_words
from bert_keras.text.fast_tokenizer import tokenizer_of
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, "new", "york", "##er", "!"))
TOKENIZER = WordPieceTokenizer(VOCABULARY)


def of_lengths(sentences: list[list[int]]) -> WordTokens:
    """Returns the tokens of sentences from the number of tokens of each word."""
    counts = np.concatenate(sentences)
    starts = np.concatenate([[0], np.cumsum(counts)])
    word_bounds = np.cumsum([0, *map(len, sentences)])
    return WordTokens(np.arange(starts[-1]), starts[:-1], starts[word_bounds], word_bounds)


def test_words_are_tokenized_separately():
    """A word of U+FE0F alone has no tokens, because Google's tokenizer removes it."""
    words = ("New", "yorker", "\ufe0f"), ("\ufe0f", "!!", "?")
    sentences = [Sentence(each, None, 0, 1) for each in words]
    tokens = tokenize_words(sentences, TOKENIZER)
    text = " ".join(VOCABULARY.tokens[token_id] for token_id in tokens.ids)
    assert text == "new york ##er [UNK] [UNK] ! ! [UNK]"
    assert tokens.starts.tolist() == [0, 1, 3, 4, 5, 7]
    assert tokens.bounds.tolist() == [0, 4, 8]
    assert tokens.word_bounds.tolist() == [0, 3, 6]


DOCUMENTS = [[1, 1], [1, 1], [2], [3], [3]]


@pytest.mark.parametrize(
    ("lengths", "limit", "starts", "word_rows"),
    [
        # The middles of the rows are 1.5, 3.5, 5.5 and 6.5; the first row wins a tie.
        ([[1] * 9], 4, [0, 2, 4, 5], [0, 0, 0, 1, 1, 2, 2, 3, 3]),
        ([[1, 20, 1]], 4, [0, 18], [0, 0, 1]),  # rows without words are omitted
        # At the end of a document, the other side gets the remaining tokens.
        (DOCUMENTS, 4, [0, 1, 2, 6, 8], [0, 0, 1, 1, 2, 3, 4]),
        (DOCUMENTS, 5, [0, 1, 1, 6, 7], [0, 0, 1, 1, 2, 3, 4]),
        (DOCUMENTS, 100, [0, 0, 0, 6, 6], [0, 0, 1, 1, 2, 3, 4]),
    ],
)
def test_rows_of_sentences_and_documents(lengths, limit, starts, word_rows):
    tokens, documents = of_lengths(lengths), np.array([1, 1, 1, 2, 2])[: len(lengths)]
    rows = make_rows(tokens, limit=limit, documents=documents)
    assert rows.starts.tolist() == starts
    assert set(rows.lengths) == {min(limit, 6) if lengths is DOCUMENTS else limit}
    assert rows.word_rows.tolist() == word_rows
    assert (rows.starts[rows.word_rows] + rows.word_starts).tolist() == tokens.starts.tolist()


TEXTS = ["the license", "the  license ", "", " \n", "  the\n license\u3000\u3000the ", "\u00a0the"]


@pytest.mark.parametrize("name", ["roberta", "modernbert", "albert", "klue-bert"])
def test_white_space_alone_separates_eojeols_and_is_none(vocabulary_of, name):
    """Byte-level BPE has tokens of white space, with and without a span."""
    tokenizer = tokenizer_of(vocabulary_of(name), lowercase=False)
    tokens, spans = tokenize_units(TEXTS, tokenizer, unit="eojeol")
    of_texts = np.split(spans, tokens.word_bounds[1:-1])
    expected = [[each.span() for each in re.finditer(r"\S+", text)] for text in TEXTS]
    assert [[tuple(span) for span in each] for each in of_texts] == expected
    texts = np.searchsorted(tokens.bounds, tokens.starts, side="right") - 1
    assert texts.tolist() == [0, 0, 1, 1, 4, 4, 4, 5]
    spans = tokenize_units(TEXTS, tokenizer, unit="token")[1]
    assert len(spans) >= len(tokens.starts) and (spans[:, 0] < spans[:, 1]).all()


def test_an_eojeol_starts_at_the_token_of_the_space_before_it(vocabulary_of):
    """As in training, which tokenizes each word after a space."""
    tokenizer = tokenizer_of(vocabulary_of("roberta"), lowercase=False)
    space, letter = (tokenizer.vocabulary.ids[each] for each in ("Ġ", "Q"))
    tokens, spans = tokenize_units(["Q  Q "], tokenizer, unit="eojeol")
    assert tokens.ids.tolist() == [letter, space, space, letter, space]
    assert (tokens.starts.tolist(), spans.tolist()) == ([0, 2], [[0, 1], [3, 4]])
