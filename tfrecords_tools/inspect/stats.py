"""Computes histograms over all records of some files, and prints them as bars for a terminal."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bert_keras.data.records import common_schema
from bert_keras.data.schema import LABEL_FEATURE, WEIGHTS_FEATURE
from bert_keras.progress import progress
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.inspect.check import every_file, is_labelled, parsed_batches
from tfrecords_tools.inspect.verify import verify
from tfrecords_tools.manifest import label_words

BAR_WIDTH = 40
MOST_BARS = 14
LABELS, SHOWN = "labels", "a predicted piece is shown as"
POSITIONS, SEQUENCE_LENGTHS = "position of predictions", "pieces in a sequence"
_OF = {
    LABELS: "sequences",
    SHOWN: "predictions",
    POSITIONS: "predictions",
    SEQUENCE_LENGTHS: "sequences",
}
_EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True)
class Histogram:
    """How often each value 0, 1, 2 ... came, `counts` int64 [N]; `names` where they are no numbers.

    A value is what one of `of` has: {counts[n]} {of} have {n} {title}.
    """

    title: str
    of: str
    counts: np.ndarray
    names: tuple[str, ...] = ()

    def bars(self, most: int = MOST_BARS) -> list[tuple[str, int]]:
        """(name or range, count), at most about `most`: ranges of 1, 2, 5, 10, 20 ... values."""
        if self.names:
            return list(zip(self.names, self.counts.tolist(), strict=True))
        used = np.nonzero(self.counts)[0]
        if not len(used):
            return []
        first, last = int(used[0]), int(used[-1])
        width = next(w for w in _nice_widths() if last // w - first // w < most)
        bars = []
        for start in range(first - first % width, last + 1, width):
            low, high = max(start, first), min(start + width - 1, last)
            name = f"{low}" if low == high else f"{low}-{high}"
            bars.append((name, int(self.counts[start : start + width].sum())))
        return bars

    def summary(self) -> str:
        """One line: title, how many, and the mean where there are numbers."""
        total = int(self.counts.sum())
        if self.names or not total:
            return f"{self.title} ({total:,} {self.of})"
        mean = float(self.counts @ np.arange(len(self.counts))) / total
        return f"{self.title} ({total:,} {self.of}, mean {mean:.1f})"


def _nice_widths():
    factor = 1
    while True:
        yield from (factor, 2 * factor, 5 * factor)
        factor *= 10


def record_histograms(
    records: str | os.PathLike | Sequence[str | os.PathLike], *, vocabulary: Vocabulary
) -> list[Histogram]:
    """What the records look like, all of them read: lengths, predictions, labels, sequences."""
    files = every_file(records)
    schema = common_schema(files)
    totals: dict[str, np.ndarray] = {}
    with progress(stage="read", unit="record") as bar:
        for file in files:
            first = 0
            for features in parsed_batches(file, schema=schema):
                verify(features, file=file, first=first, vocabulary=vocabulary)
                for name, values in _values(features, vocabulary).items():
                    counts = np.bincount(values.ravel())
                    before = totals.get(name, np.zeros(0, np.int64))
                    size = max(len(before), len(counts))
                    totals[name] = np.pad(before, (0, size - len(before))) + np.pad(
                        counts, (0, size - len(counts))
                    )
                first += len(features["input_ids"])
                bar.update(len(features["input_ids"]))
    names = {LABELS: label_words(files[0]), SHOWN: ("[MASK]", "another", "itself")}
    return [
        Histogram(
            title,
            _OF.get(title, "records"),
            np.pad(counts, (0, max(0, len(names.get(title, ())) - len(counts)))),
            names.get(title, ()),
        )
        for title, counts in totals.items()
    ]


def _values(features: dict[str, np.ndarray], vocabulary: Vocabulary) -> dict[str, np.ndarray]:
    """What is counted of a batch, by title."""
    ids = features["input_ids"]
    values = {"pieces in a record": features["input_mask"].sum(axis=1)}
    if "sequence_ids" in features:
        sequences = features["sequence_ids"]
        values["sequences in a record"] = sequences.max(axis=1)
        rows = np.arange(len(ids))[:, None] * (ids.shape[1] + 1)
        lengths = np.bincount((rows + sequences)[sequences > 0])
        values[SEQUENCE_LENGTHS] = lengths[lengths > 0]
    if WEIGHTS_FEATURE in features:
        is_counted, positions = features[WEIGHTS_FEATURE] > 0, features["masked_lm_positions"]
        shown = np.take_along_axis(ids, positions, axis=1)
        is_kept = shown == features["masked_lm_ids"]
        manner = np.where(shown == vocabulary.mask_id, 0, np.where(is_kept, 2, 1))
        values["predictions in a record"] = is_counted.sum(axis=1)
        values[POSITIONS] = positions[is_counted]
        values[SHOWN] = manner[is_counted]
    if LABEL_FEATURE in features:
        values[LABELS] = features[LABEL_FEATURE][is_labelled(features)]
    return values


def text_bars(histogram: Histogram) -> str:
    """The histogram as lines of unicode bars."""
    bars = histogram.bars()
    total = max(sum(count for _, count in bars), 1)
    largest = max((count for _, count in bars), default=1)
    width = max((len(name) for name, _ in bars), default=0)
    lines = [
        f"  {name:>{width}} {_bar(count / largest):<{BAR_WIDTH}} {count / total:>7.2%} {count:>12,}"
        for name, count in bars
    ]
    return "\n".join([histogram.summary(), *lines])


def _bar(share: float) -> str:
    eighths = round(share * BAR_WIDTH * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
