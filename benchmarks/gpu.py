"""Measures pretraining steps under the JAX backend of Keras on one GPU: sequences/s, utilisation.

docs/benchmarks/archive/gpu-2026-11.md has results. `--size tiny` runs on any machine. BERT-large is
compared with the figures that NVIDIA published for one A100 of 312 TFLOP/s: 485.6 and 96.5
sequences/s at lengths 128 and 512.

A step is forward pass, backward pass, clipping and AdamW, with dropout, in bfloat16 with float32
weights, as one XLA program. Utilisation is model FLOP/s (`bert_keras.runs.pretrain`) divided
by the published peak. Each row is a process; the rows are measured one after another.

`--compare kernels` adds the same model without the kernels of `bert_keras.layers.jax_kernels`.
`--compare pytorch` adds BertForPreTraining of transformers on the same batches: bfloat16 autocast,
sdpa attention, torch.compile, fused AdamW. "gathered" computes logits at the masked positions
alone, as we do; "every position" is the unchanged model.

    pip install "bert-keras[jax]" "jax[cuda12]"
    python benchmarks/gpu.py --peak-tflops 989      # H100, H200 (SXM), dense
    python benchmarks/gpu.py --peak-tflops 989 --size base --batch-sizes 512 128 --compare pytorch
    python benchmarks/gpu.py --peak-tflops 0.1 --size tiny --batch-sizes 4 2 --compare kernels
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

os.environ["KERAS_BACKEND"] = "jax"
# Without it XLA replaces products of cuBLAS, which add biases and residuals, by its own.
os.environ["XLA_FLAGS"] = "--xla_gpu_enable_triton_gemm=false " + os.environ.get("XLA_FLAGS", "")

from train_batches import (
    LEARNING_RATE,
    MAX_NORM,
    NUM_STEPS,
    NUM_WARMUP_STEPS,
    SEED,
    every_position,
    synthetic_batches,
)

from bert_keras.config import BertConfig
from bert_keras.families import preset, presets
from bert_keras.runs.pretrain import flops_per_example

LENGTHS = (128, 512)
PREDICTIONS = {128: 20, 512: 80}
A100_RATES = {128: 485.6, 512: 96.5}  # sequences/s of BERT-large
A100_PEAK = 312e12  # FLOP/s in bfloat16, dense
TURNS, STEPS = 5, 20
SIDES = {
    "kernels": ("ours, without kernels",),
    "pytorch": ("transformers, gathered", "transformers, every position"),
}
HEADS = ("ms a step", "fastest", "sequences/s", "utilisation", "peak GiB")
HEADS += ("first loss", "last loss")


def jax_side(config: BertConfig, batches: list, *, takes_kernels: bool) -> tuple:
    """Returns the name of the device, and functions for a step, a wait and the peak memory."""
    import jax
    import keras
    from train_optimizer import keras_adamw

    from bert_keras import BertPretrainer, LinearWarmupDecay
    from bert_keras.layers import jax_ops
    from bert_keras.training.losses import pretraining_losses

    if not takes_kernels:
        jax_ops.takes_kernels = lambda *arguments, **options: False
    keras.config.set_dtype_policy("mixed_bfloat16")
    keras.utils.set_random_seed(SEED)
    model, losses = BertPretrainer(config), pretraining_losses()
    schedule = LinearWarmupDecay(
        LEARNING_RATE, num_steps=NUM_STEPS, num_warmup_steps=NUM_WARMUP_STEPS
    )
    optimizer = keras_adamw(schedule)  # XLA fuses this one
    optimizer.build(model.trainable_variables)

    def total_loss(weights, rest, inputs, targets, sample_weights):
        outputs, rest = model.stateless_call(weights, rest, inputs, training=True)
        totals = [
            loss(targets[name], outputs[name], sample_weight=sample_weights[name])
            for name, loss in losses.items()
        ]
        return sum(totals), rest

    @partial(jax.jit, donate_argnums=0)
    def update(state, batch):
        weights, rest, slots = state
        gradient = jax.value_and_grad(total_loss, has_aux=True)
        (loss, rest), gradients = gradient(weights, rest, *batch)
        weights, slots = optimizer.stateless_apply(slots, gradients, weights)
        return loss, (weights, rest, slots)

    groups = model.trainable_variables, model.non_trainable_variables, optimizer.variables
    state = [[variable.value for variable in group] for group in groups]
    batches = jax.device_put(batches)
    device = jax.devices()[0]

    def step(index: int):
        nonlocal state
        loss, state = update(state, batches[index])
        return loss

    def peak() -> int:
        return (device.memory_stats() or {}).get("peak_bytes_in_use", 0)

    return device.device_kind, step, lambda: jax.block_until_ready(state), peak


def torch_side(config: BertConfig, batches: list, *, is_gathered: bool) -> tuple:
    """Returns the same as `jax_side`."""
    import numpy as np
    import torch
    import transformers
    from torch.nn.functional import cross_entropy
    from train_batches import WEIGHT_DECAY
    from train_torch import adamw, model_inputs, pretrainer

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(SEED)
    torch.set_float32_matmul_precision("high")
    model = pretrainer(config).to(device).train()
    optimizer = adamw(model, LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True)
    rates = transformers.get_linear_schedule_with_warmup(optimizer, NUM_WARMUP_STEPS, NUM_STEPS)

    def long(array) -> torch.Tensor:
        return torch.from_numpy(array).long().to(device)

    def tensors(batch) -> dict:
        inputs, targets, weights = batch if is_gathered else every_position(batch)
        arrays = {name: array.to(device) for name, array in model_inputs(inputs).items()}
        arrays["next_sentence_label"] = long(targets["next_sentence"])
        if is_gathered:
            arrays["positions"] = long(inputs["masked_lm_positions"])
        arrays["labels"] = long(np.where(weights["masked_lm"] > 0, targets["masked_lm"], -100))
        return arrays

    def gathered(positions, labels, next_sentence_label, **inputs):
        encoded = model.bert(**inputs)
        rows = torch.arange(len(positions), device=device)[:, None]
        logits = model.cls.predictions(encoded.last_hidden_state[rows, positions])
        pairs = model.cls.seq_relationship(encoded.pooler_output)
        masked_lm = cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
        return masked_lm + cross_entropy(pairs.float(), next_sentence_label)

    compiled = torch.compile(gathered if is_gathered else lambda **batch: model(**batch).loss)
    batches = [tensors(batch) for batch in batches]

    def step(index: int):
        with torch.autocast(device, torch.bfloat16):
            loss = compiled(**batches[index])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        rates.step()
        optimizer.zero_grad()
        return loss.detach()

    if device == "cpu":
        return device, step, lambda: None, lambda: 0
    name = torch.cuda.get_device_name()
    return name, step, torch.cuda.synchronize, torch.cuda.max_memory_allocated


def measure(side: str, config: BertConfig, rows: int, length: int) -> dict:
    """Returns the seconds of a step, the first and last loss and the peak memory."""
    batches = synthetic_batches(config, rows, length, PREDICTIONS[length])
    make: Callable = partial(jax_side, takes_kernels=side == "ours")
    if side.startswith("transformers"):
        make = partial(torch_side, is_gathered=side.endswith("gathered"))
    device, step, wait, peak = make(config, batches)
    losses = [step(index) for index in range(len(batches))]  # compiles and warms up
    wait()
    seconds = []
    for _ in range(TURNS):
        start = time.perf_counter()
        for index in range(STEPS):
            loss = step(index % len(batches))
        wait()
        seconds.append((time.perf_counter() - start) / STEPS)
    results = {"device": device, "losses": [float(losses[0]), float(loss)]}
    return results | {"seconds": seconds, "peak": peak() / 2**30}


def row(side: str, arguments: argparse.Namespace, config, rows: int, length: int) -> str:
    """Measures in a process of its own; returns the row of the table."""
    options = ["--side", side, "--batch-sizes", str(rows), str(length)]
    options += ["--size", arguments.size, "--dropout", str(arguments.dropout)]
    command = [sys.executable, __file__, *options, "--peak-tflops", "0"]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result = json.loads(run.stdout.splitlines()[-1])
    seconds = statistics.median(result["seconds"])
    flops = flops_per_example(config, length, PREDICTIONS[length])
    utilisation = rows / seconds * flops / arguments.peak_tflops / 1e12
    line = f"{f'{rows} x {length}':<11}{side:<30}{1000 * seconds:>12.1f}"
    line += f"{1000 * min(result['seconds']):>12.1f}{rows / seconds:>12.1f}{utilisation:>12.1%}"
    line += f"{result['peak']:>12.1f}" + "".join(f"{loss:>12.3f}" for loss in result["losses"])
    return f"{line}   {result['device']}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peak-tflops", type=float, required=True, help="published, dense, bf16")
    parser.add_argument("--size", default="large", choices=presets())
    parser.add_argument("--batch-sizes", type=int, nargs=2, default=[256, 64], help="at 128, 512")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--compare", nargs="+", default=[], choices=SIDES)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    rates = dict.fromkeys(("hidden_dropout_rate", "attention_dropout_rate"), arguments.dropout)
    config = preset(arguments.size, **rates)
    if arguments.side:
        print(json.dumps(measure(arguments.side, config, *arguments.batch_sizes)))
        return
    print(f"{arguments.size:<41}" + "".join(f"{head:>12}" for head in HEADS))
    for length, rows in zip(LENGTHS, arguments.batch_sizes, strict=True):
        for side in ("ours", *(side for name in arguments.compare for side in SIDES[name])):
            print(row(side, arguments, config, rows, length), flush=True)
        if arguments.size == "large":
            utilisation = A100_RATES[length] * flops_per_example(
                config, length, PREDICTIONS[length]
            )
            print(
                f"published, A100: {A100_RATES[length]} sequences/s, {utilisation / A100_PEAK:.1%}"
            )


if __name__ == "__main__":
    main()
