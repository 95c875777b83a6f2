"""The one table of weight names: ours beside Google's, Hugging Face's and KerasHub's, both ways.

Layouts: a dense weight of Hugging Face is our kernel transposed, Google's `output_weights` are our
heads' kernels transposed, KerasHub's attention arrays are ours cut into heads.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from bert_keras.architectures import ARCHITECTURES, BERT, ENCODER, FAMILIES, family_of
from bert_keras.checkpoints.card import ModelCard
from bert_keras.checkpoints.checkpoint import StoredTensor
from bert_keras.checkpoints.feature_layers import feature_layers
from bert_keras.config import BertConfig
from bert_keras.errors import InputError, listed

OURS, GOOGLE, HUGGING_FACE, KERAS_HUB = "ours", "google", "huggingface", "keras_hub"


@dataclass(frozen=True)
class Row:
    """One weight: its name and shape here, its name in each foreign format or "" where that has no
    place for it. Hugging Face's names are without the `bert.` that task models put before them.
    """

    ours: str
    shape: tuple[int, ...]
    google: str
    huggingface: str
    keras_hub: str

    def foreign(self, column: str) -> str:
        return getattr(self, column)

    def is_transposed(self, column: str) -> bool:
        return (column == HUGGING_FACE and self.ours.endswith("/kernel")) or (
            column == GOOGLE and self.google.endswith("output_weights")
        )


def rows(card: ModelCard) -> list[Row]:
    """Every weight of the card's model once, encoder first."""
    config, size, count = card.config, card.config.hidden_size, len(card.labels)
    heads = {
        "masked_lm": lambda: _masked_lm(config),
        "next_sentence": lambda: _next_sentence(size),
        "classification": lambda: _head("classification", size, count, "", "classifier", "logits"),
        "token_labels": lambda: _head("token_labels", size, count, None, "classifier", ""),
        "span": lambda: _head("span", size, 2, "cls/squad/", "qa_outputs", ""),
        "multiple_choice": lambda: _head("multiple_choice", size, 1, None, "classifier", ""),
        "tagger": lambda: _tagger(card),
    }
    named_as_bert, family = [*_encoder(config)], family_of(config)
    for head in ARCHITECTURES[card.model].heads:
        named_as_bert += heads[head]()
    if family is BERT:
        return named_as_bert
    weight = partial(family.weight, model=card.model) if family else lambda name: ""
    return [
        replace(row, google="", huggingface=weight(row.huggingface), keras_hub="")
        for row in named_as_bert
    ]


def _encoder(config: BertConfig) -> Iterator[Row]:
    size, inner = config.hidden_size, config.intermediate_size
    table_size = config.embedding_size or size
    for ours, count, theirs, hub in (
        ("token", config.vocab_size, "word", "token"),
        ("position", config.position_offset + config.max_positions, "position", "position"),
        ("segment", config.num_segments, "token_type", "segment"),
    ):
        if count:
            yield Row(
                f"encoder/embeddings/{ours}",
                (count, table_size),
                f"bert/embeddings/{theirs}_embeddings",
                f"embeddings.{theirs}_embeddings.weight",
                f"{hub}_embedding/embeddings",
            )
    yield from _norm(
        "encoder/embeddings/norm", table_size, "bert/embeddings/", "embeddings_layer_norm"
    )
    if config.embedding_size:
        projection = "embeddings/projection"
        yield from _dense(f"encoder/{projection}", (table_size, size), f"bert/{projection}", "")
    for index in range(1 if config.shares_layers else config.num_layers):
        ours, google = f"encoder/layer_{index}", f"bert/encoder/layer_{index}"
        hub = f"transformer_layer_{index}"
        for name in ("query", "key", "value"):
            yield from _dense(
                f"{ours}/attention/{name}",
                (size, size),
                f"{google}/attention/self/{name}",
                f"{hub}/self_attention_layer/{name}",
            )
        yield from _dense(
            f"{ours}/attention/output",
            (size, size),
            f"{google}/attention/output/dense",
            f"{hub}/self_attention_layer/attention_output",
        )
        yield from _norm(
            f"{ours}/attention_norm",
            size,
            f"{google}/attention/output/",
            f"{hub}/self_attention_layer_norm",
        )
        yield from _dense(
            f"{ours}/feed_forward/intermediate",
            (size, inner),
            f"{google}/intermediate/dense",
            f"{hub}/feedforward_intermediate_dense",
        )
        yield from _dense(
            f"{ours}/feed_forward/output",
            (inner, size),
            f"{google}/output/dense",
            f"{hub}/feedforward_output_dense",
        )
        yield from _norm(
            f"{ours}/feed_forward_norm", size, f"{google}/output/", f"{hub}/feedforward_layer_norm"
        )
    if config.num_lstm_layers:
        yield from _bilstm(
            "encoder/bilstm", size, units=size // 2, num_layers=config.num_lstm_layers
        )
    if config.has_pooler:
        yield from _dense("encoder/pooler", (size, size), "bert/pooler/dense", "pooled_dense")


