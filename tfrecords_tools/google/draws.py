"""Draws the instances of the original writer from a token store and a seed.

The module draws random numbers from Python's random.Random in the same order as
google-research/bert `create_pretraining_data.py` and uses each for the same decision. It handles
only indices of tokens, because a document may be larger than memory.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from functools import lru_cache
from random import Random
from typing import NamedTuple

import numpy as np

from tfrecords_tools.text.store import TokenStore

MASK_SHARE = 0.8
KEPT_SHARE = 0.5  # of the tokens that are not masked
TRIES = 10  # attempts to draw a document other than that of A
WINDOW = 4096  # sentences whose positions are read at once


class Pair(NamedTuple):
    """The spans of A and B in the store, in tokens, cut to length."""

    start_a: int
    length_a: int
    start_b: int
    length_b: int
    is_random: bool


class Draws:
    """Draws the numbers of `Random(seed)`; `below` and `shuffle` are faster than its own methods.

    `Random.randrange(n)` draws as many bits as n has, until they make a number below n. `shuffle`
    draws a number below the length, then one below the length minus 1, and so on down to 2.
    """

    def __init__(self, seed: int):
        generator = Random(seed)
        self.random, self._bits = generator.random, generator.getrandbits

    def below(self, limit: int) -> int:
        size = limit.bit_length()
        number = self._bits(size)
        while number >= limit:
            number = self._bits(size)
        return number

    def shuffle(self, items: MutableSequence) -> None:
        bits = self._bits
        for size, places in _sizes(len(items)):
            for place in places:
                other = bits(size)
                while other > place:
                    other = bits(size)
                items[place], items[other] = items[other], items[place]

    def shuffled(self, count: int) -> array:
        """Returns the shuffled numbers below `count`, of 4 bytes each."""
        numbers = array("I", range(count))
        self.shuffle(numbers)
        return numbers


@lru_cache(4096)
def _sizes(count: int) -> list[tuple[int, range]]:
    """Groups the indices from count-1 down to 1 by the number of bits that are drawn for each."""
    sizes, place = [], count - 1
    while place > 0:
        size = (place + 1).bit_length()
        last = max(0, (1 << size - 1) - 2)
        sizes.append((size, range(place, last, -1)))
        place = last
    return sizes


def pairs_of(
    store: TokenStore,
    order: Sequence[int],
    place: int,
    *,
    limit: int,
    short_sequence_rate: float,
    draws: Draws,
    advance: Callable[[int], object],
) -> Iterator[Pair]:
    """Yields the pairs of document `order[place]`, each of at most `limit` tokens.

    The caller must draw the masks of a pair before it takes the next pair, because both use
    `draws`.
    """
    target = limit
    if draws.random() < short_sequence_rate:
        target = 2 + draws.below(limit - 1)
    sentence, end = store.documents(order[place], order[place] + 1)
    while sentence < end:
        starts = store.sentences(sentence, min(end, sentence + WINDOW + target)).tolist()
        first, last = 0, len(starts) - 1
        # Every sentence has a token, so no chunk has more sentences than `target`.
        whole = last if sentence + last == end else last - target
        while first < whole:
            after = min(bisect_left(starts, starts[first] + target, first + 1), last)
            end_a = first + 1
            if after - first > 1:
                end_a += draws.below(after - first - 1)
            start_a, length_a = starts[first], starts[end_a] - starts[first]
            if after - first == 1 or draws.random() < 0.5:
                is_random, after = True, end_a  # unused sentences are used again
                start_b, end_b = _random_next(store, order, place, target - length_a, draws)
            else:
                is_random, start_b, end_b = False, starts[end_a], starts[after]
            yield _cut(start_a, length_a, start_b, end_b - start_b, is_random, limit, draws)
            first = after
        sentence += first
        advance(first)


def _random_next(
    store: TokenStore, order: Sequence[int], place: int, room: int, draws: Draws
) -> tuple[int, int]:
    """Returns the span of one or more sentences of another document that fill `room` tokens.

    After `TRIES` draws the document may be that of A.
    """
    for _ in range(TRIES):
        other = draws.below(len(order))
        if other != place:
            break
    first, end = store.documents(order[other], order[other] + 1)
    first += draws.below(end - first)
    room = max(room, 1)
    starts = store.sentences(first, min(end, first + room))
    after = min(bisect_left(starts, starts[0] + room, 1), len(starts) - 1)
    return starts[0], starts[after]


def _cut(
    start_a: int,
    length_a: int,
    start_b: int,
    length_b: int,
    is_random: bool,
    limit: int,
    draws: Draws,
) -> Pair:
    """Removes tokens from the longer text, or from B, until both fit; draws the end for each."""
    random = draws.random
    while length_a + length_b > limit:
        is_front = random() < 0.5
        if length_a > length_b:
            length_a -= 1
            start_a += is_front
        else:
            length_b -= 1
            start_b += is_front
    return Pair(start_a, length_a, start_b, length_b, is_random)


def chosen_pieces(
    store: TokenStore, pair: Pair, wanted: int, *, opens_word: np.ndarray | None, draws: Draws
) -> list[int]:
    """Chooses the tokens to predict; returns indices into A and B laid end to end.

    `opens_word`, bool [V], is False for "##" tokens: whole words are chosen, and one that is longer
    than the rest of `wanted` is skipped. A word continues across the [SEP]: where B was cut inside
    a word, its rest belongs to the last word of A. None chooses each token by itself.
    """
    start_a, length_a, start_b, length_b, _ = pair
    if opens_word is None:
        pieces = list(range(length_a + length_b))
        draws.shuffle(pieces)
        return pieces[:wanted]
    ids = store.pieces(start_a, start_a + length_a) + store.pieces(start_b, start_b + length_b)
    opens = opens_word[np.frombuffer(ids, store.dtype)]
    opens[0] = True
    starts = [*np.flatnonzero(opens).tolist(), len(opens)]
    words = list(range(len(starts) - 1))
    draws.shuffle(words)
    chosen: list[int] = []
    for word in words:
        if len(chosen) >= wanted:
            break
        start, end = starts[word], starts[word + 1]
        if len(chosen) + end - start <= wanted:
            chosen += range(start, end)
    return chosen


def shown_instead(count: int, draws: Draws, mask_id: int, num_ids: int) -> list[int]:
    """Draws the id that replaces each chosen token; -1 keeps the token.

    A random id is any id of the vocabulary, special tokens included.
    """
    random, shown = draws.random, []
    for _ in range(count):
        if random() < MASK_SHARE:
            shown.append(mask_id)
        elif random() < KEPT_SHARE:
            shown.append(-1)
        else:
            shown.append(draws.below(num_ids))
    return shown
