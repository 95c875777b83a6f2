"""Long work shows itself: one progress bar with a rate, on stderr, for every stage of the house."""

import sys
from collections.abc import Iterable

from tqdm import tqdm


def progress(
    items: Iterable | None = None, *, stage: str, unit: str, total: float | None = None
) -> tqdm:
    """A bar that wraps `items`, or counts by hand with `.update(n)`. Quiet logs get few lines."""
    return tqdm(
        items,
        desc=f"{stage:<24}",
        unit=f" {unit}",
        total=total,
        unit_scale=True,
        dynamic_ncols=True,
        mininterval=0.2 if sys.stderr.isatty() else 10,
    )