def _masked_lm(config: BertConfig) -> list[Row]:
    size, theirs = config.hidden_size, "cls/predictions/transform/"
    table_size = config.embedding_size or size
    hub = "mlm_head/intermediate_"
    return [
        *_dense("masked_lm/transform", (size, table_size), f"{theirs}dense", f"{hub}dense"),
        *_norm("masked_lm/norm", table_size, theirs, f"{hub}layer_norm"),
        Row(
            "masked_lm/output_bias",
            (config.vocab_size,),
            "cls/predictions/output_bias",
            "cls.predictions.bias",
            "mlm_head/output_bias",
        ),
    ]


def _next_sentence(size: int) -> list[Row]:
    return _head("next_sentence", size, 2, "cls/seq_relationship/", "cls.seq_relationship", "")


def _head(
    ours: str, size: int, count: int, google: str | None, huggingface: str, hub: str
) -> list[Row]:
    """One dense layer over a vector; `google` is what stands before its two names, or None."""

    def row(name: str, shape: tuple[int, ...], google_name: str, huggingface_name: str) -> Row:
        return Row(
            f"{ours}/dense/{name}",
            shape,
            "" if google is None else f"{google}{google_name}",
            f"{huggingface}.{huggingface_name}",
            f"{hub}/{name}" if hub else "",
        )

    return [
        row("kernel", (size, count), "output_weights", "weight"),
        row("bias", (count,), "output_bias", "bias"),
    ]


def _tagger(card: ModelCard) -> Iterator[Row]:
    """No foreign format has a place for these."""
    size, count, units = card.config.hidden_size, len(card.labels), card.task.get("lstm_units")
    if type(units) is not int or units < 1:
        raise InputError(f"lstm_units of a {card.model} is {units!r}; expected at least 1")
    layers = feature_layers(card.task.get("layers"), num_layers=card.config.num_layers)
    shapes: dict[str, tuple[int, ...]] = {}
    if layers.is_summed:
        shapes |= {"layer_mix/layer_logits": (len(layers.numbers),), "layer_mix/scale": ()}
    for name, shape in shapes.items():
        yield Row(f"tagger/{name}", shape, "", "", "")
    yield from _bilstm("tagger/bilstm", layers.vector_size(size), units=units, num_layers=2)
    for name, shape in (("kernel", (2 * units, count)), ("bias", (count,))):
        yield Row(f"tagger/token_labels/dense/{name}", shape, "", "", "")


def _bilstm(ours: str, size: int, *, units: int, num_layers: int) -> Iterator[Row]:
    """No foreign format has a place for these. Keras' LSTM holds its four gates side by side."""
    for index in range(num_layers):
        inputs = 2 * units if index else size
        for direction in ("forward", "backward"):
            cell = f"{ours}/layer_{index}/{direction}_lstm/lstm_cell"
            yield Row(f"{cell}/kernel", (inputs, 4 * units), "", "", "")
            yield Row(f"{cell}/recurrent_kernel", (units, 4 * units), "", "", "")
            yield Row(f"{cell}/bias", (4 * units,), "", "", "")


