"""What may be chosen comes in; the places of pieces or whole words drawn by chance go out."""

from typing import NamedTuple

import numpy as np


def choose_pieces(
    candidates: np.ndarray, *, quotas: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Flat places of `quotas` int [B] pieces, or all there are, of each row of bool [B,T].

    int64, ascending. Every candidate is equally likely.
    """
    length = candidates.shape[1]
    # Random numbers that end in their column are distinct, and the smallest are chosen.
    bits = np.uint32((length - 1).bit_length())
    keys = generator.integers(0, 1 << 32, candidates.shape, np.uint32)
    keys = keys >> bits << bits | np.arange(length, dtype=np.uint32)
    keys[~candidates] = np.iinfo(np.uint32).max
    most = min(int(quotas.max(initial=1)), length)
    smallest = np.sort(np.partition(keys, most - 1, axis=1)[:, :most], axis=1)
    last = np.minimum(quotas, most)[:, None] - 1
    return np.flatnonzero((keys <= np.take_along_axis(smallest, last, axis=1)) & candidates)


class Words(NamedTuple):
    """What is chosen whole, in order, as places in the flattened batch."""

    starts: np.ndarray  # int32 [W]
    ends: np.ndarray  # int32 [W], one past the last piece
    follows: np.ndarray  # bool [W]: it begins where the word before it ends, in the same row
    first: np.ndarray  # int64 [B+1]: the first word of each row, and W


def words_of(candidates: np.ndarray, *, continues: np.ndarray) -> Words:
    """The words of bool [B,T] `candidates`.

    Where `continues` (bool [B,T]) a piece joins the candidate right before it; a piece behind
    what is no candidate, such as [SEP], begins a word all the same.
    """
    batch, length = candidates.shape
    after = np.zeros_like(candidates)
    after[:, 1:] = candidates[:, :-1] & candidates[:, 1:]
    joins = after & continues
    goes_on = np.zeros_like(joins)
    goes_on[:, :-1] = joins[:, 1:]
    starts = _places(candidates & ~joins)
    ends = _places(candidates & ~goes_on) + np.int32(1)
    first = np.searchsorted(starts, np.arange(batch + 1, dtype=np.int32) * np.int32(length))
    return Words(starts, ends, after.ravel()[starts], first)


def _places(flags: np.ndarray) -> np.ndarray:
    return np.flatnonzero(flags).astype(np.int32)  # half the memory to walk through


def choose_words(
    words: Words, *, quotas: np.ndarray, max_ngram: int, generator: np.random.Generator
) -> np.ndarray:
    """Flat places of the chosen pieces, int64 ascending; at most `quotas` int [B] in each row.

    Words are drawn in random order until the quota is met. Each brings the words behind it along,
    n in all, n being drawn with weights 1/n up to `max_ngram` among the n that fit: that follow one
    another, are not chosen yet, and stay within the quota. A word that does not fit is left out.
    """
    starts, ends, _, first = words
    taken = np.zeros(len(starts), bool)
    shuffled = np.arange(len(starts), dtype=np.int32)
    # A row's words that were not drawn yet are shuffled[here:there]; `room` is left of its quota.
    is_open = (first[1:] > first[:-1]) & (quotas > 0)
    here, there, room = first[:-1][is_open], first[1:][is_open], quotas[is_open]
    while len(here):
        drawn = here + _below(there - here, generator)
        word = shuffled[drawn]
        shuffled[drawn] = shuffled[here]
        fits = ~taken[word] & (ends[word] - starts[word] <= room)
        word = word[fits]
        last = word
        if max_ngram > 1:
            last = _last_words(
                word,
                words=words,
                taken=taken,
                room=room[fits],
                max_ngram=max_ngram,
                generator=generator,
            )
        for more in range(max_ngram):
            taken[word[word + more <= last] + more] = True
        room[fits] -= ends[last] - starts[word]
        here = here + 1
        is_open = (room > 0) & (here < there)
        if not is_open.all():
            here, there, room = here[is_open], there[is_open], room[is_open]
    starts, sizes = starts[taken], (ends - starts)[taken]
    return np.repeat(starts - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())


def _last_words(
    word: np.ndarray,
    *,
    words: Words,
    taken: np.ndarray,
    room: np.ndarray,
    max_ngram: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """The last of the n words that begin with `word`, which fits alone."""
    num_more = np.zeros(len(word), np.int64)
    goes_on = np.ones(len(word), bool)
    for more in range(1, max_ngram):
        last = np.minimum(word + more, len(taken) - 1)
        goes_on &= (word + more == last) & words.follows[last] & ~taken[last]
        goes_on &= words.ends[last] - words.starts[word] <= room
        num_more += goes_on
    weights = np.cumsum(1 / np.arange(1, max_ngram + 1))
    draw = generator.random(len(word)) * weights[num_more]
    return word + np.searchsorted(weights, draw, side="right").astype(np.int32)


def _below(limits: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """int64, each from 0 below its limit: 32 random bits scaled, even to one part in 2^32/limit."""
    bits = generator.integers(0, 1 << 32, len(limits), np.uint32)
    return (bits.astype(np.int64) * limits) >> 32
