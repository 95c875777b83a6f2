"""Groups examples of similar length into batches, so that batches need little padding."""

import itertools
from collections.abc import Iterator

import numpy as np

# Shuffled examples are sorted by length within pools of this many batches.
BATCHES_PER_POOL = 50
FEWEST_COLUMNS = 16  # of a batch with JAX


def num_columns(longest: int, most: int) -> int:
    """Returns the columns of a batch whose longest row has `longest` tokens.

    XLA compiles each shape, so with JAX it is a power of two, but not above `most`.
    """
    import keras

    if keras.config.backend() != "jax":
        return longest
    return min(most, max(FEWEST_COLUMNS, 1 << (longest - 1).bit_length()))


def length_grouped_batches(
    lengths: np.ndarray, *, batch_size: int, seed: int
) -> Iterator[np.ndarray]:
    """Yields shuffled batches of row indices, int64 [B], without end, every row once an epoch.

    The order of an epoch depends only on the seed and the number of the epoch. `lengths`, int [N],
    are the numbers of tokens. The last batch of an epoch may be smaller.
    """
    for epoch in itertools.count():
        random = np.random.default_rng((seed, epoch))
        rows = np.concatenate(_sorted_pools(lengths, batch_size=batch_size, random=random))
        batches = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
        for number in random.permutation(len(batches)):
            yield batches[number]


def distinct_batches(
    lengths: np.ndarray, texts_NG: np.ndarray, *, batch_size: int, seed: int
) -> Iterator[np.ndarray]:
    """Same as `length_grouped_batches`, but no two rows of a batch have a text in common.

    A row that has a text in common with a batch moves to a later batch. Batches that this leaves
    incomplete get rows of the next pool, or end the epoch incomplete. An epoch therefore has more
    batches if a text occurs in more rows than there are batches.

    Args:
        lengths: Number of tokens of each row, int [N].
        texts_NG: The numbers of the texts of each row.
        batch_size: Most rows of a batch.
        seed: Seed of the order.
    """
    for epoch in itertools.count():
        random = np.random.default_rng((seed, epoch))
        batches, incomplete = [], np.zeros(0, np.int64)
        for pool in _sorted_pools(lengths, batch_size=batch_size, random=random):
            rows = np.concatenate([incomplete, pool])
            rows = rows[np.argsort(-lengths[rows], kind="stable")]
            parts = _distinct_parts(rows, texts_NG, batch_size=batch_size)
            batches += [part for part in parts if len(part) == batch_size]
            rest = [part for part in parts if len(part) < batch_size]
            incomplete = np.array([row for part in rest for row in part], np.int64)
        batches += _distinct_parts(incomplete, texts_NG, batch_size=batch_size)
        for number in random.permutation(len(batches)):
            yield np.array(batches[number])


def _sorted_pools(
    lengths: np.ndarray, *, batch_size: int, random: np.random.Generator
) -> list[np.ndarray]:
    """Divides shuffled rows into pools, and sorts each pool by length, longest rows first."""
    rows = random.permutation(len(lengths))
    size = batch_size * BATCHES_PER_POOL
    pools = [rows[start : start + size] for start in range(0, len(rows), size)]
    return [pool[np.argsort(-lengths[pool], kind="stable")] for pool in pools]


def _distinct_parts(rows: np.ndarray, texts_NG: np.ndarray, *, batch_size: int) -> list[list[int]]:
    """Divides rows into batches of rows without common texts, in order as far as possible."""
    batches: list[list[int]] = []
    next_batch: dict[int, int] = {}  # of each text, one past the last batch that contains it
    first = 0  # the first batch that is not full
    for row, texts in zip(rows.tolist(), texts_NG[rows].tolist(), strict=True):
        number = max(first, *(next_batch.get(text, 0) for text in texts))
        while number < len(batches) and len(batches[number]) == batch_size:
            number += 1
        if number == len(batches):
            batches.append([])
        batches[number].append(row)
        next_batch.update(dict.fromkeys(texts, number + 1))
        while first < len(batches) and len(batches[first]) == batch_size:
            first += 1
    return batches


def longest_first_batches(lengths: np.ndarray, *, batch_size: int) -> list[np.ndarray]:
    """Returns batches of row indices, int64 [B], that contain every row once, longest rows first.

    If the first batch fits in memory, all later batches fit too.
    """
    rows = np.argsort(-lengths, kind="stable")
    return [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
