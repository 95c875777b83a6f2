"""Builds the sides of train.py that run `model.fit`: ours and KerasHub."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

# As the commands do; written out, because compare.py also runs commits without a name for them.
import keras
import numpy as np
import tensorflow as tf
from keras import ops
from train_batches import (
    LEARNING_RATE,
    MAX_NORM,
    NUM_STEPS,
    NUM_WARMUP_STEPS,
    SEED,
    WEIGHT_DECAY,
    Batch,
    Work,
    every_position,
)
from train_optimizer import keras_adamw

from bert_keras import BertAdamW, BertPretrainer, LinearWarmupDecay
from bert_keras.config import BertConfig
from bert_keras.training.losses import pretraining_losses, pretraining_metrics

keras.utils.set_random_seed(SEED)


def bert_adamw(rate) -> keras.optimizers.Optimizer:
    return BertAdamW(rate, weight_decay_rate=WEIGHT_DECAY, max_gradient_norm=MAX_NORM)


def ours(
    work: Work,
    *,
    optimizer: Callable = bert_adamw,
    change: Callable | None = None,
    jit_compile: bool = False,
    **compiling,
) -> Callable[[], object]:
    """Builds our side; `change` modifies the model, `compiling` are arguments of `compile`."""
    model = BertPretrainer(work.config)
    if change is not None:
        change(model)
    return turn(model, work, optimizer, jit_compile=jit_compile, **compiling)


def projecting_all(work: Work) -> Callable[[], object]:
    return ours(replace(work, batches=[every_position(batch) for batch in work.batches]))


def without_dropout(work: Work) -> Callable[[], object]:
    rates = {"hidden_dropout_rate": 0.0, "attention_dropout_rate": 0.0}
    return ours(replace(work, config=replace(work.config, **rates)))


def keras_hub(work: Work, *, jit_compile: bool) -> Callable[[], object]:
    """Builds KerasHub's backbone and masked-LM head, and a next-sentence head."""
    import keras_hub

    backbone = hub_backbone(work.config)
    head = keras_hub.layers.MaskedLMHead(
        token_embedding=backbone.token_embedding, intermediate_activation="gelu"
    )
    positions = keras.Input((None,), dtype="int32", name="mask_positions")
    encoded = backbone(backbone.input)
    outputs = {
        "masked_lm": head(encoded["sequence_output"], positions),
        "next_sentence": keras.layers.Dense(2)(encoded["pooled_output"]),
    }
    model = keras.Model({**backbone.input, "mask_positions": positions}, outputs)

    def theirs(batch: Batch) -> Batch:
        inputs, targets, weights = batch
        positions = inputs["masked_lm_positions"]
        return {**hub_inputs(inputs), "mask_positions": positions}, targets, weights

    work = replace(work, batches=[theirs(batch) for batch in work.batches])
    return turn(model, work, keras_adamw, jit_compile=jit_compile, **keras_losses())


def hub_backbone(config: BertConfig) -> keras.Model:
    import keras_hub

    return keras_hub.models.BertBackbone(
        vocabulary_size=config.vocab_size,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        hidden_dim=config.hidden_size,
        intermediate_dim=config.intermediate_size,
        max_sequence_length=config.max_positions,
        dropout=config.hidden_dropout_rate,
    )


def hub_inputs(inputs: dict) -> dict:
    names = {"token_ids": "input_ids", "segment_ids": "segment_ids", "padding_mask": "input_mask"}
    return {name: inputs[source] for name, source in names.items()}


def keras_losses() -> dict:
    """Returns the losses and metrics of Keras as arguments of `compile`."""
    names = ("masked_lm", "next_sentence")
    loss = partial(
        keras.losses.SparseCategoricalCrossentropy,
        from_logits=True,
        reduction="mean_with_sample_weight",
    )
    accuracy = keras.metrics.SparseCategoricalAccuracy
    return {
        "loss": {name: loss() for name in names},
        "weighted_metrics": {name: [accuracy(name="accuracy")] for name in names},
    }


def turn(model, work: Work, optimizer: Callable, **compiling) -> Callable[[], object]:
    schedule = LinearWarmupDecay(
        LEARNING_RATE, num_steps=NUM_STEPS, num_warmup_steps=NUM_WARMUP_STEPS
    )
    ours = {"loss": pretraining_losses(), "weighted_metrics": pretraining_metrics()}
    model.compile(optimizer(schedule), **ours | compiling)
    stacked = tf.nest.map_structure(lambda *arrays: np.stack(arrays), *work.batches)
    dataset = tf.data.Dataset.from_tensor_slices(stacked).repeat().prefetch(2)
    return partial(model.fit, dataset, steps_per_epoch=work.steps, shuffle=False, verbose=0)


def recompute(model: BertPretrainer) -> None:
    model.encoder.gradient_checkpointing = True


def in_three_dimensions(model: BertPretrainer, *, length: int) -> None:
    """Changes the dense layers of the blocks to inputs of shape [B, T, D]."""

    def three(layer) -> None:
        dense = layer.call

        def call(x_XD, training=None):
            x_BTD = ops.reshape(x_XD, (-1, length, x_XD.shape[-1]))
            return ops.reshape(dense(x_BTD), (-1, layer.units))

        layer.call = call

    for block in model.encoder.blocks:
        for name in ("query", "key", "value", "output"):
            three(getattr(block.attention, f"{name}_dense"))
        three(block.feed_forward.intermediate_dense)
        three(block.feed_forward.output_dense)


def in_one_product(model: BertPretrainer) -> None:
    """Changes query, key and value of each block to one product with joined kernels."""

    def join(attention) -> None:
        layers = (attention.query_dense, attention.key_dense, attention.value_dense)
        rest = []

        def query(x_XD, training=None):
            kernel = ops.concatenate([layer.kernel for layer in layers], axis=1)
            bias = ops.concatenate([layer.bias for layer in layers], axis=0)
            first, *rest[:] = ops.split(ops.add(ops.matmul(x_XD, kernel), bias), 3, axis=-1)
            return first

        layers[0].call = query
        layers[1].call = layers[2].call = lambda x_XD, training=None: rest.pop(0)

    for block in model.encoder.blocks:
        join(block.attention)
