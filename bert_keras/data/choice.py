"""Chooses tokens or whole words at random, for masking."""

from typing import NamedTuple

import numpy as np

from bert_keras.text.packing import span_indices


def choose_tokens(
    candidates: np.ndarray, *, quotas: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Chooses tokens at random; every candidate of a row is equally likely.

    Args:
        candidates: bool [B,T], the tokens that may be chosen.
        quotas: int [B], how many tokens to choose in each row. A row with fewer candidates gives
            all of them.
        generator: Source of all draws.

    Returns:
        The indices of the chosen tokens in the flattened batch, int64, ascending.
    """
    length = candidates.shape[1]
    # The low bits of each key are its column, so the keys of a row are distinct. The tokens with
    # the smallest keys are chosen.
    bits = np.uint32((length - 1).bit_length())
    keys = generator.integers(0, 1 << 32, candidates.shape, np.uint32)
    keys = keys >> bits << bits | np.arange(length, dtype=np.uint32)
    keys[~candidates] = np.iinfo(np.uint32).max
    most = min(int(quotas.max(initial=1)), length)
    smallest = np.sort(np.partition(keys, most - 1, axis=1)[:, :most], axis=1)
    last = np.minimum(quotas, most)[:, None] - 1
    return np.flatnonzero((keys <= np.take_along_axis(smallest, last, axis=1)) & candidates)


class WordIndices(NamedTuple):
    """The W words of a batch, in order, as indices in the flattened batch."""

    starts: np.ndarray  # int32 [W]
    ends: np.ndarray  # int32 [W], one past the last token of each word
    follows: np.ndarray  # bool [W]: the preceding word ends right before this one, in the same row
    first: np.ndarray  # int64 [B+1]: the number of the first word of each row, and W


def group_words(candidates: np.ndarray, *, continues: np.ndarray) -> WordIndices:
    """Groups the candidates into words.

    Args:
        candidates: bool [B,T], the tokens that may be chosen.
        continues: bool [B,T], whether a token continues the word of the preceding token. A token
            after one that is no candidate, such as [SEP], always begins a word.
    """
    batch, length = candidates.shape
    after = np.zeros_like(candidates)
    after[:, 1:] = candidates[:, :-1] & candidates[:, 1:]
    joins = after & continues
    is_continued = np.zeros_like(joins)
    is_continued[:, :-1] = joins[:, 1:]
    starts = _true_indices(candidates & ~joins)
    ends = _true_indices(candidates & ~is_continued) + np.int32(1)
    first = np.searchsorted(starts, np.arange(batch + 1, dtype=np.int32) * np.int32(length))
    return WordIndices(starts, ends, after.ravel()[starts], first)


def _true_indices(flags: np.ndarray) -> np.ndarray:
    return np.flatnonzero(flags).astype(np.int32)  # int32 halves the memory to read


def choose_words(
    words: WordIndices, *, quotas: np.ndarray, max_ngram: int, generator: np.random.Generator
) -> np.ndarray:
    """Chooses whole words at random, alone or as n-grams.

    Words are drawn in random order until the quota of the row is met. A drawn word is chosen
    together with the n - 1 words that follow it. n is drawn with weights 1/n from the values up to
    `max_ngram` that fit: the n words are adjacent, none of them is chosen yet, and together they
    stay within the quota. A drawn word that does not fit alone is skipped.

    Args:
        words: The words of the batch.
        quotas: int [B], the maximum number of tokens to choose in each row.
        max_ngram: The maximum number of adjacent words that one draw chooses.
        generator: Source of all draws.

    Returns:
        The indices of the chosen tokens in the flattened batch, int64, ascending.
    """
    starts, ends, _, first = words
    is_chosen = np.zeros(len(starts), bool)
    shuffled = np.arange(len(starts), dtype=np.int32)
    # One entry for each row that is not complete: `shuffled[lower:upper]` are the words that were
    # not drawn yet, and `space` is the number of tokens that the row may still choose.
    is_open = (first[1:] > first[:-1]) & (quotas > 0)
    lower, upper, space = first[:-1][is_open], first[1:][is_open], quotas[is_open]
    while len(lower):
        drawn = lower + _random_below(upper - lower, generator)
        word = shuffled[drawn]
        shuffled[drawn] = shuffled[lower]
        fits = ~is_chosen[word] & (ends[word] - starts[word] <= space)
        word = word[fits]
        last = word
        if max_ngram > 1:
            last = _last_words(
                word,
                words=words,
                is_chosen=is_chosen,
                space=space[fits],
                max_ngram=max_ngram,
                generator=generator,
            )
        for offset in range(max_ngram):
            is_chosen[word[word + offset <= last] + offset] = True
        space[fits] -= ends[last] - starts[word]
        lower = lower + 1
        is_open = (space > 0) & (lower < upper)
        if not is_open.all():
            lower, upper, space = lower[is_open], upper[is_open], space[is_open]
    return span_indices(starts[is_chosen], (ends - starts)[is_chosen])


def _last_words(
    word: np.ndarray,
    *,
    words: WordIndices,
    is_chosen: np.ndarray,
    space: np.ndarray,
    max_ngram: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """Draws n for each word of `word` and returns the last word of its n-gram.

    Each word of `word` fits alone.
    """
    max_offset = np.zeros(len(word), np.int64)
    fits = np.ones(len(word), bool)
    for offset in range(1, max_ngram):
        last = np.minimum(word + offset, len(is_chosen) - 1)
        fits &= (word + offset == last) & words.follows[last] & ~is_chosen[last]
        fits &= words.ends[last] - words.starts[word] <= space
        max_offset += fits
    weights = np.cumsum(1 / np.arange(1, max_ngram + 1))
    draw = generator.random(len(word)) * weights[max_offset]
    return word + np.searchsorted(weights, draw, side="right").astype(np.int32)


def _random_below(limits: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Draws an integer from 0 to limit - 1 for each limit, int64.

    The integers are scaled from 32 random bits, so their probabilities differ by at most one part
    in 2^32 / limit.
    """
    bits = generator.integers(0, 1 << 32, len(limits), np.uint32)
    return (bits.astype(np.int64) * limits) >> 32
