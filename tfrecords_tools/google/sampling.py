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

from tfrecords_tools.settings import NUM_SPECIALS, GoogleSettings
from tfrecords_tools.text.store import TokenStore

MASK_RATE = 0.8
KEEP_RATE = 0.5  # of the tokens that are not masked
MAX_TRIES = 10  # attempts to draw a document other than that of A
WINDOW = 4096  # sentences whose positions are read at once


class Pair(NamedTuple):
    """The spans of A and B in the store, in tokens, cut to length."""

    start_a: int
    length_a: int
    start_b: int
    length_b: int
    is_random: bool


class FastRandom:
    """Draws the numbers of `Random(seed)`; `below` and `shuffle` are faster than in `Random`.

    `Random.randrange(n)` draws as many bits as n has, until they make a number below n. `shuffle`
    draws a number below the length, then one below the length minus 1, and so on down to 2.
    """

    def __init__(self, seed: int):
        generator = Random(seed)
        self.random, self._bits = generator.random, generator.getrandbits

    def below(self, limit: int) -> int:
        """Returns a number from 0 to `limit` - 1."""
        size = limit.bit_length()
        number = self._bits(size)
        while number >= limit:
            number = self._bits(size)
        return number

    def shuffle(self, items: MutableSequence) -> None:
        """Shuffles `items` as `Random.shuffle` does."""
        bits = self._bits
        for size, indices in _sizes(len(items)):
            for index in indices:
                other = bits(size)
                while other > index:
                    other = bits(size)
                items[index], items[other] = items[other], items[index]

    def shuffled(self, count: int) -> array:
        """Returns the shuffled indices below `count`, of 4 bytes each."""
        indices = array("I", range(count))
        self.shuffle(indices)
        return indices


@lru_cache(4096)
def _sizes(count: int) -> list[tuple[int, range]]:
    """Groups the indices from count-1 down to 1 by the number of bits that are drawn for each."""
    sizes, index = [], count - 1
    while index > 0:
        size = (index + 1).bit_length()
        last = max(0, (1 << size - 1) - 2)
        sizes.append((size, range(index, last, -1)))
        index = last
    return sizes


def pairs_of(
    store: TokenStore,
    order: Sequence[int],
    settings: GoogleSettings,
    *,
    generator: FastRandom,
    advance: Callable[[int], object],
) -> Iterator[Pair]:
    """Yields the pairs of the documents in `order`, each cut to the length of a record.

    The caller must draw the masks of a pair before it takes the next pair, because both use
    `generator`.
    """
    limit = settings.max_length - NUM_SPECIALS
    for index in range(len(order)):
        target = limit
        if generator.random() < settings.short_sequence_rate:
            target = 2 + generator.below(limit - 1)
        sentence, end = store.documents(order[index], order[index] + 1)
        while sentence < end:
            starts = store.sentences(sentence, min(end, sentence + WINDOW + target)).tolist()
            first, last = 0, len(starts) - 1
            # Every sentence has a token, so no chunk has more sentences than `target`.
            num_complete = last if sentence + last == end else last - target
            while first < num_complete:
                after = min(bisect_left(starts, starts[first] + target, first + 1), last)
                end_a = first + 1
                if after - first > 1:
                    end_a += generator.below(after - first - 1)
                start_a, length_a = starts[first], starts[end_a] - starts[first]
                if after - first == 1 or generator.random() < 0.5:
                    is_random, after = True, end_a  # unused sentences are used again
                    start_b, end_b = _random_next(store, order, index, target - length_a, generator)
                else:
                    is_random, start_b, end_b = False, starts[end_a], starts[after]
                pair = Pair(start_a, length_a, start_b, end_b - start_b, is_random)
                yield _cut(pair, limit, generator)
                first = after
            sentence += first
            advance(first)


def _random_next(
    store: TokenStore, order: Sequence[int], index: int, max_tokens: int, generator: FastRandom
) -> tuple[int, int]:
    """Returns the span of one or more sentences of another document that fill `max_tokens` tokens.

    After `MAX_TRIES` draws the document may be that of A.
    """
    for _ in range(MAX_TRIES):
        other = generator.below(len(order))
        if other != index:
            break
    first, end = store.documents(order[other], order[other] + 1)
    first += generator.below(end - first)
    max_tokens = max(max_tokens, 1)
    starts = store.sentences(first, min(end, first + max_tokens))
    after = min(bisect_left(starts, starts[0] + max_tokens, 1), len(starts) - 1)
    return starts[0], starts[after]


def _cut(pair: Pair, limit: int, generator: FastRandom) -> Pair:
    """Removes tokens from the longer text, or from B, until both fit; draws the end for each."""
    start_a, length_a, start_b, length_b, is_random = pair
    random = generator.random
    while length_a + length_b > limit:
        is_front = random() < 0.5
        if length_a > length_b:
            length_a -= 1
            start_a += is_front
        else:
            length_b -= 1
            start_b += is_front
    return Pair(start_a, length_a, start_b, length_b, is_random)


def chosen_tokens(
    store: TokenStore,
    pair: Pair,
    num_predictions: int,
    *,
    is_word_start: np.ndarray | None,
    generator: FastRandom,
) -> list[int]:
    """Chooses the tokens to predict; returns indices into A and B laid end to end.

    `is_word_start`, bool [V], is False for "##" tokens: whole words are chosen, and a word that
    does not fit into the rest of `num_predictions` is skipped. A word continues across the [SEP]:
    where B was cut inside a word, its rest belongs to the last word of A. None chooses each token
    by itself.
    """
    start_a, length_a, start_b, length_b, _ = pair
    if is_word_start is None:
        tokens = list(range(length_a + length_b))
        generator.shuffle(tokens)
        return tokens[:num_predictions]
    ids = store.tokens(start_a, start_a + length_a) + store.tokens(start_b, start_b + length_b)
    is_start = is_word_start[np.frombuffer(ids, store.dtype)]
    is_start[0] = True
    starts = [*np.flatnonzero(is_start).tolist(), len(is_start)]
    words = list(range(len(starts) - 1))
    generator.shuffle(words)
    chosen: list[int] = []
    for word in words:
        if len(chosen) >= num_predictions:
            break
        start, end = starts[word], starts[word + 1]
        if len(chosen) + end - start <= num_predictions:
            chosen += range(start, end)
    return chosen


def replacement_ids(count: int, generator: FastRandom, mask_id: int, num_ids: int) -> list[int]:
    """Draws the id that replaces each chosen token; -1 keeps the token.

    A random id is any id of the vocabulary, special tokens included.
    """
    random, replacements = generator.random, []
    for _ in range(count):
        if random() < MASK_RATE:
            replacements.append(mask_id)
        elif random() < KEEP_RATE:
            replacements.append(-1)
        else:
            replacements.append(generator.below(num_ids))
    return replacements
