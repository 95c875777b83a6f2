"""Sizes of sequences come in; the records that several of them share, nearly full, go out."""

import numpy as np


def filled_rows(
    sizes: np.ndarray, *, length: int, most: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An order of the sequences, int [N], and in that order the row and column of each.

    A row takes the largest sequence that is left, then the largest that still fits, up to `most`.
    The rows, and the sequences of a row, stand in an order drawn by chance.
    """
    waiting: list[list[int]] = [[] for _ in range(length + 1)]
    for number, size in enumerate(sizes.tolist()):
        waiting[size].append(number)
    present = sum(1 << size for size, numbers in enumerate(waiting) if numbers)
    rows: list[list[int]] = []
    while present:
        row, room = [], length
        while len(row) < most and (fitting := present & ((2 << room) - 1)):
            size = fitting.bit_length() - 1
            row.append(waiting[size].pop())
            room -= size
            if not waiting[size]:
                present ^= 1 << size
        rows.append(row)
    rows = [rows[number] for number in generator.permutation(len(rows)).tolist()]
    counts = np.array([len(row) for row in rows])
    row_of = np.repeat(np.arange(len(rows)), counts)
    order = np.array([number for row in rows for number in row])
    order = order[np.lexsort((generator.random(len(order)), row_of))]
    ends = np.cumsum(sizes[order])
    begins = ends - sizes[order]
    return order, row_of, begins - begins[np.searchsorted(row_of, row_of)]
