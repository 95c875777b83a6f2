"""Creates random batches, shaped like records, for all sides of train.py and gpu.py."""

from dataclasses import dataclass

import numpy as np

from bert_keras.config import BertConfig

LEARNING_RATE, WEIGHT_DECAY, MAX_NORM = 1e-4, 0.01, 1.0
NUM_STEPS, NUM_WARMUP_STEPS = 10_000, 1_000  # of the schedule; more than are run
NUM_BATCHES = 8  # which are repeated
SHORT_RATE = 0.1  # as in records, of which a tenth are short
SEED = 1

Batch = tuple[dict, dict, dict]  # inputs, targets, their weights


@dataclass(frozen=True, kw_only=True)
class Work:
    config: BertConfig
    batches: list[Batch]
    steps: int  # of a turn


def synthetic_batches(config: BertConfig, rows: int, length: int, predictions: int) -> list[Batch]:
    random = np.random.default_rng(SEED)

    def batch() -> Batch:
        short = random.random(rows) < SHORT_RATE
        lengths = np.where(short, random.integers(length // 4, length, rows), length)
        mask = np.arange(length) < lengths[:, None]
        starts_B = random.integers(2, lengths - 1)  # of B
        counts = np.clip(np.round(0.15 * lengths), 1, predictions)
        real = np.arange(predictions) < counts[:, None]
        chosen = [1 + random.permutation(count - 1)[:predictions] for count in lengths]
        inputs = {
            "input_ids": random.integers(5, config.vocab_size, (rows, length)) * mask,
            "input_mask": mask,
            "segment_ids": (np.arange(length) >= starts_B[:, None]) & mask,
            "masked_lm_positions": np.stack([np.resize(p, predictions) for p in chosen]) * real,
        }
        targets = {
            "masked_lm": random.integers(5, config.vocab_size, (rows, predictions)) * real,
            "next_sentence": random.integers(0, 2, rows),
        }
        weights = {"masked_lm": real, "next_sentence": np.ones(rows)}
        return _as(inputs, "int32"), _as(targets, "int32"), _as(weights, "float32")

    return [batch() for _ in range(NUM_BATCHES)]


def every_position(batch: Batch) -> Batch:
    """Returns a batch that predicts all positions; those without a target have weight 0."""
    inputs, targets, weights = batch
    shape = rows, length = inputs["input_ids"].shape
    indices = np.arange(rows)[:, None], inputs["masked_lm_positions"]
    ids, weight = np.zeros(shape, "int32"), np.zeros(shape, "float32")
    ids[indices], weight[indices] = targets["masked_lm"], weights["masked_lm"]
    ids[:, 0] = weight[:, 0] = 0  # removes the values of unused slots
    positions = np.tile(np.arange(length, dtype="int32"), (rows, 1))
    return (
        {**inputs, "masked_lm_positions": positions},
        {**targets, "masked_lm": ids},
        {**weights, "masked_lm": weight},
    )


def _as(arrays: dict, dtype: str) -> dict:
    return {name: array.astype(dtype) for name, array in arrays.items()}
