"""Computes histograms over all records of files and formats them as bars for a terminal."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from bert_keras.data.records import common_schema
from bert_keras.data.schema import LABEL_FEATURE, WEIGHTS_FEATURE
from bert_keras.progress import progress
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.inspect.verify import every_file, is_labelled, verified_batches
from tfrecords_tools.manifest import label_names

BAR_WIDTH = 40
MAX_BARS = 14
LABELS, INPUTS = "labels", "input at predicted positions"
POSITIONS, SEQUENCE_LENGTHS = "position of predictions", "tokens in a sequence"
# What is counted, by title; in all other histograms "records".
_COUNTED = {
    LABELS: "sequences",
    INPUTS: "predictions",
    POSITIONS: "predictions",
    SEQUENCE_LENGTHS: "sequences",
}
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


def record_histograms(
    records: str | os.PathLike | Sequence[str | os.PathLike], *, vocabulary: Vocabulary
) -> list[Histogram]:
    """Reads all records and returns histograms of lengths, predictions, labels and sequences."""
    files = every_file(records)
    schema = common_schema(files)
    names = {LABELS: label_names(files[0]), INPUTS: ("[MASK]", "another token", "same token")}
    totals: dict[str, np.ndarray] = {}
    with progress(stage="read", unit="record") as bar:
        for file in files:
            for _, features in verified_batches(file, schema=schema, vocabulary=vocabulary):
                for title, values in _values(features, vocabulary).items():
                    num_values = max(len(totals.get(title, ())), len(names.get(title, ())))
                    counts = np.bincount(values.ravel(), minlength=num_values)
                    if title in totals:
                        counts[: len(totals[title])] += totals[title]
                    totals[title] = counts
                bar.update(len(features["input_ids"]))
    return [
        Histogram(title, _COUNTED.get(title, "records"), counts, names.get(title, ()))
        for title, counts in totals.items()
    ]


def _values(features: dict[str, np.ndarray], vocabulary: Vocabulary) -> dict[str, np.ndarray]:
    """Returns the values of a batch by the title of their histogram."""
    ids = features["input_ids"]
    values = {"tokens in a record": features["input_mask"].sum(axis=1)}
    if "sequence_ids" in features:
        sequences = features["sequence_ids"]
        values["sequences in a record"] = sequences.max(axis=1)
        rows = np.arange(len(ids))[:, None] * (ids.shape[1] + 1)
        lengths = np.bincount((rows + sequences)[sequences > 0])
        values[SEQUENCE_LENGTHS] = lengths[lengths > 0]
    if WEIGHTS_FEATURE in features:
        is_counted, positions = features[WEIGHTS_FEATURE] > 0, features["masked_lm_positions"]
        inputs = np.take_along_axis(ids, positions, axis=1)
        is_kept = inputs == features["masked_lm_ids"]
        kinds = np.where(inputs == vocabulary.mask_id, 0, np.where(is_kept, 2, 1))
        values["predictions in a record"] = is_counted.sum(axis=1)
        values[POSITIONS] = positions[is_counted]
        values[INPUTS] = kinds[is_counted]
    if LABEL_FEATURE in features:
        values[LABELS] = features[LABEL_FEATURE][is_labelled(features)]
    return values


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
