"""Tokenizes texts and finds the units that get a label: words, eojeols or tokens."""

from collections.abc import Sequence

import numpy as np

from bert_keras.downstream.ner.files import Sentence
from bert_keras.downstream.ner.windows import WordTokens, word_tokens
from bert_keras.text.google_words import google_words, is_dropped
from bert_keras.text.tokenizer import TextTokenizer


def units_of(
    texts: Sequence[str], tokenizer: TextTokenizer, *, unit: str
) -> tuple[WordTokens, np.ndarray]:
    """Tokenizes texts and finds their units.

    Args:
        texts: The texts.
        tokenizer: The tokenizer of the model.
        unit: "word" for words that white space, punctuation and CJK characters separate, each of
            which is tokenized by itself; "eojeol" for words that only white space separates;
            "token" for single tokens. White space that is a token of byte-level BPE is no unit.

    Returns:
        The tokens of the texts, whose W words are the units, and the characters [start, end) of
        each unit in its text, int64 [W,2].
    """
    if unit == "word":
        lowercase = tokenizer.lowercase and not tokenizer.vocabulary.rules
        words = [google_words(text, lowercase=lowercase) for text in texts]
        sentences = [Sentence(tuple(word.text for word in row), None, 0, 1) for row in words]
        spans = [(min(word.indices), max(word.indices) + 1) for row in words for word in row]
        return word_tokens(sentences, tokenizer), np.array(spans, np.int64).reshape(-1, 2)
    encoded = tokenizer.encode_batch(texts)
    ids = np.array([token_id for each in encoded for token_id in each.ids], np.int32)
    offsets_M2 = np.array([span for each in encoded for span in each.offsets], np.int64)
    offsets_M2 = offsets_M2.reshape(-1, 2)
    bounds = np.cumsum([0, *(len(each.ids) for each in encoded)])
    is_first, has_text = np.ones((2, len(ids)), bool)
    for text, start, end in zip(texts, bounds[:-1], bounds[1:], strict=True):
        is_space = [each.isspace() and not is_dropped(each) for each in text]
        offsets = offsets_M2[start:end]
        num_spaces = np.cumsum([0, *is_space])[offsets]
        has_text[start:end] = (np.diff(num_spaces) < np.diff(offsets))[:, 0]
        if unit == "eojeol":
            is_first[start:end] = np.diff(num_spaces[:, 0], prepend=-1) != 0
    offsets_M2 = offsets_M2[has_text]
    numbers, first, counts = np.unique(
        np.cumsum(is_first)[has_text], return_index=True, return_counts=True
    )
    starts = np.flatnonzero(is_first)[numbers - 1]
    spans_W2 = np.stack([offsets_M2[first, 0], offsets_M2[first + counts - 1, 1]], axis=1)
    return WordTokens(ids, starts, bounds, np.searchsorted(starts, bounds)), spans_W2
