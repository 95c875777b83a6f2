"""Chosen tokens, words and n-grams compared with simple loops, and the statistics of all draws.

Statistical bounds are five standard deviations: chance exceeds one in 1.7 million.
"""

from itertools import pairwise

import numpy as np
import pytest

from bert_keras.data import masking
from bert_keras.errors import InputError
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

CLS, SEP, MASK = 2, 3, 4
# Random tokens are drawn from ids 5 to 899; the texts are of the others.
WORDS = [f"word{number}" for number in range(5, 900)]
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *WORDS, *(f"[unused{n}]" for n in range(900, 1200))))


@pytest.fixture
def generator():
    return np.random.default_rng(3)


def assert_rate(count, *, of, expected):
    bound = 5 * np.sqrt(of * expected * (1 - expected))
    assert abs(count - of * expected) <= bound, f"{count / of:.4%} of {of}, expected {expected:.4%}"


def masked(policy, *, generator, rows=2000, length=128, filled=128):
    """Rows of one long text each: CLS, ids counting up from 1000, SEP, padding."""
    input_ids = np.zeros((rows, length), np.int32)
    input_ids[:, :filled] = 1000 + np.arange(filled)
    input_ids[:, 0], input_ids[:, filled - 1] = CLS, SEP
    before = input_ids.copy()
    result = masking.Masker(policy, VOCABULARY).mask(input_ids, generator=generator)
    assert (input_ids == before).all(), "the input ids were changed"
    return before, result


@pytest.mark.parametrize("max_ngram", [1, 3])
def test_words_are_complete_and_no_word_that_fits_remains(generator, max_ngram):
    candidates, continues = generator.random((300, 40)) > 0.1, generator.random((300, 40)) < 0.4
    quotas = generator.integers(0, 12, 300)
    words = masking.group_words(candidates, is_continuation_BT=continues)
    indices = masking.choose_words(words, quotas=quotas, max_ngram=max_ngram, generator=generator)
    assert (np.diff(indices) > 0).all()
    chosen = np.isin(np.arange(candidates.size), indices)
    for row, (first, beyond) in enumerate(pairwise(words.row_starts)):
        is_chosen = [chosen[words.starts[w] : words.ends[w]] for w in range(first, beyond)]
        assert all(word.all() or not word.any() for word in is_chosen)
        space = quotas[row] - chosen[row * 40 : (row + 1) * 40].sum()
        lengths = [len(word) for word in is_chosen if not word.any()]
        assert 0 <= space < min(lengths, default=99)


def test_ngrams_stay_within_a_text(generator):
    candidates = np.tile([True, True, False, True, True], (2000, 1))
    words = masking.group_words(candidates, is_continuation_BT=np.zeros((2000, 5), bool))
    quotas = np.full(2000, 2)
    indices = masking.choose_words(words, quotas=quotas, max_ngram=2, generator=generator)
    pairs = [tuple(pair) for pair in (indices % 5).reshape(-1, 2).tolist()]
    assert {*pairs} == {(0, 1), (0, 3), (0, 4), (1, 3), (1, 4), (3, 4)}
    # Of the 4 words, 2 can start a pair, in one draw of three. After a single word, one of the
    # three other words is its neighbour.
    rate = 1 / 2 * (1 / 3 + 2 / 3 * 1 / 3) + 1 / 2 * 1 / 3
    assert_rate(pairs.count((0, 1)) + pairs.count((3, 4)), of=2000, expected=rate)


def test_numbers_of_predictions_equal_those_of_the_original():
    lengths = np.array([3, 10, 17, 30, 50, 70, 128, 512])
    expected = [min(20, max(1, round(length * 0.15))) for length in lengths.tolist()]
    assert expected == [1, 2, 3, 4, 8, 10, 19, 20]  # 1.5 -> 2, 4.5 -> 4, 7.5 -> 8: half to even
    assert masking.MaskingPolicy().num_predictions(lengths).tolist() == expected


