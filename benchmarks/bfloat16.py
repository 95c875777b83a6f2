"""Compares the processor time of a pretraining step in mixed_bfloat16 and float32 on one thread.

python benchmarks/bfloat16.py base 4
python benchmarks/bfloat16.py modern-mini 32
"""

import statistics
import sys
import time
from functools import partial

import keras
import numpy as np
import tensorflow as tf

from bert_keras import BertPretrainer
from bert_keras.families import preset
from bert_keras.training.losses import pretraining_losses, pretraining_metrics
from bert_keras.training.optimizer import BertAdamW

LENGTH, PREDICTIONS, TURNS, STEPS = 128, 20, 4, 2


def step(policy: str, *, size: str, rows: int):
    """Builds a model under a dtype policy; returns the function that takes a step."""
    keras.config.set_dtype_policy(policy)
    model = BertPretrainer(preset(size, hidden_dropout_rate=0.0, attention_dropout_rate=0.0))
    model.compile(
        optimizer=BertAdamW(1e-4), loss=pretraining_losses(), weighted_metrics=pretraining_metrics()
    )
    ids = np.random.default_rng(0).integers(5, 30_000, (rows, LENGTH)).astype("int32")
    positions = np.tile(np.arange(PREDICTIONS, dtype="int32"), (rows, 1))
    inputs = {
        "input_ids": ids,
        "input_mask": np.ones_like(ids),
        "segment_ids": np.zeros_like(ids),
        "masked_lm_positions": positions,
    }
    targets = {"masked_lm": ids[:, :PREDICTIONS], "next_sentence": np.zeros(rows, "int32")}
    weights = {name: np.ones(array.shape, "float32") for name, array in targets.items()}
    batches = iter(tf.data.Dataset.from_tensors((inputs, targets, weights)).repeat())
    model.make_train_function()
    return partial(model.train_function, batches)


def seconds(take_step) -> float:
    start = time.process_time()
    for _ in range(STEPS):
        take_step()
    return (time.process_time() - start) / STEPS


def main(size: str, rows: str) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    sides = [step(policy, size=size, rows=int(rows)) for policy in ("float32", "mixed_bfloat16")]
    turns = [[seconds(side) for side in sides] for _ in range(TURNS + 1)][1:]  # the first traces
    medians = [statistics.median(turn[side] for turn in turns) for side in (0, 1)]
    ratio = statistics.median(bfloat16 / float32 for float32, bfloat16 in turns)
    print(f"{size}: float32 {medians[0]:.3f} s, bfloat16 {medians[1]:.3f} s, ratio {ratio:.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
