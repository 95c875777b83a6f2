"""Translates the names and shapes of weights to and from checkpoint formats."""

import dataclasses
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from bert_keras.architectures import ARCHITECTURES, ENCODER
from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.checkpoints.tensors import StoredTensor, joined
from bert_keras.checkpoints.weight_rows import WeightRow, rows
from bert_keras.errors import InputError, listed
from bert_keras.families import BERT, family_of


@dataclass(frozen=True, kw_only=True)
class NameColumn:
    """The names and shapes under which one checkpoint format stores our weights.

    If a format has one name for several weights, it stores them joined along the first axis, in the
    order of `rows`.
    """

    format: str  # name of the format in error messages
    # Maps the public name of a weight of a model to the format's name, or to "" if it has none.
    name: Callable[[str, ModelMetadata], str]
    # Returns whether the format stores the transpose of the weight with this public name.
    is_transposed: Callable[[str], bool] = lambda name: False
    # Returns the shape in which the format stores a weight that it does not transpose.
    shape: Callable[[WeightRow, ModelMetadata], tuple[int, ...]] = lambda row, metadata: row.shape
    # Kinds of encoders (keys of `families.FAMILIES`) that the format can store; None means
    # every encoder.
    kinds: Collection[str] | None = (BERT.kind,)


# For formats that use the same last part of a weight's name as we do.
SAME_SUFFIXES = {end: f"/{end}" for end in ("kernel", "bias", "gamma", "beta")}


def renamed(
    name: str, layers: Mapping[str, str], *, suffixes: Mapping[str, str] = SAME_SUFFIXES
) -> str:
    """Returns a format's name of a weight, or "" if the format has none.

    Args:
        name: The public name of the weight.
        layers: The format's names by our names, for weights or for the layers that contain them.
            `{}` stands for the index of an encoder block in both.
        suffixes: The suffixes that the format appends to the name of a layer, by the last part of
            the public name, such as "kernel".
    """
    number = "".join(re.findall(r"^encoder/layer_(\d+)/", name))
    name = re.sub(r"^(encoder/layer_)\d+/", r"\1{}/", name)
    layer, _, last = name.rpartition("/")
    if name in layers:
        return layers[name].format(number)
    return layers[layer].format(number) + suffixes[last] if layer in layers else ""


def weight_problems(
    stored: Mapping[str, StoredTensor], shapes: Mapping[str, tuple[int, ...]]
) -> list[str]:
    """Describes each weight in `shapes` that is not in `stored` or has another shape there."""
    return [
        f"{name} has the shape {stored[name].shape}, expected {shape}"
        if name in stored
        else f"{name} is missing"
        for name, shape in shapes.items()
        if name not in stored or stored[name].shape != shape
    ]


def translated(
    foreign: Mapping[str, StoredTensor],
    *,
    metadata: ModelMetadata,
    column: NameColumn,
    ignore: Collection[str] = (),
) -> tuple[dict[str, StoredTensor], tuple[str, ...]]:
    """Translates the tensors of a foreign checkpoint to our names and shapes.

    Args:
        foreign: The tensors by the format's names.
        metadata: The metadata of the model that the tensors belong to.
        column: The names and shapes of the format.
        ignore: The format's names of tensors that may be unused.

    Returns:
        The weights by their public names, and the names of the unused tensors.

    Raises:
        InputError: The format cannot store the encoder, or tensors are missing, unexpected or have
            the wrong shape. The message names all of them.
    """
    check_family(metadata, column)
    table, parts = defaultdict(list), defaultdict(list)
    for row in rows(metadata):
        is_transposed = column.is_transposed(row.name)
        shape = row.shape[::-1] if is_transposed else column.shape(row, metadata)
        table[name := column.name(row.name, metadata)].append(row)
        parts[name].append(shape)
    shapes = {
        name: (sum(shape[0] for shape in each), *each[0][1:]) if each[0] else ()
        for name, each in parts.items()
    }
    unused = [name for name in foreign if name not in table]
    problems = weight_problems(foreign, shapes)
    problems += [f"{name} is unexpected" for name in unused if name not in ignore]
    if problems:
        raise InputError(
            f"the weights are not those of a {metadata.model} of {metadata.config.num_layers} "
            f"layers and hidden size {metadata.config.hidden_size}: {listed(problems)}"
        )
    tensors = {}
    for name, joined_rows in table.items():
        stored = [foreign[name]]
        if len(joined_rows) > 1:
            stored = foreign[name].split([shape[0] for shape in parts[name]])
        for row, tensor in zip(joined_rows, stored, strict=True):
            is_transposed = column.is_transposed(row.name)
            tensors[row.name] = tensor.transposed() if is_transposed else tensor.reshaped(row.shape)
    return tensors, tuple(unused)


def translated_averages(
    foreign: Mapping[str, StoredTensor], *, metadata: ModelMetadata, column: NameColumn
) -> dict[str, StoredTensor]:
    """Translates one of Adam's averages of all weights to our names; see `translated`.

    If no head reads the pooler, it is not trained and its averages may be missing.
    """
    has_pooler = column.name("encoder/pooler/kernel", metadata) in foreign
    if not (has_pooler or ARCHITECTURES[metadata.model].reads_pooled_output):
        config = dataclasses.replace(metadata.config, has_pooler=False)
        metadata = dataclasses.replace(metadata, config=config)
    return translated(foreign, metadata=metadata, column=column)[0]


def foreign_tensors(
    tensors: Mapping[str, StoredTensor], *, metadata: ModelMetadata, column: NameColumn
) -> dict[str, StoredTensor]:
    """Translates weights to the names and shapes of a checkpoint format.

    Args:
        tensors: The weights by their public names.
        metadata: The metadata of the model.
        column: The names and shapes of the format.

    Returns:
        The tensors by the format's names, transposed or reshaped as the format stores them.

    Raises:
        InputError: The format cannot store the model.
    """
    check_family(metadata, column)
    if metadata.embedding is not None:
        raise InputError(
            f"{column.format} cannot store how a {metadata.model} computes embeddings; choose "
            "sentence-transformers, or write only the encoder: bert-keras convert SRC DST "
            f"--to {column.format} --model {ENCODER.name}"
        )
    foreign = defaultdict(list)
    for name, tensor in tensors.items():
        foreign_name = column.name(name, metadata)
        if not foreign_name:
            remedy = "choose another format"
            if not name.startswith("encoder/"):
                remedy += ", or write only the encoder: bert-keras convert SRC DST "
                remedy += f"--to {column.format} --model {ENCODER.name}"
            raise InputError(f"{column.format} cannot store {name} of a {metadata.model}; {remedy}")
        shape = column.shape(WeightRow(name, tensor.shape), metadata)
        is_transposed = column.is_transposed(name)
        tensor = tensor.transposed() if is_transposed else tensor.reshaped(shape)
        foreign[foreign_name].append(tensor)
    return {name: joined(parts) for name, parts in foreign.items()}


def check_family(metadata: ModelMetadata, column: NameColumn) -> None:
    """Raises InputError if the format cannot store encoders of this kind."""
    family, kinds = family_of(metadata.config), column.kinds
    if kinds is not None and (family is None or family.kind not in kinds):
        kind = f"the kind {family.kind}" if family else "no known kind"
        raise InputError(
            f"{column.format} cannot store an encoder of {kind}, only {', '.join(kinds)}; the "
            f"configuration is {metadata.config.to_dict()}"
        )
