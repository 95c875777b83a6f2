"""Chooses the tokens that a model predicts, and masks them in the inputs."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bert_keras.data.choice import choose_tokens, choose_words, group_words
from bert_keras.errors import InputError, check_choice, check_least, check_name
from bert_keras.text.vocab import Vocabulary, is_unused

UNITS = ("piece", "word")

# BERT paper, appendix C.2. A name gives the percentages of the chosen tokens that become [MASK],
# stay unchanged, and become a random token.
REPLACEMENTS = {
    "80-10-10": {"mask_share": 0.8, "random_share": 0.1},
    "100-0-0": {"mask_share": 1.0, "random_share": 0.0},
    "80-0-20": {"mask_share": 0.8, "random_share": 0.2},
    "80-20-0": {"mask_share": 0.8, "random_share": 0.0},
    "0-20-80": {"mask_share": 0.0, "random_share": 0.8},
    "0-0-100": {"mask_share": 0.0, "random_share": 1.0},
}


@dataclass(frozen=True)
class MaskingPolicy:
    """How many tokens are predicted, and what replaces them (BERT paper, section 3.1).

    Raises:
        InputError: A field has an impossible value; the message names it.

    Example:

    ```python
    words = MaskingPolicy(mask_rate=0.15, max_predictions=20, unit="word")
    ```
    """

    # Fraction of the tokens of a sequence that are predicted; special tokens are counted.
    mask_rate: float = 0.15
    max_predictions: int = 20  # maximum number of predicted tokens of a sequence
    # Each predicted token becomes [MASK] with probability `mask_share`, a random token with
    # probability `random_share`, and otherwise stays unchanged.
    mask_share: float = 0.8
    random_share: float = 0.1
    # "piece" chooses single tokens; "word" chooses all tokens of a word or none.
    unit: str = "piece"
    # n adjacent units are chosen together; n is drawn from 1 to `max_ngram` with weights 1/n.
    max_ngram: int = 1

    def __post_init__(self):
        if not 0 < self.mask_rate <= 1:
            raise InputError(f"mask_rate is {self.mask_rate}; expected a number above 0, at most 1")
        check_least(self, 1, "max_predictions")
        check_least(self, 1, "max_ngram", most=1_000)
        if min(self.mask_share, self.random_share) < 0 or self.mask_share + self.random_share > 1:
            raise InputError(
                f"mask_share {self.mask_share} and random_share {self.random_share} must be at "
                "least 0 and together at most 1"
            )
        check_choice(self, "unit", UNITS)

    def num_predictions(self, lengths: np.ndarray) -> np.ndarray:
        """Returns the number of tokens to predict in each sequence, int [B].

        Rounds half to even, as google-research/bert does under Python 3.

        Args:
            lengths: int [B], the tokens of each sequence, special tokens included.
        """
        counts = np.rint(np.asarray(lengths) * self.mask_rate).astype(np.int64)
        return np.clip(counts, 1, self.max_predictions)


@dataclass(frozen=True)
class Masker:
    """Masks token ids by a policy, either when records are written or when they are read.

    Example:

    ```python
    masker = Masker(MaskingPolicy(), Vocabulary.from_file("vocab.txt"))
    masked = masker.mask(np.array([[2, 5, 6, 7, 3]]), generator=np.random.default_rng(1))
    print(masked["masked_lm_positions"], masked["masked_lm_ids"])
    ```
    """

    policy: MaskingPolicy  # how many tokens are predicted, and what replaces them
    vocabulary: Vocabulary  # the vocabulary of the ids

    def mask(
        self,
        input_ids: np.ndarray,
        *,
        generator: np.random.Generator,
        continues: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        """Masks packed rows; [CLS], [SEP] and [PAD] are never chosen.

        Args:
            input_ids: int [B, T]; the array is not modified.
            generator: Source of all draws.
            continues: bool [B, T], whether a token continues the word of the preceding token; by
                default, the vocabulary decides.

        Returns:
            Masked `input_ids` int32 [B, T], `masked_lm_positions` and `masked_lm_ids` int32 [B, P]
            and `masked_lm_weights` float32 [B, P], where P is the `max_predictions` of the policy.
            Positions ascend; unused slots are 0.
        """
        indices = self._chosen_indices(input_ids, continues, generator)
        masked_ids = np.array(input_ids, np.int32, order="C")
        target_ids = masked_ids.ravel()[indices]
        masked_ids.ravel()[indices] = self._replacements(target_ids, generator)
        rows, columns = np.divmod(indices, input_ids.shape[1])
        num_chosen = np.bincount(rows, minlength=len(input_ids))
        before = np.cumsum(num_chosen) - num_chosen
        slots = rows * self.policy.max_predictions + np.arange(len(rows)) - before[rows]

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

    def _chosen_indices(self, input_ids, continues, generator) -> np.ndarray:
        """Draws the tokens to predict and returns their indices in the flattened batch.

        int [N], ascending.
        """
        candidates = self._is_candidate[input_ids]
        lengths = np.count_nonzero(input_ids != self.vocabulary.pad_id, axis=1)
        quotas, max_ngram = self.policy.num_predictions(lengths), self.policy.max_ngram
        if self.policy.unit == "piece":
            if max_ngram == 1:
                return choose_tokens(candidates, quotas=quotas, generator=generator)
            continues = np.zeros_like(candidates)
        elif continues is None:
            continues = self.continues[input_ids]
        words = group_words(candidates, continues=continues)
        return choose_words(words, quotas=quotas, max_ngram=max_ngram, generator=generator)

    def _replacements(self, target_ids: np.ndarray, generator: np.random.Generator) -> np.ndarray:
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
        vocabulary = self.vocabulary
        is_candidate = np.ones(len(vocabulary), bool)
        is_candidate[[vocabulary.pad_id, vocabulary.cls_id, vocabulary.sep_id]] = False
        return is_candidate

    @cached_property
    def continues(self) -> np.ndarray:
        """For each token of the vocabulary, whether it continues a word; bool [V]."""
        return np.array(list(map(self.vocabulary.continues, self.vocabulary.tokens)))

    @cached_property
    def replacement_ids(self) -> np.ndarray:
        """The ids from which random replacements are drawn, int32 [R].

        Special and [unusedN] tokens are excluded. google-research/bert draws from the whole
        vocabulary.
        """
        token_ids = [
            token_id
            for token, token_id in self.vocabulary.ids.items()
            if token not in self.vocabulary.specials.tokens and not is_unused(token)
        ]
        if not token_ids:
            raise InputError("the vocabulary has only special tokens; expected words")
        return np.array(token_ids, np.int32)


def replacement_shares(name: str) -> dict[str, float]:
    """Returns the `mask_share` and `random_share` of a policy named as "80-10-10".

    Raises:
        InputError: The name is not in `REPLACEMENTS`.
    """
    check_name(name, REPLACEMENTS, what="replacement, in percent [MASK]-same-random,")
    return REPLACEMENTS[name]
