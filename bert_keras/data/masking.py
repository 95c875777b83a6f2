"""Id sequences come in; positions to predict, their answers, and the masked sequences go out."""

from dataclasses import dataclass

import numpy as np

from bert_keras.errors import InputError
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary


@dataclass(frozen=True)
class MaskingPolicy:
    """How much is predicted, and what stands in its place (BERT paper, section 3.1).

    `mask_rate` of a sequence, specials counted, is chosen, at most `max_predictions`. Of the chosen
    `mask_share` become [MASK], `random_share` a random piece, and the rest stay as they are.
    """

    mask_rate: float = 0.15
    max_predictions: int = 20
    mask_share: float = 0.8
    random_share: float = 0.1

    def __post_init__(self):
        if not 0 < self.mask_rate <= 1:
            raise InputError(f"mask_rate is {self.mask_rate}; expected more than 0, at most 1")
        if self.max_predictions < 1:
            raise InputError(f"max_predictions is {self.max_predictions}; expected at least 1")
        if min(self.mask_share, self.random_share) < 0 or self.mask_share + self.random_share > 1:
            raise InputError(
                f"mask_share {self.mask_share} and random_share {self.random_share} must be at "
                "least 0 and together at most 1"
            )

    def num_predictions(self, lengths: np.ndarray) -> np.ndarray:
        """int [B]: how many are chosen from sequences of `lengths` tokens, specials counted.

        Rounds half to even, as the original does under Python 3.
        """
        wanted = np.rint(np.asarray(lengths) * self.mask_rate).astype(np.int64)
        return np.clip(wanted, 1, self.max_predictions)

    def choose(
        self, candidates: np.ndarray, *, num_predictions: np.ndarray, generator: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Positions int64 [B,P], ascending and padded with 0, and which of them count, bool [B,P].

        `candidates` bool [B,T] says what may be chosen; every candidate is equally likely.
        """
        width = min(self.max_predictions, candidates.shape[1])
        scores = generator.random(candidates.shape, np.float32)
        scores[~candidates] = 2
        nearest = np.argpartition(scores, width - 1, axis=1)[:, :width]
        order = np.argsort(np.take_along_axis(scores, nearest, axis=1), axis=1)
        nearest = np.take_along_axis(nearest, order, axis=1)
        num_chosen = np.minimum(num_predictions, candidates.sum(axis=1))[:, None]
        counted = np.arange(width)[None] < num_chosen
        beyond = candidates.shape[1]
        positions = np.sort(np.where(counted, nearest, beyond), axis=1)
        positions = np.where(counted, positions, 0)
        padding = ((0, 0), (0, self.max_predictions - width))
        return np.pad(positions, padding), np.pad(counted, padding)

    def mask(
        self,
        input_ids: np.ndarray,
        *,
        candidates: np.ndarray,
        lengths: np.ndarray,
        mask_id: int,
        replacement_ids: np.ndarray,
        generator: np.random.Generator,
    ) -> dict[str, np.ndarray]:
        """Masked `input_ids` int32 [B,T] with `masked_lm_positions`, `_ids`, `_weights` [B,P].

        `candidates` bool [B,T] may be chosen; `lengths` int [B] count the tokens that are not
        padding; `replacement_ids` int [R] are what a random piece is drawn from.
        """
        positions, counted = self.choose(
            candidates, num_predictions=self.num_predictions(lengths), generator=generator
        )
        answers = np.where(counted, np.take_along_axis(input_ids, positions, axis=1), 0)
        draw = generator.random(positions.shape, np.float32)
        random_ids = generator.choice(replacement_ids, positions.shape)
        shown = np.where(draw < self.mask_share + self.random_share, random_ids, answers)
        shown = np.where(draw < self.mask_share, mask_id, shown)
        masked_ids = np.array(input_ids, np.int32)
        rows, columns = np.nonzero(counted)
        masked_ids[rows, positions[rows, columns]] = shown[rows, columns]
        return {
            "input_ids": masked_ids,
            "masked_lm_positions": positions.astype(np.int32),
            "masked_lm_ids": answers.astype(np.int32),
            "masked_lm_weights": counted.astype(np.float32),
        }


def replacement_ids(vocabulary: Vocabulary) -> np.ndarray:
    """int32 [R]: the pieces that may stand in for another; no special and no [unusedN] piece.

    The original draws from the whole vocabulary.
    """
    usable = [
        number
        for piece, number in vocabulary.ids.items()
        if piece not in SPECIAL_PIECES and not (piece.startswith("[unused") and piece.endswith("]"))
    ]
    if not usable:
        raise InputError("the vocabulary holds special pieces only; expected words to learn from")
    return np.array(usable, np.int32)
