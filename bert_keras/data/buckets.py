"""Groups examples of similar length into batches, so that batches need little padding."""

from collections.abc import Iterator

import numpy as np

# Shuffled examples are sorted by length within pools of this many batches.
BATCHES_PER_POOL = 50


def length_grouped_batches(
    lengths: np.ndarray, *, batch_size: int, seed: int
) -> Iterator[np.ndarray]:
    """Yields shuffled batches of row indices without end; each epoch contains every row once.

    The order of an epoch depends only on (`seed`, number of the epoch), so it is the same in each
    run.

    Args:
        lengths: int [N], the number of tokens of each row.
        batch_size: Rows of a batch; the last batch of an epoch may be smaller.
        seed: Seed of the order.

    Yields:
        The row indices of a batch, int64 [B].
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
    """Returns batches of row indices, int64 [B], that contain every row once, longest rows first.

    If the first batch fits in memory, all later batches fit too.
    """
    rows = np.argsort(-lengths, kind="stable")
    return [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
