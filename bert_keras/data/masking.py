"""Id sequences come in; positions to predict, their answers, and the masked sequences go out."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bert_keras.data.choice import choose_pieces, choose_words, words_of
from bert_keras.errors import InputError
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
    """How much is predicted, and what stands in its place (BERT paper, section 3.1).

    `mask_rate` of a sequence, specials counted, is chosen, at most `max_predictions`. Of the chosen
    `mask_share` become [MASK], `random_share` a random piece, and the rest stay as they are, drawn
    piece by piece. The `unit` is "piece" or "word": the pieces of a word are chosen together or not
    at all. So are n units in a row, n being drawn with weights 1/n up to `max_ngram`.
    """

    mask_rate: float = 0.15
    max_predictions: int = 20
    mask_share: float = 0.8
    random_share: float = 0.1
    unit: str = "piece"
    max_ngram: int = 1

    def __post_init__(self):
        if not 0 < self.mask_rate <= 1:
            raise InputError(f"mask_rate is {self.mask_rate}; expected more than 0, at most 1")
        for name in ("max_predictions", "max_ngram"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; expected at least 1")
        if min(self.mask_share, self.random_share) < 0 or self.mask_share + self.random_share > 1:
            raise InputError(
                f"mask_share {self.mask_share} and random_share {self.random_share} must be at "
                "least 0 and together at most 1"
            )
        if self.unit not in UNITS:
            raise InputError(f"unit is {self.unit!r}; expected one of {', '.join(UNITS)}")

    def num_predictions(self, lengths: np.ndarray) -> np.ndarray:
        """int [B]: how many are chosen from sequences of `lengths` tokens, specials counted.

        Rounds half to even, as the original does under Python 3.
        """
        wanted = np.rint(np.asarray(lengths) * self.mask_rate).astype(np.int64)
        return np.clip(wanted, 1, self.max_predictions)

    def mask(
        self,
        input_ids: np.ndarray,
        *,
        candidates: np.ndarray,
        lengths: np.ndarray,
        mask_id: int,
        replacement_ids: np.ndarray,
        generator: np.random.Generator,
        continues: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        """Masked `input_ids` int32 [B,T] with `masked_lm_positions`, `_ids`, `_weights` [B,P].

        `candidates` bool [B,T] may be chosen; `lengths` int [B] count the tokens that are not
        padding; `replacement_ids` int [R] are what a random piece is drawn from; `continues` bool
        [B,T], needed where the unit is a word, says that a piece goes on with the word before it.
        Positions ascend; what is left of [B,P] is 0.
        """
        places = self._places(candidates, continues=continues, lengths=lengths, generator=generator)
        masked_ids = np.array(input_ids, np.int32, order="C")
        answers = masked_ids.ravel()[places]
        masked_ids.ravel()[places] = self._shown(
            answers, mask_id=mask_id, replacement_ids=replacement_ids, generator=generator
        )
        rows, columns = np.divmod(places, input_ids.shape[1])
        num_chosen = np.bincount(rows, minlength=len(input_ids))
        before = np.cumsum(num_chosen) - num_chosen
        slots = rows * self.max_predictions + np.arange(len(rows)) - before[rows]

        def in_slots(values, dtype):
            filled = np.zeros((len(input_ids), self.max_predictions), dtype)
            filled.ravel()[slots] = values
            return filled

        return {
            "input_ids": masked_ids,
            "masked_lm_positions": in_slots(columns, np.int32),
            "masked_lm_ids": in_slots(answers, np.int32),
            "masked_lm_weights": in_slots(1, np.float32),
        }

    def _places(self, candidates, *, continues, lengths, generator) -> np.ndarray:
        """Of the pieces to predict, int [N] ascending, in the flattened batch."""
        quotas = self.num_predictions(lengths)
        if self.unit == "piece" and self.max_ngram == 1:
            return choose_pieces(candidates, quotas=quotas, generator=generator)
        if self.unit == "piece":
            continues = np.zeros_like(candidates)
        elif continues is None:
            raise AssertionError("whole words are masked only where `continues` tells their pieces")
        return choose_words(
            words_of(candidates, continues=continues),
            quotas=quotas,
            max_ngram=self.max_ngram,
            generator=generator,
        )

    def _shown(
        self,
        answers: np.ndarray,
        *,
        mask_id: int,
        replacement_ids: np.ndarray,
        generator: np.random.Generator,
    ) -> np.ndarray:
        """What stands in place of the chosen pieces, int [N]."""
        draw = generator.random(len(answers), np.float32)
        is_mask = draw < self.mask_share
        is_random = ~is_mask & (draw < self.mask_share + self.random_share)
        shown = np.where(is_mask, mask_id, answers)
        shown[is_random] = generator.choice(replacement_ids, np.count_nonzero(is_random))
        return shown


@dataclass(frozen=True)
class Masker:
    """A policy on a vocabulary: the writer of records and their reader mask with the same."""

    policy: MaskingPolicy
    vocabulary: Vocabulary

    def mask(
        self,
        input_ids: np.ndarray,
        *,
        generator: np.random.Generator,
        continues: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        """As `MaskingPolicy.mask`, of packed rows int [B,T]; [CLS], [SEP] and [PAD] are spared.

        Words are as `continues` (bool [B,T]) has it, by default as the pieces tell it.
        """
        if self.policy.unit == "word" and continues is None:
            continues = self.continues[input_ids]
        return self.policy.mask(
            input_ids,
            candidates=self._is_candidate[input_ids],
            lengths=np.count_nonzero(input_ids != self.vocabulary.pad_id, axis=1),
            mask_id=self.vocabulary.mask_id,
            replacement_ids=self._replacement_ids,
            generator=generator,
            continues=continues,
        )

    @cached_property
    def _is_candidate(self) -> np.ndarray:
        is_candidate = np.ones(len(self.vocabulary), bool)
        spared = [self.vocabulary.pad_id, self.vocabulary.cls_id, self.vocabulary.sep_id]
        is_candidate[spared] = False
        return is_candidate

    @cached_property
    def continues(self) -> np.ndarray:
        """bool [V]: the pieces that go on with a word."""
        return np.array(list(map(self.vocabulary.continues, self.vocabulary.pieces)))

    @cached_property
    def _replacement_ids(self) -> np.ndarray:
        return replacement_ids(self.vocabulary)


def replacement_shares(name: str) -> dict[str, float]:
    """`mask_share` and `random_share` of a policy by their name, such as "80-10-10"."""
    if name not in REPLACEMENTS:
        raise InputError(
            f"no replacement is called {name!r}; known, in percent [MASK]-same-random: "
            + ", ".join(REPLACEMENTS)
        )
    return REPLACEMENTS[name]


def replacement_ids(vocabulary: Vocabulary) -> np.ndarray:
    """int32 [R]: the pieces that may stand in for another; no special and no [unusedN] piece.

    The original draws from the whole vocabulary.
    """
    usable = [
        number
        for piece, number in vocabulary.ids.items()
        if piece not in vocabulary.specials.pieces
        and not (piece.startswith("[unused") and piece.endswith("]"))
    ]
    if not usable:
        raise InputError("the vocabulary holds special pieces only; expected words to learn from")
    return np.array(usable, np.int32)
