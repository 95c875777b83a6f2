"""Chooses tokens or whole words at random, and masks them in the inputs."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bert_keras.errors import check_choice, check_least, check_range, unexpected_value
from bert_keras.fields import setting
from bert_keras.text.packing import span_indices
from bert_keras.text.vocab import Vocabulary, is_unused

UNITS = ("token", "word")
# BERT paper, appendix C.2. A name gives the percentages of the chosen tokens that become [MASK],
# stay unchanged, and become a random token.
REPLACEMENTS = ("80-10-10", "100-0-0", "80-0-20", "80-20-0", "0-20-80", "0-0-100")


@dataclass(frozen=True)
class MaskingPolicy:
    """How many tokens are predicted, and what replaces them (BERT paper, section 3.1).

    Raises:
        InputError: A field has an invalid value.

    Example:

    ```python
    words = MaskingPolicy(mask_rate=0.15, max_predictions=20, unit="word")
    ```
    """

    mask_rate: float = setting(0.15, "fraction of the tokens to predict; [CLS] and [SEP] count")
    max_predictions: int = setting(20, "maximum number of predicted tokens of a sequence")
    mask_share: float = setting(0.8, "fraction of the predicted tokens that become [MASK]")
    random_share: float = setting(0.1, "fraction of predicted tokens that become a random token")
    unit: str = setting("token", 'what is chosen: a "token", or a "word" with all its tokens')
    max_ngram: int = setting(1, "longest n-gram of units chosen together; length n has weight 1/n")

    def __post_init__(self):
        check_range(self, "more than 0, up to 1", "mask_rate")
        check_least(self, 1, "max_predictions")
        check_least(self, 1, "max_ngram", most=1_000)
        check_choice(self, "unit", UNITS)
        check_range(self, "a rate from 0 to 1", "mask_share", "random_share", "kept_share")

    @property
    def kept_share(self) -> float:
        """The fraction of the predicted tokens that stay unchanged in the inputs."""
        return 1 - (self.mask_share + self.random_share)

    def num_predictions(self, lengths: np.ndarray) -> np.ndarray:
        """Returns how many tokens to predict in sequences of `lengths` tokens, int [B]."""
        # Rounds half to even, as google-research/bert does under Python 3.
        counts = np.rint(np.asarray(lengths) * self.mask_rate).astype(np.int64)
        return np.clip(counts, 1, self.max_predictions)


@dataclass(frozen=True)
class Masker:
    """Masks token ids by a policy, either when records are written or when they are read.

    Attributes:
        policy: How many tokens are predicted, and what replaces them.
        vocabulary: The vocabulary of the token ids.

    Example:

    ```python
    masker = Masker(MaskingPolicy(), Vocabulary.from_file("vocab.txt"))
    masked = masker.mask(np.array([[2, 5, 6, 7, 3]]), generator=np.random.default_rng(1))
    print(masked["masked_lm_positions"], masked["masked_lm_ids"])
    ```
    """

    policy: MaskingPolicy
    vocabulary: Vocabulary

    def mask(
        self,
        input_ids: np.ndarray,
        *,
        generator: np.random.Generator,
        continues: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        """Masks rows of token ids; [CLS], [SEP] and [PAD] are never chosen.

        Args:
            input_ids: int [B, T]; the array is not modified.
            generator: The source of all random numbers.
            continues: bool [B, T], whether a token continues the word of the preceding token; by
                default, the vocabulary decides.

        Returns:
            Masked `input_ids` int32 [B, T], `masked_lm_positions` and `masked_lm_ids` int32 [B, P]
            and `masked_lm_weights` float32 [B, P], where P is the `max_predictions` of the policy.
            Positions ascend; unused entries are 0.
        """
        indices = self._choose_indices(input_ids, generator, is_continuation_BT=continues)
        masked_ids = np.array(input_ids, np.int32, order="C")
        target_ids = masked_ids.ravel()[indices]
        masked_ids.ravel()[indices] = self._draw_replacements(target_ids, generator)
        rows, positions = np.divmod(indices, input_ids.shape[1])
        num_chosen_B = np.bincount(rows, minlength=len(input_ids))
        num_before_B = np.cumsum(num_chosen_B) - num_chosen_B  # chosen tokens of the rows before
        slots = np.arange(len(rows)) - num_before_B[rows]  # 0, 1, 2, ... in each row

        def in_slots(values, dtype):
            values_BP = np.zeros((len(input_ids), self.policy.max_predictions), dtype)
            values_BP[rows, slots] = values
            return values_BP

        return {
            "input_ids": masked_ids,
            "masked_lm_positions": in_slots(positions, np.int32),
            "masked_lm_ids": in_slots(target_ids, np.int32),
            "masked_lm_weights": in_slots(1, np.float32),
        }

    def _choose_indices(self, input_ids, generator, *, is_continuation_BT) -> np.ndarray:
        """Draws the tokens to predict; returns their ascending indices in the flattened batch."""
        candidates = self._is_candidate_V[input_ids]
        lengths = np.count_nonzero(input_ids != self.vocabulary.pad_id, axis=1)
        quotas, max_ngram = self.policy.num_predictions(lengths), self.policy.max_ngram
        if self.policy.unit == "token":
            if max_ngram == 1:
                return choose_tokens(candidates, quotas=quotas, generator=generator)
            is_continuation_BT = np.zeros_like(candidates)
        elif is_continuation_BT is None:
            is_continuation_BT = self._is_continuation_V[input_ids]
        words = group_words(candidates, is_continuation_BT=is_continuation_BT)
        return choose_words(words, quotas=quotas, max_ngram=max_ngram, generator=generator)

    def _draw_replacements(self, target_ids, generator: np.random.Generator) -> np.ndarray:
        """Returns the ids that replace the chosen tokens, int [N]."""
        policy = self.policy
        draws = generator.random(len(target_ids), np.float32)
        is_mask = draws < policy.mask_share
        is_random = ~is_mask & (draws < policy.mask_share + policy.random_share)
        replacements = np.where(is_mask, self.vocabulary.mask_id, target_ids)
        num_random = np.count_nonzero(is_random)
        replacements[is_random] = generator.choice(self.replacement_ids, num_random)
        return replacements

    @cached_property
    def _is_candidate_V(self) -> np.ndarray:
        never_chosen = self.vocabulary.pad_id, self.vocabulary.cls_id, self.vocabulary.sep_id
        return ~np.isin(np.arange(len(self.vocabulary)), never_chosen)

    @cached_property
    def _is_continuation_V(self) -> np.ndarray:
        return np.array(list(map(self.vocabulary.continues, self.vocabulary.tokens)))

    @cached_property
    def replacement_ids(self) -> np.ndarray:
        """The ids from which random replacements are drawn, int32 [R]."""
        # Without special and [unusedN] tokens; google-research/bert draws from all tokens.
        ids, specials = self.vocabulary.ids, self.vocabulary.specials.tokens
        used = [i for token, i in ids.items() if token not in specials and not is_unused(token)]
        return np.array(used, np.int32)


def replacement_shares(name: str) -> dict[str, float]:
    """Returns the fields of the policy that a name in `REPLACEMENTS` sets."""
    if name not in REPLACEMENTS:
        known = f"{', '.join(REPLACEMENTS)} (percent that become [MASK], stay, become random)"
        raise unexpected_value("replacement", repr(name), f"one of {known}")
    mask, _, random = (int(percent) / 100 for percent in name.split("-"))
    return {"mask_share": mask, "random_share": random}


def choose_tokens(
    candidates: np.ndarray, *, quotas: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Chooses tokens at random.

    Args:
        candidates: bool [B,T], which tokens may be chosen.
        quotas: int [B], the number of tokens to choose in each row, at least 1. A row with fewer
            candidates loses all of them.
        generator: The source of all random numbers.

    Returns:
        The indices of the chosen tokens in the flattened batch, int64, ascending.
    """
    length = candidates.shape[1]
    # Each token gets a random key, and the candidates with the smallest keys of a row are chosen.
    # The low bits of a key are the column of its token, so the keys of a row are distinct.
    num_bits = np.uint32((length - 1).bit_length())
    keys_BT = generator.integers(0, 1 << 32, candidates.shape, np.uint32)
    keys_BT = keys_BT >> num_bits << num_bits | np.arange(length, dtype=np.uint32)
    keys_BT[~candidates] = np.iinfo(np.uint32).max
    max_quota = min(int(quotas.max(initial=1)), length)
    smallest_BQ = np.sort(np.partition(keys_BT, max_quota - 1, axis=1)[:, :max_quota], axis=1)
    last_B1 = np.minimum(quotas, max_quota)[:, None] - 1
    largest_chosen_B1 = np.take_along_axis(smallest_BQ, last_B1, axis=1)
    return np.flatnonzero((keys_BT <= largest_chosen_B1) & candidates)


