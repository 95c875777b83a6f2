"""What every format is read into and written from: a card, arrays by our names, a vocabulary."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from bert_keras.checkpoints.card import ModelCard
from bert_keras.errors import InputError
from bert_keras.text.fast_tokenizer import padded, tokenizer_of
from bert_keras.text.tokenizer import TextTokenizer
from bert_keras.text.vocab import Vocabulary


@dataclass(frozen=True)
class StoredTensor:
    """An array that is still in its file: `read` brings it, float32 and in C order."""

    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]

    def transposed(self) -> "StoredTensor":
        return StoredTensor(self.shape[::-1], lambda: np.ascontiguousarray(self.read().T))

    def reshaped(self, shape: tuple[int, ...]) -> "StoredTensor":
        return StoredTensor(shape, lambda: self.read().reshape(shape))


@dataclass(frozen=True, kw_only=True)
class TrainingState:
    """Where an optimizer stood: its step, and Adam's two averages of each weight by our names."""

    step: int
    momentums: Mapping[str, StoredTensor]
    velocities: Mapping[str, StoredTensor]


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """`left_over` holds names that a caller allowed to be left, `notes` a sentence for each thing
    that the format it came from does otherwise. Raises InputError where the vocabulary does not fit
    the token table.
    """

    card: ModelCard
    tensors: Mapping[str, StoredTensor]
    vocabulary: Vocabulary | None
    state: TrainingState | None = None
    left_over: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        pieces, rows = len(self.vocabulary or ()), self.card.config.vocab_size
        if self.vocabulary is None or pieces == rows:
            return
        fault = f"the vocabulary has {pieces:,} pieces, the token table {rows:,} rows"
        if pieces > rows:
            raise InputError(f"{fault}; give the vocabulary that the weights were trained with")
        raise InputError(
            f"{fault}; where the table was padded, pad the vocabulary by {rows - pieces:,} unused "
            "pieces: pad_vocabulary=True, or --pad-vocabulary"
        )

    @property
    def tokenizer(self) -> TextTokenizer | None:
        if self.vocabulary is None:
            return None
        return tokenizer_of(self.vocabulary, lowercase=self.card.lowercase)


def fitting(
    vocabulary: Vocabulary | None, card: ModelCard, *, pad_vocabulary: bool
) -> Vocabulary | None:
    """The vocabulary, padded to the token table's rows where that is asked for."""
    rows = card.config.vocab_size
    if vocabulary is None or not pad_vocabulary or len(vocabulary) >= rows:
        return vocabulary
    return padded(vocabulary, rows)


def part(name: str) -> str:
    """What a weight belongs to: `encoder`, `bilstm` or `pooler` on top of it, or the head that its
    name begins with."""
    first, _, rest = name.partition("/")
    second = rest.partition("/")[0]
    return second if first == "encoder" and second in ("bilstm", "pooler") else first
