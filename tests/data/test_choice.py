"""Compares the chosen tokens with simple loops, and checks their statistics.

Statistical bounds are five standard deviations: chance exceeds one in 1.7 million.
"""

from itertools import pairwise

import numpy as np
import pytest

from bert_keras.data.masking import choose_tokens, choose_words, group_words

# w starts a word, + continues it, . is no candidate; a + after a . starts a word
MARKS = [".ww++w.ww+ww.", "w+ww.+w...+++", ".............", "wwwwwwwwwwwww"]
CANDIDATES = np.array([[mark != "." for mark in row] for row in MARKS])
CONTINUES = np.array([[mark == "+" for mark in row] for row in MARKS])


def test_words_are_grouped_exactly():
    words = group_words(CANDIDATES, continues=CONTINUES)
    spans = [
        [(start % 13, end - 13 * row) for start, end in zip(words.starts, words.ends, strict=True)
         if start // 13 == row]
        for row in range(4)
    ]  # fmt: skip
    assert spans == [
        [(1, 2), (2, 5), (5, 6), (7, 8), (8, 10), (10, 11), (11, 12)],
        [(0, 2), (2, 3), (3, 4), (5, 6), (6, 7), (10, 13)],
        [],
        [(column, column + 1) for column in range(13)],
    ]
    assert words.first.tolist() == [0, 7, 13, 13, 26]
    assert "".join("+" if each else "|" for each in words.follows) == "|++|+++|++|+||" + "+" * 12


def test_the_number_of_tokens_is_the_quota_or_all_candidates(generator):
    quotas = np.array([3, 20, 5, 13])
    indices = choose_tokens(CANDIDATES, quotas=quotas, generator=generator)
    assert (np.diff(indices) > 0).all()
    assert CANDIDATES.ravel()[indices].all()
    assert np.bincount(indices // 13, minlength=4).tolist() == [3, 9, 0, 13]


def random_texts(random, *, rows, length):
    candidates = random.random((rows, length)) > 0.1
    return candidates, random.random((rows, length)) < 0.4


@pytest.mark.parametrize("max_ngram", [1, 3])
def test_words_are_complete_and_no_word_that_fits_remains(max_ngram):
    random = np.random.default_rng(3)
    candidates, continues = random_texts(random, rows=300, length=40)
    quotas = random.integers(0, 12, 300)
    words = group_words(candidates, continues=continues)
    indices = choose_words(words, quotas=quotas, max_ngram=max_ngram, generator=random)
    assert (np.diff(indices) > 0).all()
    chosen = np.isin(np.arange(candidates.size), indices)
    for row, (first, beyond) in enumerate(pairwise(words.first)):
        is_chosen = [chosen[words.starts[w] : words.ends[w]] for w in range(first, beyond)]
        assert all(word.all() or not word.any() for word in is_chosen)
        space = quotas[row] - chosen[row * 40 : (row + 1) * 40].sum()
        lengths = [len(word) for word in is_chosen if not word.any()]
        assert 0 <= space < min(lengths, default=99)


def test_words_of_one_length_are_equally_likely(generator):
    candidates = np.ones((30_000, 9), bool)
    continues = np.tile([False, True, True], (30_000, 3))
    indices = choose_words(
        group_words(candidates, continues=continues),
        quotas=np.full(30_000, 4),
        max_ngram=1,
        generator=generator,
    )
    counts = np.bincount(indices % 9, minlength=9)
    assert counts.sum() == 90_000
    bound = 5 * np.sqrt(30_000 * 1 / 3 * 2 / 3)
    assert np.abs(counts - 10_000).max() <= bound


def test_ngram_lengths_have_weights_of_one_over_n(generator):
    """In long texts, n-grams are rarely adjacent, so each is a run of chosen words."""
    rows, length, max_ngram = 30_000, 500, 4
    words = group_words(np.ones((rows, length), bool), continues=np.zeros((rows, length), bool))
    indices = choose_words(words, quotas=np.full(rows, 4), max_ngram=max_ngram, generator=generator)
    runs = np.split(indices, np.flatnonzero(np.diff(indices) != 1) + 1)
    grams = np.bincount([len(run) for run in runs], minlength=max_ngram + 1)[1:]
    assert (grams * np.arange(1, max_ngram + 1)).sum() == 4 * rows
    expected = expected_grams(4, max_ngram)
    for count, rate in zip(grams, expected, strict=True):
        bound = 5 * np.sqrt(rows * rate) + 0.02 * rows  # adjacent n-grams: 2 % at most
        assert abs(count - rows * rate) <= bound


def expected_grams(space, max_ngram):
    """Mean numbers of n-grams of 1 to max_ngram words that fill `space` without obstacles."""
    counts = np.zeros(max_ngram)
    if space:
        weights = 1 / np.arange(1, min(space, max_ngram) + 1)
        for n, rate in enumerate(weights / weights.sum(), start=1):
            counts += rate * (expected_grams(space - n, max_ngram) + np.eye(max_ngram)[n - 1])
    return counts


def test_ngrams_stay_within_a_text(generator):
    indices = choose_words(
        group_words(
            np.tile([True, True, False, True, True], (2000, 1)), continues=np.zeros((2000, 5), bool)
        ),
        quotas=np.full(2000, 2),
        max_ngram=2,
        generator=generator,
    )
    pairs = {tuple(pair.tolist()) for pair in (indices % 5).reshape(-1, 2)}
    assert pairs == {(0, 1), (0, 3), (0, 4), (1, 3), (1, 4), (3, 4)}
    together = [tuple(pair) in {(0, 1), (3, 4)} for pair in (indices % 5).reshape(-1, 2).tolist()]
    # Of the 4 words, 2 can start a pair, in one draw of three. After a single word, one of the
    # three other words is its neighbour.
    rate = 1 / 2 * (1 / 3 + 2 / 3 * 1 / 3) + 1 / 2 * 1 / 3
    assert abs(np.sum(together) - 2000 * rate) <= 5 * np.sqrt(2000 * rate * (1 - rate))
