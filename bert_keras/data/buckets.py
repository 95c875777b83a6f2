"""Lengths of examples in, batches of like length out: little padding, still shuffled."""

from collections.abc import Iterator

import numpy as np

BATCHES_PER_POOL = 50  # sorted by length within pools of this many batches, random across them


def length_grouped_batches(
    lengths: np.ndarray, *, batch_size: int, seed: int
) -> Iterator[np.ndarray]:
    """Endless batches of row numbers, int64 [B]; each epoch holds every row once.

    The last batch of an epoch may be smaller. Each epoch is drawn anew from (seed, epoch), so the
    order is the same from run to run.
    """
    epoch = 0
    while True:
        random = np.random.default_rng((seed, epoch))
        rows = random.permutation(len(lengths))
        pool = batch_size * BATCHES_PER_POOL
        for start in range(0, len(rows), pool):
            part = rows[start : start + pool]
            rows[start : start + pool] = part[np.argsort(-lengths[part], kind="stable")]
        batches = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
        for number in random.permutation(len(batches)):
            yield batches[number]
        epoch += 1


def longest_first_batches(lengths: np.ndarray, *, batch_size: int) -> list[np.ndarray]:
    """Every row once, those of like length together: what fits in memory at first fits later."""
    rows = np.argsort(-lengths, kind="stable")
    return [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
