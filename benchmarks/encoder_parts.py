"""Measures each technique of the encoder's forward pass, each switched on alone.

The reference is the plain implementation: three dimensions throughout and LayerNormalization of
Keras. All variants share one set of weights, take turns and must agree to 1e-5.
"""

import argparse
import math
import random
import time

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from bert_keras import BertEncoder
from bert_keras.families import preset, presets

FLAT = frozenset({"dense layers in two dimensions"})
RESIDUAL = frozenset({"residuals in two dimensions"})
NORM = frozenset({"LayerNorm in fewer passes"})
PLAIN = "plain implementation"
VARIANTS = {
    PLAIN: frozenset(),
    "dense layers in two dimensions": FLAT,
    "... and residuals": FLAT | RESIDUAL,
    "LayerNorm in fewer passes": NORM,
    "scores scaled, not queries": {"scores"},
    "einsum, no transposed heads": {"einsum"},
    "no mask": {"no mask"},
    "one product for query, key, value": {"one"},
    "... their kernels stored as one": {"one", "stored"},
    "XLA": {"XLA"},
    "all of ours": FLAT | RESIDUAL | NORM,
    "... and one product": FLAT | RESIDUAL | NORM | {"one"},
    "... their kernels stored as one, too": FLAT | RESIDUAL | NORM | {"one", "stored"},
    "... and no mask": FLAT | RESIDUAL | NORM | {"no mask"},
    "... and XLA": FLAT | RESIDUAL | NORM | {"XLA"},
}


def joined(attention) -> tuple:
    """Returns the joined kernel [D, 3D] and bias [3D] of query, key and value."""
    layers = (attention.query_dense, attention.key_dense, attention.value_dense)
    kernel = ops.concatenate([layer.kernel for layer in layers], axis=1)
    return kernel, ops.concatenate([layer.bias for layer in layers], axis=0)


def forward(encoder: BertEncoder, techniques: frozenset):
    """Compiles a function of (input_ids, input_mask, segment_ids) with some techniques."""
    config = encoder.config
    D, N = config.hidden_size, config.num_heads
    stored = {}
    if "stored" in techniques:
        stored = {
            block.name: [tf.Variable(each) for each in joined(block.attention)]
            for block in encoder.blocks
        }
    keras_norm = keras.layers.LayerNormalization.call
    norm = (lambda layer, x: layer(x)) if techniques >= NORM else keras_norm

    def dense(layer, x):
        if not techniques >= FLAT or len(x.shape) == 2:
            return layer(x)
        flat = layer(ops.reshape(x, (-1, x.shape[-1])))
        return ops.reshape(flat, (-1, x.shape[1], flat.shape[-1]))

    def query_key_value(block, x):
        attention = block.attention
        if "one" not in techniques:
            return [dense(getattr(attention, f"{n}_dense"), x) for n in ("query", "key", "value")]
        kernel, bias = stored[block.name] if stored else joined(attention)
        x = ops.reshape(x, (-1, D)) if techniques >= FLAT else x
        return ops.split(ops.add(ops.matmul(x, kernel), bias), 3, axis=-1)

    def attend(block, x, bias, length):
        query, key, value = (
            ops.reshape(part, (-1, length, N, D // N)) for part in query_key_value(block, x)
        )
        scale = 1 / math.sqrt(D // N)
        bias = 0.0 if "no mask" in techniques else bias
        if "einsum" in techniques:
            scores = ops.einsum("BTNH,BSNH->BNTS", query * scale, key)
            context = ops.einsum("BNTS,BSNH->BTNH", ops.softmax(scores + bias), value)
        else:
            query, key, value = (ops.transpose(x, (0, 2, 1, 3)) for x in (query, key, value))
            key = ops.transpose(key, (0, 1, 3, 2))
            if "scores" in techniques:
                scores = ops.matmul(query, key) * scale
            else:
                scores = ops.matmul(query * scale, key)
            context = ops.matmul(ops.softmax(scores + bias), value)
            context = ops.transpose(context, (0, 2, 1, 3))
        shape = (-1, D) if techniques >= RESIDUAL else (-1, length, D)
        return dense(block.attention.output_dense, ops.reshape(context, shape))

    def feed_forward(block, x):
        layer = block.feed_forward
        if not techniques >= FLAT:
            inner = ops.gelu(layer.intermediate_dense(x), approximate=False)
            return layer.output_dense(inner)
        return ops.reshape(layer(ops.reshape(x, (-1, D))), ops.shape(x))

    def run(input_ids, input_mask, segment_ids):
        length = input_ids.shape[1]
        bias = (1.0 - ops.cast(input_mask, "float32"))[:, None, None, :] * -10_000.0
        tables = encoder.embeddings
        x = ops.take(tables.token_table, input_ids, axis=0) + tables.position_table[:length]
        x = norm(tables.norm, x + ops.take(tables.segment_table, segment_ids, axis=0))
        x = ops.reshape(x, (-1, D)) if techniques >= RESIDUAL else x
        for block in encoder.blocks:
            x = norm(block.attention_norm, x + attend(block, x, bias, length))
            x = norm(block.feed_forward_norm, x + feed_forward(block, x))
        return encoder.pooler(ops.reshape(x, (-1, length, D))[:, 0])

    return tf.function(run, jit_compile="XLA" in techniques)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="base", choices=presets())
    parser.add_argument("--shapes", nargs="+", default=["1x128", "8x128", "8x384"])
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    keras.utils.set_random_seed(0)
    encoder = BertEncoder(preset(arguments.size))
    encoder.build()
    for weight in encoder.weights:  # a bias of zeros may be optimized away
        if weight.name in ("bias", "beta"):
            weight.assign(keras.random.normal(weight.shape, stddev=0.02))
    for shape in arguments.shapes:
        ids = np.random.default_rng(0).integers(5, 30_000, tuple(map(int, shape.split("x"))))
        inputs = [tf.constant(x, "int32") for x in (ids, np.ones_like(ids), np.zeros_like(ids))]
        functions = {name: forward(encoder, frozenset(each)) for name, each in VARIANTS.items()}
        expected = functions[PLAIN](*inputs).numpy()
        for name, function in functions.items():
            function(*inputs)
            output = function(*inputs).numpy()
            assert np.abs(output - expected).max() <= 1e-5 * np.abs(expected).max(), name
        wall, processor = ({name: [] for name in functions} for _ in range(2))
        order = list(functions)
        for _ in range(arguments.rounds):
            random.shuffle(order)
            for name in order:
                start = time.perf_counter(), time.process_time()
                functions[name](*inputs).numpy()
                wall[name].append(time.perf_counter() - start[0])
                processor[name].append(time.process_time() - start[1])
        for name in functions:
            ratios = [np.median(np.divide(t[name], t[PLAIN])) for t in (wall, processor)]
            print(
                f"{arguments.size} {shape:<8}{name:<40}{1000 * np.median(wall[name]):>8.1f} ms"
                f"   / plain {ratios[0]:.3f}   processor time {ratios[1]:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
