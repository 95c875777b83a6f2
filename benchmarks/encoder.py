"""The encoder's forward pass or one pretraining step, beside KerasHub and PyTorch transformers.

Forward, also beside the plain matrix products of the encoder's own shapes: what share of the
machine's rate the whole encoder reaches.
"""

import argparse
import time

from bert_keras.quiet import import_tensorflow

import_tensorflow()

import keras
import keras_hub
import numpy as np
import tensorflow as tf
import torch
import transformers

from bert_keras.models import BertEncoder, BertPretrainer
from bert_keras.presets import PRESETS, preset
from bert_keras.training.losses import pretraining_losses
from bert_keras.training.optimizer import BertAdamW

NUM_PREDICTIONS = 20
LEARNING_RATE = 1e-4
OURS, PRODUCTS = "bert_keras", "plain products"
FORWARD_SHAPES = ["1x128", "8x128", "1x512", "8x384", "32x128"]
STEP_SHAPES = ["1x128", "8x128"]


def batch(config, rows: int, length: int) -> tuple[dict, dict]:
    random = np.random.default_rng(0)
    x = {
        "input_ids": random.integers(5, config.vocab_size, (rows, length), dtype="int32"),
        "input_mask": np.ones((rows, length), "int32"),
        "segment_ids": np.zeros((rows, length), "int32"),
        "masked_lm_positions": random.integers(1, length, (rows, NUM_PREDICTIONS), dtype="int32"),
    }
    y = {
        "masked_lm": random.integers(5, config.vocab_size, (rows, NUM_PREDICTIONS), dtype="int32"),
        "next_sentence": random.integers(0, 2, rows, dtype="int32"),
    }
    return x, y


def hub_backbone(config) -> keras.Model:
    return keras_hub.models.BertBackbone(
        vocabulary_size=config.vocab_size,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        hidden_dim=config.hidden_size,
        intermediate_dim=config.intermediate_size,
        max_sequence_length=config.max_positions,
    )


def hub_inputs(x: dict) -> dict:
    return {
        "token_ids": x["input_ids"],
        "segment_ids": x["segment_ids"],
        "padding_mask": x["input_mask"],
    }


def torch_model(config) -> torch.nn.Module:
    return transformers.BertForPreTraining(
        transformers.BertConfig(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            num_hidden_layers=config.num_layers,
            num_attention_heads=config.num_heads,
            intermediate_size=config.intermediate_size,
            attn_implementation="sdpa",
        )
    )


def torch_inputs(x: dict) -> dict:
    return {
        "input_ids": torch.tensor(x["input_ids"]).long(),
        "attention_mask": torch.tensor(x["input_mask"]).long(),
        "token_type_ids": torch.tensor(x["segment_ids"]).long(),
    }


def plain_products(config, rows: int):
    """The dense layers' products alone, with weights as many and as large as the encoder's."""
    D, F = config.hidden_size, config.intermediate_size
    shapes = [(D, D)] * 4 + [(D, F), (F, D)]
    kernels = [tf.Variable(tf.random.normal(shape)) for shape in shapes * config.num_layers]
    hidden = {size: tf.random.normal((rows, size)) for size in (D, F)}

    @tf.function
    def run():
        total = tf.constant(0.0)
        for kernel in kernels:
            with tf.control_dependencies([total]):  # one by one, as in the encoder
                total += tf.matmul(hidden[kernel.shape[0]], kernel)[0, 0]
        return total

    return lambda: run().numpy()


def dense_flops(config, rows: int) -> int:
    D, F = config.hidden_size, config.intermediate_size
    return config.num_layers * 2 * rows * (4 * D * D + 2 * D * F)


def attention_flops(config, batch: int, length: int) -> int:
    return config.num_layers * 2 * 2 * batch * length * length * config.hidden_size


def forward_runs(config, x: dict) -> dict:
    ours = BertEncoder(config)
    ours.build()
    ours_function = tf.function(lambda inputs: ours(inputs)["pooled_output"])
    hub = hub_backbone(config)
    hub_function = tf.function(lambda inputs: hub(inputs)["pooled_output"])
    reference = torch_model(config).bert.eval()
    tensors = {name: tf.constant(array) for name, array in x.items()}
    hub_tensors, torch_tensors = hub_inputs(tensors), torch_inputs(x)

    def run_torch():
        with torch.inference_mode():
            reference(**torch_tensors).pooler_output.numpy()

    return {
        OURS: lambda: ours_function(tensors).numpy(),
        "keras_hub": lambda: hub_function(hub_tensors).numpy(),
        "transformers, sdpa": run_torch,
        PRODUCTS: plain_products(config, x["input_ids"].size),
    }


