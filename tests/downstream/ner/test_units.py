"""The units of a text: eojeols and tokens, of tokenizers with and without tokens of white space."""

import re

import numpy as np
import pytest

from bert_keras.downstream.ner.units import units_of
from bert_keras.text.fast_tokenizer import tokenizer_of

TEXTS = ["the license", "the  license ", "", " \n", "  the\n license\u3000\u3000the ", "\u00a0the"]


@pytest.mark.parametrize("name", ["roberta", "modernbert", "albert", "klue-bert"])
def test_white_space_alone_separates_eojeols_and_is_none(vocabulary_of, name):
    """Byte-level BPE has tokens of white space, with and without a span."""
    tokenizer = tokenizer_of(vocabulary_of(name), lowercase=False)
    tokens, spans = units_of(TEXTS, tokenizer, unit="eojeol")
    of_texts = np.split(spans, tokens.word_bounds[1:-1])
    expected = [[each.span() for each in re.finditer(r"\S+", text)] for text in TEXTS]
    assert [[tuple(span) for span in each] for each in of_texts] == expected
    texts = np.searchsorted(tokens.bounds, tokens.starts, side="right") - 1
    assert texts.tolist() == [0, 0, 1, 1, 4, 4, 4, 5]
    spans = units_of(TEXTS, tokenizer, unit="token")[1]
    assert len(spans) >= len(tokens.starts) and (spans[:, 0] < spans[:, 1]).all()


def test_an_eojeol_starts_at_the_token_of_the_space_before_it(vocabulary_of):
    """As in training, which tokenizes each word after a space."""
    tokenizer = tokenizer_of(vocabulary_of("roberta"), lowercase=False)
    space, letter = (tokenizer.vocabulary.ids[each] for each in ("Ġ", "Q"))
    tokens, spans = units_of(["Q  Q "], tokenizer, unit="eojeol")
    assert tokens.ids.tolist() == [letter, space, space, letter, space]
    assert (tokens.starts.tolist(), spans.tolist()) == ([0, 2], [[0, 1], [3, 4]])
