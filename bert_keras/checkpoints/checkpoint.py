"""Defines the contents of a checkpoint, which every format module reads and writes."""

from collections.abc import Mapping
from dataclasses import dataclass

from bert_keras.checkpoints.metadata import ModelMetadata
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

    metadata: ModelMetadata  # metadata of the model
    tensors: Mapping[str, StoredTensor]  # weights by their public names
    vocabulary: Vocabulary | None  # None if the checkpoint has no vocabulary
    state: TrainingState | None = None  # None if the checkpoint has no training state
    unused: tuple[str, ...] = ()  # unused names in the file, which the caller allowed
    notes: tuple[str, ...] = ()  # one sentence for each difference from the source format

    def __post_init__(self) -> None:
        tokens, rows = len(self.vocabulary or ()), self.metadata.config.vocab_size
        if self.vocabulary is None or tokens == rows:
            return
        remedy = "use the vocabulary that the weights were trained with"
        if tokens < rows:
            remedy += f", or append {rows - tokens:,} unused tokens: pad_vocabulary=True, or "
            remedy += "bert-keras convert SRC DST --pad-vocabulary"
        raise InputError(
            f"the vocabulary has {tokens:,} tokens, but the token table has {rows:,} rows; {remedy}"
        )

    @property
    def tokenizer(self) -> TextTokenizer | None:
        """The tokenizer of the vocabulary, None if the checkpoint has no vocabulary."""
        if self.vocabulary is None:
            return None
        return tokenizer_of(self.vocabulary, lowercase=self.metadata.lowercase)


class TextCheckpoint(Checkpoint):
    """A checkpoint that has a vocabulary, so that its model can process text."""

    vocabulary: Vocabulary

    @property
    def tokenizer(self) -> TextTokenizer:
        """The tokenizer of the vocabulary."""
        return tokenizer_of(self.vocabulary, lowercase=self.metadata.lowercase)


def fitted_vocabulary(
    vocabulary: Vocabulary | None, metadata: ModelMetadata, *, pad_vocabulary: bool
) -> Vocabulary | None:
    """Returns the vocabulary, with `pad_vocabulary` padded to the size of the token table.

    Args:
        vocabulary: The vocabulary of a checkpoint, or None.
        metadata: The metadata, which states the number of rows of the token table.
        pad_vocabulary: Whether to append unused tokens to a vocabulary that is smaller.
    """
    rows = metadata.config.vocab_size
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