def step_runs(config, x: dict, y: dict) -> dict:
    """KerasHub has no NSP head: its step is of masked LM alone. PyTorch gathers the masked
    positions by hand and uses its fused AdamW; as it comes it projects every position."""
    ours = BertPretrainer(config)
    ours.compile(optimizer=BertAdamW(LEARNING_RATE), loss=pretraining_losses())
    hub = keras_hub.models.BertMaskedLM(backbone=hub_backbone(config), preprocessor=None)
    hub.compile(
        optimizer=keras.optimizers.AdamW(LEARNING_RATE, global_clipnorm=1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    hub_x = {**hub_inputs(x), "mask_positions": x["masked_lm_positions"]}
    reference = torch_model(config).train()
    optimizer = torch.optim.AdamW(reference.parameters(), LEARNING_RATE, fused=True)
    tensors = torch_inputs(x)
    rows = torch.arange(len(x["input_ids"]))[:, None]
    positions = torch.tensor(x["masked_lm_positions"]).long()
    answers, labels = (torch.tensor(y[k]).long() for k in ("masked_lm", "next_sentence"))

    def run_torch():
        outputs = reference.bert(**tensors)
        masked = reference.cls.predictions(outputs.last_hidden_state[rows, positions])
        loss = torch.nn.functional.cross_entropy(masked.flatten(0, 1), answers.flatten())
        pooled = reference.cls.seq_relationship(outputs.pooler_output)
        loss = loss + torch.nn.functional.cross_entropy(pooled, labels)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(reference.parameters(), 1.0)
        optimizer.step()

    return {
        OURS: lambda: ours.train_on_batch(x, y),
        "keras_hub (no NSP)": lambda: hub.train_on_batch(hub_x, y["masked_lm"]),
        "transformers (gathered)": run_torch,
    }


def measure(runs: dict, *, rounds: int) -> dict:
    """Milliseconds of each in `rounds` turns, after two to warm up."""
    times = {name: [] for name in runs}
    for turn in range(rounds + 2):
        for name, run in runs.items():
            time.sleep(0.02)  # threads of the one before, PyTorch's above all, spin for a while
            start = time.perf_counter()
            run()
            if turn >= 2:
                times[name].append(1000 * (time.perf_counter() - start))
    return {name: np.array(values) for name, values in times.items()}


def show(title: str, times: dict) -> None:
    """Medians; the ratio is the median of the turns' ratios, for machines drift."""
    for name, values in times.items():
        print(
            f"{title:<22}{name:<26}{np.median(values):>9.1f} ms   "
            f"{values.min():>8.1f} - {values.max():<8.1f}"
            f"   ours / theirs {np.median(times[OURS] / values):.2f}",
            flush=True,
        )


def show_rate(title: str, times: dict, *, products: int, whole: int) -> None:
    """GFLOP/s of the plain products and of the whole encoder, and their ratio."""
    rates = products / times[PRODUCTS] / 1e6, whole / times[OURS] / 1e6
    print(
        f"{title:<22}GFLOP/s: products {np.median(rates[0]):.0f}, encoder {np.median(rates[1]):.0f}"
        f", share {np.median(rates[1] / rates[0]):.0%}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("forward", "step"))
    parser.add_argument("--size", default="base", choices=PRESETS)
    parser.add_argument("--shapes", nargs="+", help="batch x length, such as 8x128")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    config = preset(arguments.size)
    forward = arguments.what == "forward"
    for shape in arguments.shapes or (FORWARD_SHAPES if forward else STEP_SHAPES):
        rows, length = map(int, shape.split("x"))
        x, y = batch(config, rows, length)
        title = f"{arguments.size} {shape} {arguments.what}"
        runs = forward_runs(config, x) if forward else step_runs(config, x, y)
        times = measure(runs, rounds=arguments.rounds)
        show(title, times)
        if forward:
            dense = dense_flops(config, rows * length)
            whole = dense + attention_flops(config, rows, length)
            show_rate(title, times, products=dense, whole=whole)


if __name__ == "__main__":
    main()
