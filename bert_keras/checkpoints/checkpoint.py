"""Defines the contents of a checkpoint, which every format module reads and writes."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from bert_keras.checkpoints.tensors import StoredTensor, joined
from bert_keras.config import BertConfig, ModelMetadata
from bert_keras.errors import InputError, check, listed
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
    """One model: its metadata, weights, vocabulary and training state."""

    metadata: ModelMetadata
    tensors: Mapping[str, StoredTensor]  # weights by their public names
    vocabulary: Vocabulary | None  # None if the checkpoint has no vocabulary
    state: TrainingState | None = None  # None if the checkpoint has no training state
    unused: tuple[str, ...] = ()  # unused names in the file, which the caller allowed
    notes: tuple[str, ...] = ()  # one sentence for each difference from the source format

    @property
    def tokenizer(self) -> TextTokenizer | None:
        """The tokenizer of the vocabulary, None if the checkpoint has no vocabulary."""
        if self.vocabulary is None:
            return None
        return tokenizer_of(self.vocabulary, **self.metadata.tokenizer_settings)

    def check_vocabulary(self) -> None:
        """Raises InputError if the vocabulary and the embedding matrix have different sizes."""
        tokens, rows = len(self.vocabulary or ()), self.metadata.config.vocab_size
        remedy = "use the vocabulary that the weights were trained with"
        if tokens < rows:
            remedy += f", or append {rows - tokens:,} unused tokens: pad_vocabulary=True, or "
            remedy += "bert-keras convert MODEL NEW_FOLDER --pad-vocabulary"
        found = f"the vocabulary has {tokens:,} tokens, but the embedding matrix {rows:,} rows"
        check(self.vocabulary is None or tokens == rows, f"{found}; {remedy}")


class TextCheckpoint(Checkpoint):
    """A checkpoint that has a vocabulary, so that its model can process text."""

    vocabulary: Vocabulary

    @property
    def tokenizer(self) -> TextTokenizer:
        """The tokenizer of the vocabulary."""
        return tokenizer_of(self.vocabulary, **self.metadata.tokenizer_settings)


def part(name: str) -> str:
    """Returns the part of a weight: `encoder`, `bilstm`, `pooler` or a head like `masked_lm`."""
    first, _, rest = name.partition("/")
    second = rest.partition("/")[0]
    return second if first == "encoder" and second in ("bilstm", "pooler") else first


def name_table(
    layers: Mapping[str, str], *, num_blocks: int, suffixes: Sequence[str] | None = None
) -> dict[str, str]:
    """Returns the names of weights in another format by public names.

    `layers` has those of layers, or of single weights, with `{}` for the index of a block. Layers
    that map to "" are left out. `suffixes` are the ends of a kernel or gamma, and a bias or beta.
    """
    table = {}
    for ours, theirs in filter(itemgetter(1), layers.items()):
        weights = ("gamma", "beta") if ours.endswith("norm") else ("kernel", "bias")
        ends = suffixes or [f"/{weight}" for weight in weights]
        for index in range(num_blocks if "{}" in ours else 1):
            layer, other = ours.format(index), theirs.format(index)
            table[layer] = other
            table |= {f"{layer}/{w}": f"{other}{end}" for w, end in zip(weights, ends, strict=True)}
    return table


def our_tensors(
    stored: Mapping[str, StoredTensor],
    table: Mapping[str, str],
    *,
    is_transposed: Callable[[str], bool],
) -> dict[str, StoredTensor]:
    """Translates the tensors of another format to our names and shapes.

    `table` is that of `name_table`; a tensor that several names share holds their weights one after
    the other. `is_transposed` tells of a public name whether the format stores its transpose.
    """
    names = defaultdict(list)
    for ours, theirs in table.items():
        names[theirs].append(ours)
    unknown = [name for name in stored if name not in names]
    check(not unknown, f"the weights are not those of this model: {listed(unknown)} unexpected")
    tensors = {}
    for theirs, ours in names.items():
        if theirs in stored:
            for name, tensor in zip(ours, stored[theirs].split(len(ours)), strict=True):
                tensors[name] = tensor.transposed() if is_transposed(name) else tensor
    return tensors


def their_tensors(
    tensors: Mapping[str, StoredTensor],
    table: Mapping[str, str],
    *,
    is_transposed: Callable[[str], bool],
    format: str,
) -> dict[str, StoredTensor]:
    """Translates tensors to the names and shapes of another format; see `our_tensors`."""
    unknown = [name for name in tensors if name not in table]
    check(
        not unknown,
        f"{format} cannot store {listed(unknown, most=3)} of this model; choose another format, or "
        f"write only the encoder: bert-keras convert MODEL NEW_FOLDER --format {format} "
        "--model-class BertEncoder",
    )
    parts = defaultdict(list)
    for name, theirs in table.items():  # in the order of the weights in a tensor that they share
        if (tensor := tensors.get(name)) is not None:
            parts[theirs].append(tensor.transposed() if is_transposed(name) else tensor)
    return {name: joined(each) for name, each in parts.items()}


# Key of a JSON file of another format that holds the metadata for which it has no field.
EXTRA_KEY = "bert_keras"
_TEXT_FIELDS = ("lowercase", "max_length", "shortens_first", "text_columns")
_EXTRA_FIELDS = (*_TEXT_FIELDS, "labels", "problem_type", "task")


def extra_values(metadata: ModelMetadata) -> dict[str, Any]:
    """Returns the metadata for the value of EXTRA_KEY."""
    return {name: getattr(metadata, name) for name in _EXTRA_FIELDS}


def with_extra(metadata: ModelMetadata, extra: Mapping[str, Any]) -> ModelMetadata:
    """Returns metadata with the fields that the value of EXTRA_KEY states."""
    stated = {name: extra[name] for name in _EXTRA_FIELDS if name in extra}
    return ModelMetadata.from_dict({**metadata.to_dict(), **stated})


def config_of(values: Mapping[str, Any], path: Path | str) -> BertConfig:
    """Builds a BertConfig from values of the file `path`, which an InputError names."""
    try:
        return BertConfig(**values)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
