"""Lists the names and shapes of the weights of every model."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from bert_keras.architectures import ARCHITECTURES
from bert_keras.checkpoints.feature_layers import feature_layers
from bert_keras.checkpoints.generator import generator_config, generator_size, is_shared
from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.config import BertConfig
from bert_keras.embedding import DenseModule, EmbeddingConfig
from bert_keras.errors import InputError

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
        elif head == "replaced_token":
            size = metadata.config.hidden_size
            table += [*_dense(f"{head}/transform", size, size), *_dense(f"{head}/dense", size, 1)]
        elif head == "generator":
            table += _generator(metadata)
        else:
            if metadata.config.has_head_norm and head in TOKEN_HEADS:
                table += _dense_and_norm(f"{head}/transform", f"{head}/norm", metadata.config)
            count = NUM_OUTPUTS.get(head, len(metadata.labels) or 1)
            table += _dense(f"{head}/dense", metadata.config.hidden_size, count)
    if metadata.embedding is not None:
        table += _sentence(metadata.embedding, metadata.config.hidden_size)
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


def _generator(metadata: ModelMetadata) -> Iterator[WeightRow]:
    config = generator_config(metadata.config, generator_size(metadata))
    for row in (*_encoder(config), *_masked_lm(config)):
        if not is_shared(row.name):
            yield WeightRow(f"generator/{row.name}", row.shape)


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


def _sentence(embedding: EmbeddingConfig, hidden_size: int) -> Iterator[WeightRow]:
    sizes, index = embedding.sizes(hidden_size), 0
    for size, module in zip(sizes, embedding.modules, strict=False):
        if isinstance(module, DenseModule):
            yield from _dense(f"sentence/dense_{index}", size, module.units, module.has_bias)
            index += 1


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
