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
        rows, columns = np.divmod(indices, input_ids.shape[1])
        num_chosen = np.bincount(rows, minlength=len(input_ids))
        num_before_row = np.cumsum(num_chosen) - num_chosen
        slots = rows * self.policy.max_predictions + np.arange(len(rows)) - num_before_row[rows]

        def in_slots(values, dtype):
            filled = np.zeros((len(input_ids), self.policy.max_predictions), dtype)
            filled.ravel()[slots] = values
            return filled

        return {
            "input_ids": masked_ids,
            "masked_lm_positions": in_slots(columns, np.int32),
            "masked_lm_ids": in_slots(target_ids, np.int32),
            "masked_lm_weights": in_slots(1, np.float32),
        }

    def _choose_indices(self, input_ids, generator, *, is_continuation_BT) -> np.ndarray:
        """Draws the tokens to predict; returns their ascending indices in the flattened batch."""
        candidates = self._is_candidate[input_ids]
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
        draw = generator.random(len(target_ids), np.float32)
        is_mask = draw < policy.mask_share
        is_random = ~is_mask & (draw < policy.mask_share + policy.random_share)
        replacements = np.where(is_mask, self.vocabulary.mask_id, target_ids)
        num_random = np.count_nonzero(is_random)
        replacements[is_random] = generator.choice(self.replacement_ids, num_random)
        return replacements

    @cached_property
    def _is_candidate(self) -> np.ndarray:
        fixed = self.vocabulary.pad_id, self.vocabulary.cls_id, self.vocabulary.sep_id
        return ~np.isin(np.arange(len(self.vocabulary)), fixed)

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
    """Chooses at random up to `quotas[b]` of the candidates, bool [B,T], in each row b.

    Returns their indices in the flattened batch, int64, ascending.
    """
    length = candidates.shape[1]
    # The low bits of each key are its column, so the keys of a row are distinct. The tokens with
    # the smallest keys are chosen.
    bits = np.uint32((length - 1).bit_length())
    keys = generator.integers(0, 1 << 32, candidates.shape, np.uint32)
    keys = keys >> bits << bits | np.arange(length, dtype=np.uint32)
    keys[~candidates] = np.iinfo(np.uint32).max
    max_quota = min(int(quotas.max(initial=1)), length)
    smallest = np.sort(np.partition(keys, max_quota - 1, axis=1)[:, :max_quota], axis=1)
    last = np.minimum(quotas, max_quota)[:, None] - 1
    return np.flatnonzero((keys <= np.take_along_axis(smallest, last, axis=1)) & candidates)


class WordIndices(NamedTuple):
    """The W words of a batch, in order, as indices in the flattened batch."""

    starts: np.ndarray  # int32 [W]
    ends: np.ndarray  # int32 [W], one past the last token of each word
    follows: np.ndarray  # bool [W]: the preceding word ends right before this one, in the same row
    row_starts: np.ndarray  # int64 [B+1]: the index of each row's first word, and W at the end


def group_words(candidates: np.ndarray, *, is_continuation_BT: np.ndarray) -> WordIndices:
    """Groups the candidates, bool [B,T], into words; a continuation joins the preceding token."""
    batch_size, length = candidates.shape
    follows_candidate = np.zeros_like(candidates)
    follows_candidate[:, 1:] = candidates[:, :-1] & candidates[:, 1:]
    joins = follows_candidate & is_continuation_BT
    is_continued = np.zeros_like(joins)
    is_continued[:, :-1] = joins[:, 1:]
    starts = _true_indices(candidates & ~joins)
    ends = _true_indices(candidates & ~is_continued) + np.int32(1)
    bounds = np.arange(batch_size + 1, dtype=np.int32) * np.int32(length)
    row_starts = np.searchsorted(starts, bounds)
    return WordIndices(starts, ends, follows_candidate.ravel()[starts], row_starts)


def _true_indices(flags: np.ndarray) -> np.ndarray:
    return np.flatnonzero(flags).astype(np.int32)  # int32 halves the memory to read


def choose_words(
    words: WordIndices, *, quotas: np.ndarray, max_ngram: int, generator: np.random.Generator
) -> np.ndarray:
    """Chooses whole words at random, alone or as n-grams.

    Words are drawn in random order until the quota of the row is met. A drawn word is chosen
    together with the n - 1 words that follow it. n is drawn with weights 1/n from the values up to
    `max_ngram` that fit: the n words are adjacent, none of them is chosen yet, and together they
    stay within the quota. A drawn word that does not fit alone is skipped. Returns the indices of
    the chosen tokens in the flattened batch, int64, ascending.
    """
    starts, ends, follows, row_starts = words
    is_chosen = np.zeros(len(starts), bool)
    shuffled = np.arange(len(starts), dtype=np.int32)
    weights = np.cumsum(1 / np.arange(1, max_ngram + 1))
    # One entry for each row that is not complete: `shuffled[lower:upper]` are the words that were
    # not drawn yet, and `room` is the number of tokens that the row may still choose.
    is_open = (row_starts[1:] > row_starts[:-1]) & (quotas > 0)
    lower, upper, room = row_starts[:-1][is_open], row_starts[1:][is_open], quotas[is_open]
    while len(lower):
        # Draws from [lower, upper) of each row, uniformly except for rounding by up to 2^-32.
        bits = generator.integers(0, 1 << 32, len(lower), np.uint32).astype(np.int64)
        drawn = lower + (bits * (upper - lower) >> 32)
        word = shuffled[drawn]
        shuffled[drawn] = shuffled[lower]
        fits = ~is_chosen[word] & (ends[word] - starts[word] <= room)
        word = last_word = word[fits]
        if max_ngram > 1:
            max_offset, can_extend = np.zeros(len(word), np.int64), np.ones(len(word), bool)
            for offset in range(1, max_ngram):
                next_word = np.minimum(word + offset, len(is_chosen) - 1)
                can_extend &= (word + offset == next_word) & follows[next_word]
                can_extend &= ~is_chosen[next_word] & (ends[next_word] - starts[word] <= room[fits])
                max_offset += can_extend
            draw = generator.random(len(word)) * weights[max_offset]
            last_word = word + np.searchsorted(weights, draw, side="right").astype(np.int32)
        for offset in range(max_ngram):
            is_chosen[word[word + offset <= last_word] + offset] = True
        room[fits] -= ends[last_word] - starts[word]
        lower = lower + 1
        is_open = (room > 0) & (lower < upper)
        if not is_open.all():
            lower, upper, room = lower[is_open], upper[is_open], room[is_open]
    return span_indices(starts[is_chosen], (ends - starts)[is_chosen])
