"""Lists the weights of every model, and translates their names to and from checkpoint formats."""

import dataclasses
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from bert_keras.architectures import ARCHITECTURES, ENCODER
from bert_keras.checkpoints.feature_layers import feature_layers
from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.checkpoints.tensors import StoredTensor, joined
from bert_keras.config import BertConfig
from bert_keras.errors import InputError, listed
from bert_keras.families import BERT, family_of

# Number of outputs of the heads that have neither one output per label nor a single output.
NUM_OUTPUTS = {"next_sentence": 2, "span": 2}
# Heads that begin with a dense layer and a LayerNorm if the configuration has a head norm.
TOKEN_HEADS = ("token_labels", "span")


class WeightRow(NamedTuple):
    """The name and the shape of one weight."""

    # Public name, such as "encoder/layer_0/attention/query/kernel". It never changes, because
    # checkpoints store it.
    name: str
    shape: tuple[int, ...]  # shape of the Keras variable


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


def rows(metadata: ModelMetadata) -> list[WeightRow]:
    """Returns the names and shapes of all weights of a model, those of the encoder first."""
    table = [*_encoder(metadata.config)]
    if metadata.config.has_pooler:
        table += _dense_and_norm("encoder/pooler", "encoder/pooler/norm", metadata.config)
    for head in ARCHITECTURES[metadata.model].heads:
        if head == "masked_lm":
            table += _masked_lm(metadata.config)
        elif head == "tagger":
            table += _tagger(metadata)
        else:
            if metadata.config.has_head_norm and head in TOKEN_HEADS:
                table += _dense_and_norm(f"{head}/transform", f"{head}/norm", metadata.config)
            count = NUM_OUTPUTS.get(head, len(metadata.labels) or 1)
            table += _dense(f"{head}/dense", metadata.config.hidden_size, count)
    return table


def _encoder(config: BertConfig) -> Iterator[WeightRow]:
    size, inner, has_biases = config.hidden_size, config.intermediate_size, config.has_biases
    table_size = config.embedding_size or size
    for table, count in (
        ("token", config.vocab_size),
        ("position", 0 if config.is_rotary else config.position_offset + config.max_positions),
        ("segment", config.num_segments),
    ):
        if count:
            yield WeightRow(f"encoder/embeddings/{table}", (count, table_size))
    yield from _norm("encoder/embeddings/norm", table_size, has_biases)
    if config.embedding_size:
        yield from _dense("encoder/embeddings/projection", table_size, size, has_biases)
    for index in range(1 if config.shares_layers else config.num_layers):
        block = f"encoder/layer_{index}"
        for name in ("query", "key", "value", "output"):
            yield from _dense(f"{block}/attention/{name}", size, size, has_biases)
        if config.has_attention_norm(index):
            yield from _norm(f"{block}/attention_norm", size, has_biases)
        units = 2 * inner if config.is_gated else inner
        yield from _dense(f"{block}/feed_forward/intermediate", size, units, has_biases)
        yield from _dense(f"{block}/feed_forward/output", inner, size, has_biases)
        yield from _norm(f"{block}/feed_forward_norm", size, has_biases)
    if config.is_pre_norm:
        yield from _norm("encoder/final_norm", size, has_biases)
    if config.num_lstm_layers:
        yield from _bilstm(
            "encoder/bilstm", size, units=size // 2, num_layers=config.num_lstm_layers
        )


def _masked_lm(config: BertConfig) -> Iterator[WeightRow]:
    table_size = config.embedding_size or config.hidden_size
    yield from _dense("masked_lm/transform", config.hidden_size, table_size, config.has_biases)
    yield from _norm("masked_lm/norm", table_size, config.has_biases)
    if not config.ties_decoder:
        yield WeightRow("masked_lm/decoder", (config.vocab_size, table_size))
    yield WeightRow("masked_lm/output_bias", (config.vocab_size,))


def _dense_and_norm(dense: str, norm: str, config: BertConfig) -> Iterator[WeightRow]:
    yield from _dense(dense, config.hidden_size, config.hidden_size, config.has_biases)
    if config.has_head_norm:
        yield from _norm(norm, config.hidden_size, config.has_biases)


def _tagger(metadata: ModelMetadata) -> Iterator[WeightRow]:
    size, units = metadata.config.hidden_size, metadata.task.get("lstm_units")
    if type(units) is not int or units < 1:
        raise InputError(f"lstm_units of a {metadata.model} is {units!r}; expected at least 1")
    choice: Any = metadata.task.get("layers")
    layers = feature_layers(choice, num_layers=metadata.config.num_layers)
    if layers.is_summed:
        yield WeightRow("tagger/layer_mix/layer_logits", (len(layers.indices),))
        yield WeightRow("tagger/layer_mix/scale", ())
    yield from _bilstm("tagger/bilstm", layers.vector_size(size), units=units, num_layers=2)
    yield from _dense("tagger/token_labels/dense", 2 * units, len(metadata.labels))


def _bilstm(layer: str, size: int, *, units: int, num_layers: int) -> Iterator[WeightRow]:
    """Yields the weights of a BiLSTM; Keras concatenates the four gates of an LSTM."""
    for index in range(num_layers):
        inputs = 2 * units if index else size
        for direction in ("forward", "backward"):
            cell = f"{layer}/layer_{index}/{direction}_lstm/lstm_cell"
            yield WeightRow(f"{cell}/kernel", (inputs, 4 * units))
            yield WeightRow(f"{cell}/recurrent_kernel", (units, 4 * units))
            yield WeightRow(f"{cell}/bias", (4 * units,))


def _dense(layer: str, size: int, count: int, has_bias: bool = True) -> Iterator[WeightRow]:
    yield WeightRow(f"{layer}/kernel", (size, count))
    if has_bias:
        yield WeightRow(f"{layer}/bias", (count,))


def _norm(layer: str, size: int, has_bias: bool) -> Iterator[WeightRow]:
    yield WeightRow(f"{layer}/gamma", (size,))
    if has_bias:
        yield WeightRow(f"{layer}/beta", (size,))


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
