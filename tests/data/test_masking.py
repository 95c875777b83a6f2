import numpy as np
import pytest

from bert_keras.data.masking import (
    REPLACEMENTS,
    Masker,
    MaskingPolicy,
    replacement_shares,
)
from bert_keras.errors import InputError
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

CLS, SEP, MASK = 2, 3, 4
# Random tokens are drawn from ids 5 to 899; the texts are of the others.
VOCABULARY = Vocabulary(
    (
        *SPECIAL_TOKENS,
        *(f"word{number}" for number in range(5, 900)),
        *(f"[unused{number}]" for number in range(900, 1200)),
    )
)


def assert_rate(count, *, of, expected):
    """The bound is five standard deviations: chance exceeds it once in 1.7 million tests."""
    bound = 5 * np.sqrt(of * expected * (1 - expected))
    assert abs(count - of * expected) <= bound, f"{count / of:.4%} of {of}, expected {expected:.4%}"


def masked(policy, *, generator, rows=2000, length=128, filled=128):
    """Rows of one long text each: CLS, ids counting up from 1000, SEP, padding."""
    input_ids = np.zeros((rows, length), np.int32)
    input_ids[:, :filled] = 1000 + np.arange(filled)
    input_ids[:, 0], input_ids[:, filled - 1] = CLS, SEP
    before = input_ids.copy()
    result = Masker(policy, VOCABULARY).mask(input_ids, generator=generator)
    assert (input_ids == before).all(), "the input ids were changed"
    return before, result


def test_numbers_of_predictions_equal_those_of_the_original():
    lengths = np.array([3, 10, 17, 30, 50, 70, 128, 512])
    expected = [min(20, max(1, round(length * 0.15))) for length in lengths.tolist()]
    assert expected == [1, 2, 3, 4, 8, 10, 19, 20]  # 1.5 -> 2, 4.5 -> 4, 7.5 -> 8: half to even
    assert MaskingPolicy().num_predictions(lengths).tolist() == expected


@pytest.mark.parametrize("name", REPLACEMENTS)
def test_rates_of_mask_random_and_unchanged_tokens(generator, name):
    policy = MaskingPolicy(**replacement_shares(name))
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
    assert (result["input_ids"] != before).sum() == (~is_unchanged).sum(), (
        "another position changed"
    )


def test_positions_ascend_and_exclude_special_tokens_and_padding(generator):
    _, result = masked(MaskingPolicy(), generator=generator, filled=100)
    counted = result["masked_lm_positions"][:, :15]
    assert (result["masked_lm_weights"] == [1.0] * 15 + [0.0] * 5).all()
    assert (np.diff(counted, axis=1) > 0).all()
    assert counted.min() == 1
    assert counted.max() == 98
    assert not result["masked_lm_positions"][:, 15:].any()
    assert not result["masked_lm_ids"][:, 15:].any()


def test_every_candidate_is_equally_likely(generator):
    _, result = masked(MaskingPolicy(), generator=generator, rows=20000, filled=20)
    counts = np.bincount(result["masked_lm_positions"][:, :3].ravel(), minlength=20)
    assert (counts[[0, 19]] == 0).all()
    for count in counts[1:19]:
        assert_rate(count, of=20000, expected=3 / 18)


def test_pairs_of_candidates_are_equally_likely(generator):
    _, result = masked(MaskingPolicy(mask_rate=0.25), generator=generator, rows=20000, filled=8)
    first, second = result["masked_lm_positions"][:, :2].T
    pairs, counts = np.unique(first * 8 + second, return_counts=True)
    assert len(pairs) == 15
    for count in counts:
        assert_rate(count, of=20000, expected=1 / 15)


def test_fewer_candidates_than_predictions(generator):
    masker = Masker(MaskingPolicy(mask_rate=1.0, max_predictions=20), VOCABULARY)
    result = masker.mask(np.array([[CLS, 1000, SEP, 0]]), generator=generator)
    assert result["masked_lm_positions"].shape == (1, 20)
    assert result["masked_lm_weights"].sum() == 1
    assert result["masked_lm_ids"][0, 0] == 1000


def test_same_seed_same_masks():
    first, second = (
        masked(MaskingPolicy(), generator=np.random.default_rng(5), rows=9)[1] for _ in range(2)
    )
    assert all((first[name] == second[name]).all() for name in first)
    assert first["input_ids"].dtype == np.int32
    assert first["masked_lm_weights"].dtype == np.float32


def test_an_unknown_replacement_is_refused():
    with pytest.raises(InputError, match="did you mean '80-10-10'"):
        replacement_shares("80-10")


def test_word_masking_uses_the_vocabulary_or_the_flags_of_the_caller(generator):
    """Masks whole words of `[CLS] bright ##ness light [SEP] ##ing [SEP]`, three tokens at most."""
    vocabulary = Vocabulary((*SPECIAL_TOKENS, "bright", "##ness", "light", "##ing"))
    input_ids = np.repeat([[2, 5, 6, 7, 3, 8, 3, 0, 0]], 500, axis=0)
    masker = Masker(MaskingPolicy(mask_rate=0.4, unit="word"), vocabulary)
    result = masker.mask(input_ids, generator=generator)
    chosen = {tuple(row[:3].tolist()) for row in result["masked_lm_positions"]}
    assert chosen == {(1, 2, 3), (1, 2, 5), (3, 5, 0)}, "at most three tokens of complete words"
    continues = np.repeat([[0, 0, 0, 1, 0, 0, 0, 0, 0]], 500, axis=0).astype(bool)
    result = masker.mask(input_ids, generator=generator, continues=continues)
    chosen = {tuple(row[:3].tolist()) for row in result["masked_lm_positions"]}
    assert chosen == {(1, 2, 3), (1, 5, 0), (2, 3, 5)}, "words by the flags of the caller"
    tokens = Masker(MaskingPolicy(mask_rate=0.4), vocabulary).mask(input_ids, generator=generator)
    assert set(tokens["masked_lm_positions"].ravel().tolist()) == {0, 1, 2, 3, 5}
    assert (tokens["masked_lm_weights"].sum(axis=1) == 3).all()


def test_replacements_are_neither_special_nor_unused_tokens():
    vocabulary = Vocabulary((*SPECIAL_TOKENS, "[unused0]", "a", "##b", "[unused993]", "["))
    assert Masker(MaskingPolicy(), vocabulary).replacement_ids.tolist() == [6, 7, 9]
    with pytest.raises(InputError, match="has only special tokens"):
        _ = Masker(MaskingPolicy(), Vocabulary(SPECIAL_TOKENS)).replacement_ids


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mask_rate": 0}, "mask_rate is 0; expected a number above 0, at most 1"),
        ({"max_predictions": 0}, "max_predictions is 0; expected at least 1"),
        ({"mask_share": 0.95}, "mask_share 0.95 and random_share 0.1 must"),
        ({"random_share": -0.1}, "random_share -0.1 must be at least 0"),
        ({"max_ngram": 0}, "max_ngram is 0; expected at least 1"),
        ({"unit": "letter"}, "unit is 'letter'; expected one of piece, word"),
    ],
)
def test_impossible_policies_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        MaskingPolicy(**settings)
