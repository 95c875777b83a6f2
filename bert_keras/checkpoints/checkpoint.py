"""Defines the contents of a checkpoint, which every format module reads and writes."""

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
    """State of an Adam optimizer."""

    step: int  # number of updates so far
    momentums: Mapping[str, StoredTensor]  # average gradient of each weight, by its public name
    velocities: Mapping[str, StoredTensor]  # average squared gradient, by the same names


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """One model: its metadata, weights, vocabulary and training state.

    Raises:
        InputError: The vocabulary and the token table have different sizes.
    """

    card: ModelCard  # metadata of the model
    tensors: Mapping[str, StoredTensor]  # weights by their public names
    vocabulary: Vocabulary | None  # None if the checkpoint has no vocabulary
    state: TrainingState | None = None  # None if the checkpoint has no training state
    left_over: tuple[str, ...] = ()  # unused names in the file, which the caller allowed
    notes: tuple[str, ...] = ()  # one sentence for each difference from the source format

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
    """A checkpoint that has a vocabulary, so that its model can process text."""

    vocabulary: Vocabulary

    @property
    def tokenizer(self) -> TextTokenizer:
        return tokenizer_of(self.vocabulary, lowercase=self.card.lowercase)


def fitting(
    vocabulary: Vocabulary | None, card: ModelCard, *, pad_vocabulary: bool
) -> Vocabulary | None:
    """Returns the vocabulary, with `pad_vocabulary` padded to the size of the token table.

    Args:
        vocabulary: The vocabulary of a checkpoint, or None.
        card: The metadata, which states the number of rows of the token table.
        pad_vocabulary: Whether to append unused tokens to a vocabulary that is smaller.
    """
    rows = card.config.vocab_size
    if vocabulary is None or not pad_vocabulary or len(vocabulary) >= rows:
        return vocabulary
    return vocabulary.padded(rows)


def part(name: str) -> str:
    """Returns the part of a model that contains the weight `name`.

    The part is `encoder`, `bilstm`, `pooler` or the name of a head, such as `masked_lm`.
    """
    first, _, rest = name.partition("/")
    second = rest.partition("/")[0]
    return second if first == "encoder" and second in ("bilstm", "pooler") else first