@pytest.mark.parametrize("name", masking.REPLACEMENTS)
def test_rates_of_mask_random_and_unchanged_tokens(generator, name):
    policy = masking.MaskingPolicy(**masking.replacement_shares(name))
    before, result = masked(policy, generator=generator)
    assert result["masked_lm_weights"].sum() == 2000 * 19
    rows, slots = np.nonzero(result["masked_lm_weights"])
    positions, target_ids = result["masked_lm_positions"], result["masked_lm_ids"]
    columns = positions[rows, slots]
    shown = result["input_ids"][rows, columns]
    assert (target_ids[rows, slots] == before[rows, columns]).all()
    is_mask, is_unchanged = shown == MASK, shown == target_ids[rows, slots]
    is_random = ~is_mask & ~is_unchanged
    percents = [int(percent) / 100 for percent in name.split("-")]
    for kind, expected in zip((is_mask, is_unchanged, is_random), percents, strict=True):
        assert_rate(kind.sum(), of=len(rows), expected=expected)
    if is_random.any():
        counts = np.bincount(shown[is_random], minlength=900)
        assert not counts[:5].any() and len(counts) == 900
        # chi-squared of 894 degrees of freedom: mean 894, deviation sqrt(2 * 894)
        even = is_random.sum() / 895
        assert abs(((counts[5:] - even) ** 2 / even).sum() - 894) <= 5 * np.sqrt(2 * 894)
    is_changed = result["input_ids"] != before
    assert is_changed.sum() == (~is_unchanged).sum(), "another position changed"


def test_positions_ascend_and_exclude_special_tokens_and_padding(generator):
    _, result = masked(masking.MaskingPolicy(), generator=generator, filled=100)
    counted = result["masked_lm_positions"][:, :15]
    assert (result["masked_lm_weights"] == [1.0] * 15 + [0.0] * 5).all()
    assert (np.diff(counted, axis=1) > 0).all()
    assert (counted.min(), counted.max()) == (1, 98)
    assert not result["masked_lm_positions"][:, 15:].any() | result["masked_lm_ids"][:, 15:].any()
    masker = masking.Masker(masking.MaskingPolicy(mask_rate=1.0), VOCABULARY)
    result = masker.mask(np.array([[CLS, 1000, SEP, 0]]), generator=generator)
    assert result["masked_lm_weights"].tolist() == [[1.0] + [0.0] * 19]
    assert result["masked_lm_ids"][0, 0] == 1000


def test_candidates_and_their_pairs_are_equally_likely(generator):
    _, result = masked(masking.MaskingPolicy(), generator=generator, rows=20000, filled=20)
    counts = np.bincount(result["masked_lm_positions"][:, :3].ravel(), minlength=20)
    assert (counts[[0, 19]] == 0).all()
    for count in counts[1:19]:
        assert_rate(count, of=20000, expected=3 / 18)
    policy = masking.MaskingPolicy(mask_rate=0.25)
    _, result = masked(policy, generator=generator, rows=20000, filled=8)
    first, second = result["masked_lm_positions"][:, :2].T
    pairs, counts = np.unique(first * 8 + second, return_counts=True)
    assert len(pairs) == 15
    for count in counts:
        assert_rate(count, of=20000, expected=1 / 15)


def test_word_masking_uses_the_vocabulary_or_the_flags_of_the_caller(generator):
    """Masks whole words of `[CLS] bright ##ness light [SEP] ##ing [SEP]`, three tokens at most."""
    vocabulary = Vocabulary((*SPECIAL_TOKENS, "bright", "##ness", "light", "##ing"))
    input_ids = np.repeat([[2, 5, 6, 7, 3, 8, 3, 0, 0]], 500, axis=0)

    def chosen(unit, continues=None):
        masker = masking.Masker(masking.MaskingPolicy(mask_rate=0.4, unit=unit), vocabulary)
        result = masker.mask(input_ids, generator=generator, continues=continues)
        assert unit == "word" or (result["masked_lm_weights"].sum(axis=1) == 3).all()
        return {tuple(row[:3].tolist()) for row in result["masked_lm_positions"]}

    assert chosen("word") == {(1, 2, 3), (1, 2, 5), (3, 5, 0)}
    continues = np.repeat([[0, 0, 0, 1, 0, 0, 0, 0, 0]], 500, axis=0).astype(bool)
    assert chosen("word", continues) == {(1, 2, 3), (1, 5, 0), (2, 3, 5)}
    assert chosen("token") == {(1, 2, 3), (1, 2, 5), (1, 3, 5), (2, 3, 5)}


def test_replacements_are_ordinary_tokens_and_policies_possible():
    vocabulary = Vocabulary((*SPECIAL_TOKENS, "[unused0]", "a", "##b", "[unused993]", "["))
    assert masking.Masker(masking.MaskingPolicy(), vocabulary).replacement_ids.tolist() == [6, 7, 9]
    for values in ({"mask_rate": 0}, {"random_share": -0.1}, {"random_share": 0.25}):
        with pytest.raises(InputError):
            masking.MaskingPolicy(**values)
