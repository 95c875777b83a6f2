"""Defines the contents of a checkpoint, which every format module reads and writes."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from bert_keras.checkpoints.tensors import StoredTensor, join_tensors
from bert_keras.config import ModelMetadata
from bert_keras.errors import InputError, listed
from bert_keras.text.fast_tokenizer import tokenizer_of
from bert_keras.text.tokenizer import TextTokenizer
from bert_keras.text.vocab import Vocabulary

Vocab = TypeVar("Vocab")


def require_vocabulary(vocabulary: Vocab | None, *, source: object) -> Vocab:
    """Returns the vocabulary or tokenizer of `source`; raises InputError if it is None."""
    if vocabulary is None:
        hint = "add its vocab.txt or tokenizer.json, or give the tokenizer of a model in memory"
        raise InputError(f"{source} has no vocabulary; {hint}")
    return vocabulary


def cannot_store(what: str, *, format: str, model: str = "BertEncoder") -> InputError:
    """Returns the error for weights that a format cannot store; it can store a `model`."""
    command = f"bert-keras convert MODEL NEW_FOLDER --format {format} --model-class {model}"
    return InputError(f"{format} cannot store {what}; write a {model}: {command}")


@dataclass(frozen=True, kw_only=True)
class TrainingState:
    """State of an Adam optimizer."""

    step: int  # number of updates so far
    momentums: Mapping[str, StoredTensor]  # average gradient of each weight, by its public name
    velocities: Mapping[str, StoredTensor]  # average squared gradient, by the same names


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """One model: its metadata, weights, vocabulary and training state."""

    metadata: ModelMetadata
    tensors: Mapping[str, StoredTensor]  # weights by their public names
    vocabulary: Vocabulary | None  # None if the checkpoint has no vocabulary
    state: TrainingState | None = None  # None if the checkpoint has no training state
    unused: tuple[str, ...] = ()  # names in the file that the caller asked to ignore
    notes: tuple[str, ...] = ()  # one sentence for each difference from the source format

    @property
    def tokenizer(self) -> TextTokenizer | None:
        """The tokenizer of the vocabulary, or None if the checkpoint has no vocabulary."""
        if self.vocabulary is None:
            return None
        return tokenizer_of(self.vocabulary, **self.metadata.tokenizer_settings)

    def check_vocabulary(self) -> None:
        """Raises InputError if the vocabulary and the embedding matrix have different sizes."""
        rows = self.metadata.config.vocab_size
        if self.vocabulary is not None and len(self.vocabulary) != rows:
            raise InputError(
                f"the vocabulary has {len(self.vocabulary):,} tokens, but the embedding matrix "
                f"{rows:,} rows; fill a smaller vocabulary with unused tokens: pad_vocabulary=True "
                "(bert-keras convert --pad-vocabulary)"
            )


class TextCheckpoint(Checkpoint):
    """A checkpoint with a vocabulary, whose model can process text."""

    vocabulary: Vocabulary
    tokenizer: TextTokenizer


def weight_part(name: str) -> str:
    """Returns the part of a weight: `encoder`, `bilstm`, `pooler` or a head like `masked_lm`."""
    first, _, rest = name.partition("/")
    second = rest.partition("/")[0]
    return second if first == "encoder" and second in ("bilstm", "pooler") else first


def name_table(
    layers: Mapping[str, str], *, num_blocks: int, suffixes: Sequence[str] | None = None
) -> dict[str, str]:
    """Returns the names of weights in another format by their public names.

    Args:
        layers: Our names of layers and weights -> names in the other format, or "" if it has none,
            as in `Family`. `{}` stands for the index of a block.
        num_blocks: The number of blocks.
        suffixes: The ends of the names of a layer's kernel (or gamma) and bias (or beta) in the
            other format; by default as ours.
    """
    table = {}
    for ours, theirs in layers.items():
        weights = ("gamma", "beta") if ours.endswith("norm") else ("kernel", "bias")
        ends = suffixes or [f"/{weight}" for weight in weights]
        for index in range(num_blocks if "{}" in ours else 1) if theirs else ():
            layer, other = ours.format(index), theirs.format(index)
            table[layer] = other  # if it is a weight, not a layer
            for weight, end in zip(weights, ends, strict=True):
                table[f"{layer}/{weight}"] = f"{other}{end}"
    return table


def _joined_names(name: str) -> list[str]:
    """Returns the names that a name such as "a.b+c.d" stands for: "a.b.d" and "a.c.d"."""
    parts = [part.split("+") for part in name.split(".")]
    count = max(map(len, parts))
    return [".".join(part[index % len(part)] for part in parts) for index in range(count)]


def our_tensors(
    stored: Mapping[str, StoredTensor],
    table: Mapping[str, str],
    *,
    is_transposed: Callable[[str], bool],
) -> dict[str, StoredTensor]:
    """Translates the tensors of another format to our names and shapes; see `their_tensors`."""
    our_names = defaultdict(list)  # name in the other format -> names of our weights
    for ours, theirs in table.items():
        our_names[theirs].append(ours)
    stored = dict(stored)
    for theirs in our_names:
        names = _joined_names(theirs)
        if len(names) > 1 and all(name in stored for name in names):
            stored[theirs] = join_tensors([stored.pop(name) for name in names])
    if unknown := [name for name in stored if name not in our_names]:
        raise InputError(f"the weights do not fit the model: {listed(unknown)} unexpected")
    tensors = {}
    for theirs, names in our_names.items():
        if theirs in stored:
            for name, tensor in zip(names, stored[theirs].split(len(names)), strict=True):
                tensors[name] = tensor.transposed() if is_transposed(name) else tensor
    return tensors


def their_tensors(
    tensors: Mapping[str, StoredTensor],
    table: Mapping[str, str],
    *,
    is_transposed: Callable[[str], bool],
    format: str,
) -> dict[str, StoredTensor]:
    """Translates tensors to the names and shapes of another format.

    Args:
        tensors: The weights by our names.
        table: A `name_table`. Weights with the same name in the other format are joined.
        is_transposed: Whether the other format stores the transpose of the weight with our name.
        format: The name of the other format, for the error if the table lacks a weight.
    """
    if unknown := [name for name in tensors if name not in table]:
        raise cannot_store(listed(unknown, most=3), format=format)
    parts = defaultdict(list)
    for name, theirs in table.items():
        if (tensor := tensors.get(name)) is not None:
            parts[theirs].append(tensor.transposed() if is_transposed(name) else tensor)
    joined = [(_joined_names(name), join_tensors(each)) for name, each in parts.items()]
    divided = [zip(names, each.split(len(names)), strict=True) for names, each in joined]
    return {name: tensor for pairs in divided for name, tensor in pairs}


# The key under which the JSON files of other formats contain our metadata.
EXTRA_KEY = "bert_keras"
EXTRA_FIELDS = ("lowercase", "max_length", "shortens_first", "text_columns", "labels")
EXTRA_FIELDS += ("problem_type", "task")


def with_extra(metadata: ModelMetadata, extra: Mapping[str, Any]) -> ModelMetadata:
    """Returns metadata with the fields in the value of EXTRA_KEY."""
    stated = {name: extra[name] for name in EXTRA_FIELDS if name in extra}
    return ModelMetadata.from_dict({**metadata.to_dict(), **stated})