def _dense(ours: str, shape: tuple[int, int], google: str, hub: str) -> Iterator[Row]:
    theirs = _dotted(google)
    yield Row(f"{ours}/kernel", shape, f"{google}/kernel", f"{theirs}.weight", f"{hub}/kernel")
    yield Row(f"{ours}/bias", shape[1:], f"{google}/bias", f"{theirs}.bias", f"{hub}/bias")


def _norm(ours: str, size: int, google: str, hub: str) -> Iterator[Row]:
    theirs = _dotted(google)
    for name, theirs_name in (("gamma", "weight"), ("beta", "bias")):
        yield Row(
            f"{ours}/{name}",
            (size,),
            f"{google}LayerNorm/{name}",
            f"{theirs}LayerNorm.{theirs_name}",
            f"{hub}/{name}",
        )


def _dotted(google: str) -> str:
    """Hugging Face kept Google's names, with dots, and `layer.0` for `layer_0`."""
    return google.removeprefix("bert/").replace("/layer_", "/layer.").replace("/", ".")


def translated(
    foreign: Mapping[str, StoredTensor],
    *,
    card: ModelCard,
    column: str,
    ignore: Collection[str] = (),
) -> tuple[dict[str, StoredTensor], tuple[str, ...]]:
    """The card's weights by our names, and what of `ignore` was there and is left over.

    Raises one InputError that names every tensor missing, misshapen or unexpected.
    """
    _check_family(card, column)
    found, faults = {}, []
    table = {row.foreign(column): row for row in rows(card)}
    for name, row in table.items():
        if name not in foreign:
            faults.append(f"{name} is missing")
            continue
        tensor = foreign[name]
        if column == KERAS_HUB:
            fits = prod(tensor.shape) == prod(row.shape)
            expected, tensor = row.shape, tensor.reshaped(row.shape)
        else:
            transposed = row.is_transposed(column)
            expected = row.shape[::-1] if transposed else row.shape
            fits = tensor.shape == expected
            tensor = tensor.transposed() if transposed else tensor
        if not fits:
            faults.append(f"{name} is {foreign[name].shape}, expected {expected}")
        found[row.ours] = tensor
    others = [name for name in foreign if name not in table]
    faults += [f"{name} is unexpected" for name in others if name not in ignore]
    if faults:
        raise InputError(
            f"the weights are not those of a {card.model} of {card.config.num_layers} layers and "
            f"hidden size {card.config.hidden_size}: {listed(faults)}"
        )
    return found, tuple(others)


def foreign_tensors(
    tensors: Mapping[str, StoredTensor], *, card: ModelCard, column: str
) -> dict[str, StoredTensor]:
    """The inverse: the card's weights by the format's names, in its layout (KerasHub's still in
    ours). Raises InputError where the format has no place for the card's model.
    """
    _check_family(card, column)
    given = {}
    for row in rows(card):
        if not row.foreign(column):
            raise InputError(
                f"{column} has no place for {row.ours} of a {card.model}; write another format, or "
                f"a part: bert-keras convert --model {ENCODER.name}"
            )
        tensor = tensors[row.ours]
        given[row.foreign(column)] = tensor.transposed() if row.is_transposed(column) else tensor
    return given


def _check_family(card: ModelCard, column: str) -> None:
    family, kinds = family_of(card.config), FAMILIES if column == HUGGING_FACE else (BERT.kind,)
    if column != OURS and (family is None or family.kind not in kinds):
        named = f"the numbers of {family.kind}" if family else "these numbers"
        raise InputError(
            f"{column} has no place for an encoder of {named}, only for {', '.join(kinds)}: "
            f"{card.config.to_dict()}"
        )
