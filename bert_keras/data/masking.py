"""Chooses the positions that a model predicts, and masks the sequences there."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bert_keras.data.choice import choose_pieces, choose_words, words_of
from bert_keras.errors import InputError, check_name
from bert_keras.options import check_choice, check_least
from bert_keras.text.vocab import Vocabulary

UNITS = ("piece", "word")

# BERT paper, appendix C.2: of what is chosen, percent [MASK] - the same - a random piece.
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
        InputError: names a field of an impossible value.
    """

    mask_rate: float = 0.15  # of the tokens of a sequence, special tokens counted
    max_predictions: int = 20  # of a sequence
    # Shares of the predicted tokens that become [MASK] and a random token, drawn token by token;
    # the rest stay as they are.
    mask_share: float = 0.8
    random_share: float = 0.1
    unit: str = "piece"  # or "word": the tokens of a word are chosen together or not at all
    max_ngram: int = 1  # n units in a row are chosen, n drawn with weights 1/n up to this one

    def __post_init__(self):
        if not 0 < self.mask_rate <= 1:
            raise InputError(f"mask_rate is {self.mask_rate}; expected more than 0, at most 1")
        check_least(self, 1, "max_predictions", "max_ngram")
        if min(self.mask_share, self.random_share) < 0 or self.mask_share + self.random_share > 1:
            raise InputError(
                f"mask_share {self.mask_share} and random_share {self.random_share} must be at "
                "least 0 and together at most 1"
            )
        check_choice(self, "unit", UNITS)

    def num_predictions(self, lengths: np.ndarray) -> np.ndarray:
        """Returns int [B]: how many tokens of sequences of `lengths` tokens are predicted.

        Rounds half to even, as the original does under Python 3.
        """
        wanted = np.rint(np.asarray(lengths) * self.mask_rate).astype(np.int64)
        return np.clip(wanted, 1, self.max_predictions)


@dataclass(frozen=True)
class Masker:
    """Applies a policy to ids of a vocabulary, when records are written or when they are read."""

    policy: MaskingPolicy
    vocabulary: Vocabulary

    def mask(
        self,
        input_ids: np.ndarray,
        *,
        generator: np.random.Generator,
        continues: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        """Masks packed rows; [CLS], [SEP] and [PAD] are never chosen.

        Args:
            input_ids: int [B, T], not changed.
            generator: Source of all draws.
            continues: bool [B, T], whether a token belongs to the word of the token before it; by
                default as the vocabulary has it.

        Returns:
            Masked `input_ids` int32 [B, T], `masked_lm_positions` and `masked_lm_ids` int32 [B, P]
            and `masked_lm_weights` float32 [B, P]. Positions ascend; unused slots are 0.
        """
        indices = self._chosen(input_ids, continues, generator)
        masked_ids = np.array(input_ids, np.int32, order="C")
        answers = masked_ids.ravel()[indices]
        masked_ids.ravel()[indices] = self._replaced(answers, generator)
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
            "masked_lm_ids": in_slots(answers, np.int32),
            "masked_lm_weights": in_slots(1, np.float32),
        }

    def _chosen(self, input_ids, continues, generator) -> np.ndarray:
        """Draws the tokens to predict: indices of the flattened batch, int [N] ascending."""
        candidates = self._is_candidate[input_ids]
        lengths = np.count_nonzero(input_ids != self.vocabulary.pad_id, axis=1)
        quotas, max_ngram = self.policy.num_predictions(lengths), self.policy.max_ngram
        if self.policy.unit == "piece":
            if max_ngram == 1:
                return choose_pieces(candidates, quotas=quotas, generator=generator)
            continues = np.zeros_like(candidates)
        elif continues is None:
            continues = self.continues[input_ids]
        words = words_of(candidates, continues=continues)
        return choose_words(words, quotas=quotas, max_ngram=max_ngram, generator=generator)

    def _replaced(self, answers: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Draws what replaces the chosen tokens, int [N]."""
        policy = self.policy
        draw = generator.random(len(answers), np.float32)
        is_mask = draw < policy.mask_share
        is_random = ~is_mask & (draw < policy.mask_share + policy.random_share)
        replaced = np.where(is_mask, self.vocabulary.mask_id, answers)
        replaced[is_random] = generator.choice(self.replacement_ids, np.count_nonzero(is_random))
        return replaced

    @cached_property
    def _is_candidate(self) -> np.ndarray:
        is_candidate = np.ones(len(self.vocabulary), bool)
        vocabulary = self.vocabulary
        is_candidate[[vocabulary.pad_id, vocabulary.cls_id, vocabulary.sep_id]] = False
        return is_candidate

    @cached_property
    def continues(self) -> np.ndarray:
        """bool [V]: the tokens that continue a word."""
        return np.array(list(map(self.vocabulary.continues, self.vocabulary.pieces)))

    @cached_property
    def replacement_ids(self) -> np.ndarray:
        """int32 [R]: the random tokens, without special and [unusedN] tokens; the original draws
        from the whole vocabulary."""
        usable = [
            number
            for piece, number in self.vocabulary.ids.items()
            if piece not in self.vocabulary.specials.pieces
            and not (piece.startswith("[unused") and piece.endswith("]"))
        ]
        if not usable:
            raise InputError(
                "the vocabulary holds special pieces only; expected words to learn from"
            )
        return np.array(usable, np.int32)


def replacement_shares(name: str) -> dict[str, float]:
    """Returns `mask_share` and `random_share` of a policy by their name, such as "80-10-10"."""
    check_name(name, REPLACEMENTS, what="replacement, in percent [MASK]-same-random,")
    return REPLACEMENTS[name]
