"""The contents of a checkpoint, which every format is read into and written from."""

from collections.abc import Mapping
from dataclasses import dataclass

from bert_keras.checkpoints.card import ModelCard
from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.errors import InputError
from bert_keras.text.fast_tokenizer import tokenizer_of
from bert_keras.text.tokenizer import TextTokenizer
from bert_keras.text.vocab import Vocabulary


@dataclass(frozen=True, kw_only=True)
class TrainingState:
    """State of an optimizer: its step, and Adam's two averages of each weight by our names."""

    step: int
    momentums: Mapping[str, StoredTensor]
    velocities: Mapping[str, StoredTensor]


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """One model: its metadata, weights, vocabulary and training state.

    Raises InputError where the vocabulary does not fit the token table.
    """

    card: ModelCard
    tensors: Mapping[str, StoredTensor]  # by our names
    vocabulary: Vocabulary | None
    state: TrainingState | None = None
    left_over: tuple[str, ...] = ()  # unused names of the file, which the caller allowed
    notes: tuple[str, ...] = ()  # one sentence for each difference from the format it came from

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


class TextCheckpoint(Checkpoint):
    """A checkpoint with its vocabulary, so that its model can read texts."""

    vocabulary: Vocabulary

    @property
    def tokenizer(self) -> TextTokenizer:
        return tokenizer_of(self.vocabulary, lowercase=self.card.lowercase)


def fitting(
    vocabulary: Vocabulary | None, card: ModelCard, *, pad_vocabulary: bool
) -> Vocabulary | None:
    """Returns the vocabulary; with `pad_vocabulary` padded to the rows of the token table."""
    rows = card.config.vocab_size
    if vocabulary is None or not pad_vocabulary or len(vocabulary) >= rows:
        return vocabulary
    return vocabulary.padded(rows)


def part(name: str) -> str:
    """Returns the part of a model that a weight belongs to: `encoder`, `bilstm`, `pooler` or its
    head."""
    first, _, rest = name.partition("/")
    second = rest.partition("/")[0]
    return second if first == "encoder" and second in ("bilstm", "pooler") else first
