"""Formats histograms as bars for a terminal."""

from dataclasses import dataclass
from itertools import count

import numpy as np

BAR_WIDTH = 40
MAX_BARS = 14
_EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True)
class Histogram:
    """The frequencies of the values 0, 1, 2 ...: {counts[n]} {of} have {n} {title}."""

    title: str
    of: str  # the things that have a value, such as "sequences"
    counts: np.ndarray  # int64 [N]
    names: tuple[str, ...] = ()  # of the values, if they are not numbers

    def bars(self, max_bars: int = MAX_BARS) -> list[tuple[str, int]]:
        """Returns about `max_bars` pairs (name, count); ranges have 1, 2, 5, 10 ... values."""
        if self.names:
            return list(zip(self.names, self.counts.tolist(), strict=True))
        used = np.nonzero(self.counts)[0]
        if not len(used):
            return []
        first, last = int(used[0]), int(used[-1])
        widths = (step * 10**power for power in count() for step in (1, 2, 5))
        width = next(w for w in widths if last // w - first // w < max_bars)
        bars = []
        for start in range(first - first % width, last + 1, width):
            low, high = max(start, first), min(start + width - 1, last)
            name = f"{low}" if low == high else f"{low}-{high}"
            bars.append((name, int(self.counts[start : start + width].sum())))
        return bars

    def summary(self) -> str:
        """Returns a line with the title, the total count and, for numbers, the mean."""
        total = int(self.counts.sum())
        if self.names or not total:
            return f"{self.title} ({total:,} {self.of})"
        mean = float(self.counts @ np.arange(len(self.counts))) / total
        return f"{self.title} ({total:,} {self.of}, mean {mean:.1f})"


def text_bars(histogram: Histogram) -> str:
    """Returns a histogram as lines of Unicode bars."""
    bars = histogram.bars()
    total = max(sum(count for _, count in bars), 1)
    largest = max((count for _, count in bars), default=1)
    width = max((len(name) for name, _ in bars), default=0)
    lines = [
        f"  {name:>{width}} {_bar(count / largest):<{BAR_WIDTH}} {count / total:>7.2%} {count:>12,}"
        for name, count in bars
    ]
    return "\n".join([histogram.summary(), *lines])


def _bar(fraction: float) -> str:
    eighths = round(fraction * BAR_WIDTH * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
