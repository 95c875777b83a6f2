"""The table of our weights, and their translation to and from the names of a checkpoint format."""

import dataclasses
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from bert_keras.architectures import ARCHITECTURES, BERT, ENCODER, family_of
from bert_keras.checkpoints.card import ModelCard
from bert_keras.checkpoints.feature_layers import feature_layers
from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.config import BertConfig
from bert_keras.errors import InputError, listed

NUM_OUTPUTS = {"next_sentence": 2, "span": 2}  # of heads that have neither labels nor one output


class Row(NamedTuple):
    """One weight."""

    name: str  # ours, a public promise, such as "encoder/layer_0/attention/query/kernel"
    shape: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Column:
    """How one checkpoint format names and stores our weights."""

    format: str  # as errors call it
    # The format's name of one of our weights in the model of a card; "" where it has none.
    name: Callable[[str, ModelCard], str]
    # Whether the format stores the transpose of one of our weights.
    is_transposed: Callable[[str], bool] = lambda name: False
    # The shape in which the format stores one of our weights that it does not transpose.
    shape: Callable[[Row, ModelCard], tuple[int, ...]] = lambda row, card: row.shape
    # The kinds of encoders (see `architectures.FAMILIES`) that it can hold; None for every encoder.
    kinds: Collection[str] | None = (BERT.kind,)


def rows(card: ModelCard) -> list[Row]:
    """Returns every weight of the card's model once, the encoder's first."""
    table = [*_encoder(card.config)]
    for head in ARCHITECTURES[card.model].heads:
        if head == "masked_lm":
            table += _masked_lm(card.config)
        elif head == "tagger":
            table += _tagger(card)
        else:
            count = NUM_OUTPUTS.get(head, len(card.labels) or 1)
            table += _dense(f"{head}/dense", card.config.hidden_size, count)
    return table


def _encoder(config: BertConfig) -> Iterator[Row]:
    size, inner = config.hidden_size, config.intermediate_size
    table_size = config.embedding_size or size
    for table, count in (
        ("token", config.vocab_size),
        ("position", config.position_offset + config.max_positions),
        ("segment", config.num_segments),
    ):
        if count:
            yield Row(f"encoder/embeddings/{table}", (count, table_size))
    yield from _norm("encoder/embeddings/norm", table_size)
    if config.embedding_size:
        yield from _dense("encoder/embeddings/projection", table_size, size)
    for index in range(1 if config.shares_layers else config.num_layers):
        block = f"encoder/layer_{index}"
        for name in ("query", "key", "value", "output"):
            yield from _dense(f"{block}/attention/{name}", size, size)
        yield from _norm(f"{block}/attention_norm", size)
        yield from _dense(f"{block}/feed_forward/intermediate", size, inner)
        yield from _dense(f"{block}/feed_forward/output", inner, size)
        yield from _norm(f"{block}/feed_forward_norm", size)
    if config.num_lstm_layers:
        yield from _bilstm(
            "encoder/bilstm", size, units=size // 2, num_layers=config.num_lstm_layers
        )
    if config.has_pooler:
        yield from _dense("encoder/pooler", size, size)


def _masked_lm(config: BertConfig) -> Iterator[Row]:
    table_size = config.embedding_size or config.hidden_size
    yield from _dense("masked_lm/transform", config.hidden_size, table_size)
    yield from _norm("masked_lm/norm", table_size)
    yield Row("masked_lm/output_bias", (config.vocab_size,))


def _tagger(card: ModelCard) -> Iterator[Row]:
    size, units = card.config.hidden_size, card.task.get("lstm_units")
    if type(units) is not int or units < 1:
        raise InputError(f"lstm_units of a {card.model} is {units!r}; expected at least 1")
    choice: Any = card.task.get("layers")
    layers = feature_layers(choice, num_layers=card.config.num_layers)
    if layers.is_summed:
        yield Row("tagger/layer_mix/layer_logits", (len(layers.numbers),))
        yield Row("tagger/layer_mix/scale", ())
    yield from _bilstm("tagger/bilstm", layers.vector_size(size), units=units, num_layers=2)
    yield from _dense("tagger/token_labels/dense", 2 * units, len(card.labels))


def _bilstm(layer: str, size: int, *, units: int, num_layers: int) -> Iterator[Row]:
    """Keras' LSTM holds its four gates side by side."""
    for index in range(num_layers):
        inputs = 2 * units if index else size
        for direction in ("forward", "backward"):
            cell = f"{layer}/layer_{index}/{direction}_lstm/lstm_cell"
            yield Row(f"{cell}/kernel", (inputs, 4 * units))
            yield Row(f"{cell}/recurrent_kernel", (units, 4 * units))
            yield Row(f"{cell}/bias", (4 * units,))