class WordIndices(NamedTuple):
    """The W words of a batch in order. Tokens are counted in the flattened batch."""

    starts: np.ndarray  # int32 [W], the index of the first token
    ends: np.ndarray  # int32 [W], the index after the last token
    follows: np.ndarray  # bool [W], whether the preceding token is a candidate of the same row
    row_starts: np.ndarray  # int64 [B+1], the index of each row's first word, and W at the end


def group_words(candidates: np.ndarray, *, is_continuation_BT: np.ndarray) -> WordIndices:
    """Groups the candidates, bool [B,T], into words; a continuation joins the preceding token."""
    batch_size, length = candidates.shape
    follows_candidate_BT = np.zeros_like(candidates)
    follows_candidate_BT[:, 1:] = candidates[:, :-1] & candidates[:, 1:]
    joins_BT = follows_candidate_BT & is_continuation_BT  # with the preceding token
    is_continued_BT = np.zeros_like(joins_BT)
    is_continued_BT[:, :-1] = joins_BT[:, 1:]
    # int32 halves the memory to read.
    starts = np.flatnonzero(candidates & ~joins_BT).astype(np.int32)
    ends = np.flatnonzero(candidates & ~is_continued_BT).astype(np.int32) + np.int32(1)
    first_tokens = np.arange(batch_size + 1, dtype=np.int32) * np.int32(length)  # of the rows
    row_starts = np.searchsorted(starts, first_tokens)
    return WordIndices(starts, ends, follows_candidate_BT.ravel()[starts], row_starts)


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
        max_ngram: The maximum number of words that are chosen together.
        generator: The source of all random numbers.

    Returns:
        The indices of the chosen tokens in the flattened batch, int64, ascending.
    """
    starts, ends, follows, row_starts = words
    is_chosen = np.zeros(len(starts), bool)
    shuffled = np.arange(len(starts), dtype=np.int32)
    cumulative_weights = np.cumsum(1 / np.arange(1, max_ngram + 1))  # of n = 1, 2, ...
    # `lower`, `upper` and `room` have an entry for each row that is not complete. The words
    # `shuffled[lower:upper]` were not drawn yet, and `room` is the rest of the quota.
    is_open = (row_starts[1:] > row_starts[:-1]) & (quotas > 0)
    lower, upper, room = row_starts[:-1][is_open], row_starts[1:][is_open], quotas[is_open]
    while len(lower):
        # Draws a word of each row, uniformly except for rounding by up to 2^-32, and puts the word
        # at `lower` in its place.
        bits = generator.integers(0, 1 << 32, len(lower), np.uint32).astype(np.int64)
        drawn = lower + (bits * (upper - lower) >> 32)
        word = shuffled[drawn]
        shuffled[drawn] = shuffled[lower]
        fits = ~is_chosen[word] & (ends[word] - starts[word] <= room)
        word = last_word = word[fits]
        if max_ngram > 1:
            # Finds how many of the following words fit, and draws n - 1 from 0 to this number.
            num_following, can_extend = np.zeros(len(word), np.int64), np.ones(len(word), bool)
            for offset in range(1, max_ngram):
                next_word = np.minimum(word + offset, len(is_chosen) - 1)
                can_extend &= (word + offset == next_word) & follows[next_word]
                can_extend &= ~is_chosen[next_word] & (ends[next_word] - starts[word] <= room[fits])
                num_following += can_extend
            draws = generator.random(len(word)) * cumulative_weights[num_following]
            num_added = np.searchsorted(cumulative_weights, draws, side="right")
            last_word = word + num_added.astype(np.int32)
        for offset in range(max_ngram):
            is_chosen[word[word + offset <= last_word] + offset] = True
        room[fits] -= ends[last_word] - starts[word]
        lower = lower + 1
        is_open = (room > 0) & (lower < upper)
        if not is_open.all():
            lower, upper, room = lower[is_open], upper[is_open], room[is_open]
    return span_indices(starts[is_chosen], (ends - starts)[is_chosen])
