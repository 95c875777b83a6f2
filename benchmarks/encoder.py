"""Compares the forward pass of the encoder with KerasHub and transformers (PyTorch).

It is also compared with the plain matrix products of the encoder's shapes, which gives the share of
the machine's rate that the whole encoder reaches.
"""

import argparse
import time

import numpy as np
import tensorflow as tf
import torch
from train_batches import synthetic_batches
from train_keras import hub_backbone, hub_inputs
from train_torch import model_inputs, pretrainer

from bert_keras import BertEncoder
from bert_keras.families import preset, presets
from bert_keras.runs.pretrain import flops_per_example

NUM_PREDICTIONS = 20
OURS, PRODUCTS = "bert_keras", "plain products"
SHAPES = ["1x128", "8x128", "1x512", "8x384", "32x128"]


def plain_products(config, rows: int):
    """Returns the products of the dense layers alone, with as many weights of the same shapes."""
    D, F = config.hidden_size, config.intermediate_size
    shapes = [(D, D)] * 4 + [(D, F), (F, D)]
    kernels = [
        tf.Variable(tf.random.stateless_normal(shape, (1, 2)))
        for shape in shapes * config.num_layers
    ]
    hidden = {size: tf.random.stateless_normal((rows, size), (1, 2)) for size in (D, F)}

    @tf.function
    def run():
        total = tf.constant(0.0)
        for kernel in kernels:
            with tf.control_dependencies([total]):  # one after the other, as in the encoder
                total += tf.matmul(hidden[kernel.shape[0]], kernel)[0, 0]
        return total

    return lambda: run().numpy()


def dense_flops(config, rows: int) -> int:
    D, F = config.hidden_size, config.intermediate_size
    return config.num_layers * 2 * rows * (4 * D * D + 2 * D * F)


def runs_of(config, x: dict) -> dict:
    ours = BertEncoder(config)
    ours.build()
    ours_function = tf.function(lambda inputs: ours(inputs)["pooled_output"])
    hub = hub_backbone(config)
    hub_function = tf.function(lambda inputs: hub(inputs)["pooled_output"])
    reference = pretrainer(config).bert.eval()
    tensors = {name: tf.constant(array) for name, array in x.items()}
    hub_tensors, torch_tensors = hub_inputs(tensors), model_inputs(x)

    def run_torch():
        with torch.inference_mode():
            reference(**torch_tensors).pooler_output.numpy()

    return {
        OURS: lambda: ours_function(tensors).numpy(),
        "keras_hub": lambda: hub_function(hub_tensors).numpy(),
        "transformers, sdpa": run_torch,
        PRODUCTS: plain_products(config, x["input_ids"].size),
    }


def measure(runs: dict, *, rounds: int) -> dict:
    """Returns the milliseconds of each run in `rounds` turns, after two turns of warm-up."""
    times = {name: [] for name in runs}
    for turn in range(rounds + 2):
        for name, run in runs.items():
            time.sleep(0.02)  # threads of the preceding run, mostly PyTorch's, still spin
            start = time.perf_counter()
            run()
            if turn >= 2:
                times[name].append(1000 * (time.perf_counter() - start))
    return {name: np.array(values) for name, values in times.items()}


def show(title: str, times: dict) -> None:
    """Prints medians; a ratio is the median over the turns, because machines change their speed."""
    for name, values in times.items():
        print(
            f"{title:<14}{name:<26}{np.median(values):>9.1f} ms   "
            f"{values.min():>8.1f} - {values.max():<8.1f}"
            f"   ours / theirs {np.median(times[OURS] / values):.2f}",
            flush=True,
        )


def show_rate(title: str, times: dict, *, products: int, encoder_flops: int) -> None:
    """Prints the GFLOP/s of the plain products and of the whole encoder, and their ratio."""
    rates = products / times[PRODUCTS] / 1e6, encoder_flops / times[OURS] / 1e6
    print(
        f"{title:<14}GFLOP/s: products {np.median(rates[0]):.0f}, encoder {np.median(rates[1]):.0f}"
        f", ratio {np.median(rates[1] / rates[0]):.0%}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="base", choices=presets())
    parser.add_argument("--shapes", nargs="+", default=SHAPES, help="batch x length, such as 8x128")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    config = preset(arguments.size)
    for shape in arguments.shapes:
        rows, length = map(int, shape.split("x"))
        inputs, _, _ = synthetic_batches(config, rows, length, NUM_PREDICTIONS)[0]
        times = measure(runs_of(config, inputs), rounds=arguments.rounds)
        title = f"{arguments.size} {shape}"
        show(title, times)
        products = dense_flops(config, rows * length)
        encoder_flops = rows * flops_per_example(config, length, 0) // 3  # the forward pass only
        show_rate(title, times, products=products, encoder_flops=encoder_flops)


if __name__ == "__main__":
    main()
