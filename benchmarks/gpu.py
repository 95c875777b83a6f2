"""Measures pretraining steps under the JAX backend of Keras on one GPU: sequences/s, utilisation.

It was not run on a GPU yet; `--size tiny` runs on any machine. The results are compared with the
figures that NVIDIA published for BERT-large on one A100 of 312 TFLOP/s: 485.6 and 96.5 sequences/s
at lengths 128 and 512.

A step is forward pass, backward pass, clipping and AdamW, with dropout, in bfloat16 with float32
weights, as one XLA program. Utilisation is model FLOP/s
(`bert_keras.training.performance`) divided by the published peak.

    pip install "bert-keras[jax]" "jax[cuda12]"
    KERAS_BACKEND=jax python benchmarks/gpu.py --peak-tflops 989      # H100, H200 (SXM), dense
    KERAS_BACKEND=jax python benchmarks/gpu.py --peak-tflops 0.1 --size tiny --batch-sizes 4 2
"""

import argparse
import os
import statistics
import time
from functools import partial

os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras
from train_batches import LEARNING_RATE, NUM_STEPS, NUM_WARMUP_STEPS, SEED, synthetic_batches
from train_optimizer import keras_adamw

from bert_keras.config import BertConfig
from bert_keras.families import preset, presets
from bert_keras.models import BertPretrainer
from bert_keras.training.losses import pretraining_losses
from bert_keras.training.performance import flops_per_example
from bert_keras.training.schedule import LinearWarmupDecay

LENGTHS = (128, 512)
PREDICTIONS = {128: 20, 512: 80}
A100_RATES = {128: 485.6, 512: 96.5}  # sequences/s of BERT-large
A100_PEAK = 312e12  # FLOP/s in bfloat16, dense
TURNS, STEPS = 5, 10


def training(config: BertConfig):
    """Returns the initial state and a function `step(state, batch)` -> (loss, state)."""
    keras.utils.set_random_seed(SEED)
    model, losses = BertPretrainer(config), pretraining_losses()
    schedule = LinearWarmupDecay(
        LEARNING_RATE, num_steps=NUM_STEPS, num_warmup_steps=NUM_WARMUP_STEPS
    )
    optimizer = keras_adamw(schedule)  # BertAdamW needs TensorFlow; XLA fuses this one
    optimizer.build(model.trainable_variables)

    def total_loss(weights, rest, inputs, targets, sample_weights):
        outputs, rest = model.stateless_call(weights, rest, inputs, training=True)
        totals = [
            loss(targets[name], outputs[name], sample_weight=sample_weights[name])
            for name, loss in losses.items()
        ]
        return sum(totals), rest

    @partial(jax.jit, donate_argnums=0)
    def step(state, batch):
        weights, rest, slots = state
        gradient = jax.value_and_grad(total_loss, has_aux=True)
        (loss, rest), gradients = gradient(weights, rest, *batch)
        weights, slots = optimizer.stateless_apply(slots, gradients, weights)
        return loss, (weights, rest, slots)

    variables = model.trainable_variables, model.non_trainable_variables, optimizer.variables
    return tuple([variable.value for variable in group] for group in variables), step


def measure(config: BertConfig, rows: int, length: int) -> tuple[float, float]:
    """Returns the median seconds of a step and the last loss."""
    batches = jax.device_put(synthetic_batches(config, rows, length, PREDICTIONS[length]))
    state, step = training(config)
    for batch in batches:  # compiles and warms up
        loss, state = step(state, batch)
    jax.block_until_ready(state)
    seconds = []
    for _ in range(TURNS):
        start = time.perf_counter()
        for index in range(STEPS):
            loss, state = step(state, batches[index % len(batches)])
        jax.block_until_ready(state)
        seconds.append((time.perf_counter() - start) / STEPS)
    return statistics.median(seconds), float(loss)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peak-tflops", type=float, required=True, help="published, dense, bf16")
    parser.add_argument("--size", default="large", choices=presets())
    parser.add_argument("--batch-sizes", type=int, nargs=2, default=[128, 32], help="at 128, 512")
    parser.add_argument("--dropout", type=float, default=0.1)
    arguments = parser.parse_args()
    keras.config.set_dtype_policy("mixed_bfloat16")
    rates = dict.fromkeys(("hidden_dropout_rate", "attention_dropout_rate"), arguments.dropout)
    config = preset(arguments.size, **rates)
    print(f"{arguments.size} on {jax.devices()[0].device_kind}, JAX {jax.__version__}")
    heads = ("ms a step", "sequences/s", "utilisation", "last loss", "published", "ratio", "its")
    print(f"{'':<12}" + "".join(f"{head:>13}" for head in heads))
    for length, rows in zip(LENGTHS, arguments.batch_sizes, strict=True):
        seconds, loss = measure(config, rows, length)
        flops, rate = flops_per_example(config, length, PREDICTIONS[length]), rows / seconds
        line = f"{f'{rows} x {length}':<12}{1000 * seconds:>13.1f}{rate:>13.1f}"
        line += f"{rate * flops / arguments.peak_tflops / 1e12:>13.1%}{loss:>13.3f}"
        if arguments.size == "large":
            published = A100_RATES[length]
            line += f"{published:>13.1f}{rate / published:>13.2f}"
            line += f"{published * flops / A100_PEAK:>13.1%}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