def _dense(layer: str, size: int, count: int) -> Iterator[Row]:
    yield Row(f"{layer}/kernel", (size, count))
    yield Row(f"{layer}/bias", (count,))


def _norm(layer: str, size: int) -> Iterator[Row]:
    yield Row(f"{layer}/gamma", (size,))
    yield Row(f"{layer}/beta", (size,))


SAME_ENDS = {end: f"/{end}" for end in ("kernel", "bias", "gamma", "beta")}


def renamed(name: str, layers: Mapping[str, str], *, ends: Mapping[str, str] = SAME_ENDS) -> str:
    """Returns a format's name of one of our weights, "" where it has none.

    Args:
        name: our name.
        layers: the format's name of each of our weights, or of the layer that has the weight;
            `{}` stands for the number of an encoder block in both.
        ends: what follows the format's name of a layer, by the last part of our name.
    """
    number = "".join(re.findall(r"^encoder/layer_(\d+)/", name))
    name = re.sub(r"^(encoder/layer_)\d+/", r"\1{}/", name)
    layer, _, end = name.rpartition("/")
    if name in layers:
        return layers[name].format(number)
    return layers[layer].format(number) + ends[end] if layer in layers else ""


def translated(
    foreign: Mapping[str, StoredTensor],
    *,
    card: ModelCard,
    column: Column,
    ignore: Collection[str] = (),
) -> tuple[dict[str, StoredTensor], tuple[str, ...]]:
    """Returns the card's weights by our names, and which names of `ignore` were there.

    Raises:
        InputError: names every tensor that is missing, misshapen or unexpected.
    """
    _check_family(card, column)
    found, faults = {}, []
    table = {column.name(row.name, card): row for row in rows(card)}
    for name, row in table.items():
        if name not in foreign:
            faults.append(f"{name} is missing")
            continue
        tensor, is_transposed = foreign[name], column.is_transposed(row.name)
        expected = row.shape[::-1] if is_transposed else column.shape(row, card)
        if tensor.shape != expected:
            faults.append(f"{name} is {tensor.shape}, expected {expected}")
        found[row.name] = tensor.transposed() if is_transposed else tensor.reshaped(row.shape)
    others = [name for name in foreign if name not in table]
    faults += [f"{name} is unexpected" for name in others if name not in ignore]
    if faults:
        raise InputError(
            f"the weights are not those of a {card.model} of {card.config.num_layers} layers and "
            f"hidden size {card.config.hidden_size}: {listed(faults)}"
        )
    return found, tuple(others)


def translated_averages(
    foreign: Mapping[str, StoredTensor], *, card: ModelCard, column: Column
) -> dict[str, StoredTensor]:
    """Returns an optimizer's averages of the card's weights, as `translated` does.

    A pooler that no head reads is not trained and may have none.
    """
    has_pooler = column.name("encoder/pooler/kernel", card) in foreign
    if not (has_pooler or ARCHITECTURES[card.model].reads_pooled_output):
        config = dataclasses.replace(card.config, has_pooler=False)
        card = dataclasses.replace(card, config=config)
    return translated(foreign, card=card, column=column)[0]


def foreign_tensors(
    tensors: Mapping[str, StoredTensor], *, card: ModelCard, column: Column
) -> dict[str, StoredTensor]:
    """Returns weights of the card's model by the format's names, transposed where the format's are.

    Raises:
        InputError: where the format cannot hold the card's model.
    """
    _check_family(card, column)
    given = {}
    for ours, tensor in tensors.items():
        name = column.name(ours, card)
        if not name:
            raise InputError(
                f"{column.format} has no place for {ours} of a {card.model}; write another "
                f"format, or a part: bert-keras convert --model {ENCODER.name}"
            )
        shape = column.shape(Row(ours, tensor.shape), card)
        is_transposed = column.is_transposed(ours)
        given[name] = tensor.transposed() if is_transposed else tensor.reshaped(shape)
    return given


def _check_family(card: ModelCard, column: Column) -> None:
    family, kinds = family_of(card.config), column.kinds
    if kinds is not None and (family is None or family.kind not in kinds):
        named = f"the numbers of {family.kind}" if family else "these numbers"
        raise InputError(
            f"{column.format} has no place for an encoder of {named}, only for {', '.join(kinds)}: "
            f"{card.config.to_dict()}"
        )
