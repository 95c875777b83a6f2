"""What is chosen, against the rules said in plain loops, and its statistics.

Statistical bounds are five standard deviations: chance breaks one once in 1.7 million.
"""

from itertools import pairwise

import numpy as np
import pytest

from bert_keras.data.choice import choose_pieces, choose_words, words_of

# w begins a word, + goes on with it, . may not be chosen; a + behind a . begins a word
MARKS = [".ww++w.ww+ww.", "w+ww.+w...+++", ".............", "wwwwwwwwwwwww"]
CANDIDATES = np.array([[mark != "." for mark in row] for row in MARKS])
CONTINUES = np.array([[mark == "+" for mark in row] for row in MARKS])


def test_words_exactly():
    words = words_of(CANDIDATES, continues=CONTINUES)
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


def test_pieces_are_as_many_as_asked_for_or_as_there_are(generator):
    quotas = np.array([3, 20, 5, 13])
    places = choose_pieces(CANDIDATES, quotas=quotas, generator=generator)
    assert (np.diff(places) > 0).all()
    assert CANDIDATES.ravel()[places].all()
    assert np.bincount(places // 13, minlength=4).tolist() == [3, 9, 0, 13]


def random_texts(random, *, rows, length):
    candidates = random.random((rows, length)) > 0.1
    return candidates, random.random((rows, length)) < 0.4


@pytest.mark.parametrize("max_ngram", [1, 3])
def test_no_word_is_cut_and_none_is_left_out_that_would_fit(max_ngram):
    random = np.random.default_rng(3)
    candidates, continues = random_texts(random, rows=300, length=40)
    quotas = random.integers(0, 12, 300)
    words = words_of(candidates, continues=continues)
    places = choose_words(words, quotas=quotas, max_ngram=max_ngram, generator=random)
    assert (np.diff(places) > 0).all()
    chosen = np.isin(np.arange(candidates.size), places)
    for row, (first, beyond) in enumerate(pairwise(words.first)):
        whole = [chosen[words.starts[w] : words.ends[w]] for w in range(first, beyond)]
        assert all(word.all() or not word.any() for word in whole)
        room = quotas[row] - chosen[row * 40 : (row + 1) * 40].sum()
        left = [len(word) for word in whole if not word.any()]
        assert 0 <= room < min(left, default=99)


def test_words_of_one_length_are_equally_likely(generator):
    candidates = np.ones((30_000, 9), bool)
    continues = np.tile([False, True, True], (30_000, 3))
    places = choose_words(
        words_of(candidates, continues=continues),
        quotas=np.full(30_000, 4),
        max_ngram=1,
        generator=generator,
    )
    counts = np.bincount(places % 9, minlength=9)
    assert counts.sum() == 90_000
    bound = 5 * np.sqrt(30_000 * 1 / 3 * 2 / 3)
    assert np.abs(counts - 10_000).max() <= bound


def test_lengths_of_ngrams_are_weighted_by_one_over_n(generator):
    """In texts so long that grams seldom touch, they are the runs of chosen words."""
    rows, length, max_ngram = 30_000, 500, 4
    words = words_of(np.ones((rows, length), bool), continues=np.zeros((rows, length), bool))
    places = choose_words(words, quotas=np.full(rows, 4), max_ngram=max_ngram, generator=generator)
    runs = np.split(places, np.flatnonzero(np.diff(places) != 1) + 1)
    grams = np.bincount([len(run) for run in runs], minlength=max_ngram + 1)[1:]
    assert (grams * np.arange(1, max_ngram + 1)).sum() == 4 * rows
    expected = expected_grams(4, max_ngram)
    for count, share in zip(grams, expected, strict=True):
        bound = 5 * np.sqrt(rows * share) + 0.02 * rows  # grams that touch: 2 % at most
        assert abs(count - rows * share) <= bound


def expected_grams(room, max_ngram):
    """Mean numbers of grams of 1 to max_ngram words that fill `room`, when all words are free."""
    numbers = np.zeros(max_ngram)
    if room:
        weights = 1 / np.arange(1, min(room, max_ngram) + 1)
        for n, share in enumerate(weights / weights.sum(), start=1):
            numbers += share * (expected_grams(room - n, max_ngram) + np.eye(max_ngram)[n - 1])
    return numbers


def test_ngrams_stay_within_a_text(generator):
    places = choose_words(
        words_of(
            np.tile([True, True, False, True, True], (2000, 1)), continues=np.zeros((2000, 5), bool)
        ),
        quotas=np.full(2000, 2),
        max_ngram=2,
        generator=generator,
    )
    pairs = {tuple(pair.tolist()) for pair in (places % 5).reshape(-1, 2)}
    assert pairs == {(0, 1), (0, 3), (0, 4), (1, 3), (1, 4), (3, 4)}
    together = [tuple(pair) in {(0, 1), (3, 4)} for pair in (places % 5).reshape(-1, 2).tolist()]
    # An end of a text has no second word: of 4 first words 2 make a pair in one draw of three,
    # and a single one meets its neighbour as its second in one of three draws.
    share = 1 / 2 * (1 / 3 + 2 / 3 * 1 / 3) + 1 / 2 * 1 / 3
    assert abs(np.sum(together) - 2000 * share) <= 5 * np.sqrt(2000 * share * (1 - share))
