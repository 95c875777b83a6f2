"""A corpus comes in; how often each word stands in it, or in a sample of it, goes out.

Memory is bounded. Of a large corpus a sample is read: units spread evenly over it, up to a number
of bytes. Where too many different words turn up, the rarest are forgotten on the way. Neither
depends on the number of processes: units are counted one by one and added in a fixed order.
"""

import os
import pickle
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bert_keras.storage import whole_file
from tfrecords_tools.inputs.corpus import lines_of, units
from tfrecords_tools.inputs.parts import Unit
from tfrecords_tools.inputs.repairs import Repairs
from tfrecords_tools.jobs import Workers
from tfrecords_tools.vocab.word_counts import words_of

WordsOf = Callable[..., Counter[str]]  # of lines, with `lowercase`
SAMPLE_BYTES = 512 << 20
MOST_WORDS = 1_000_000  # about 150 bytes each; then the rarest are forgotten
MOST_LEARNT = 400_000  # the most frequent of them; the trainer takes 1.2 kB for each
UNIT_BYTES = 4 << 20


@dataclass
class WordCounts:
    """`counts` of the words in `bytes_read` of `bytes_total` bytes of files.

    A word may lack up to `forgotten` of its count: what it had when it was among the rarest.
    """

    counts: Counter[str] = field(default_factory=Counter)
    forgotten: int = 0
    bytes_read: int = 0
    bytes_total: int = 0
    repairs: Repairs = field(default_factory=Repairs)

    def add(self, counts: Counter[str], *, forgotten: int = 0) -> None:
        """Adds up, and forgets the rarest words where there are more than `MOST_WORDS`."""
        self.counts.update(counts)
        self.forgotten += forgotten
        if len(self.counts) <= MOST_WORDS:
            return
        numbers = Counter(self.counts.values())
        kept, rarest = len(self.counts), 0
        while kept > MOST_WORDS // 2:
            rarest += 1
            kept -= numbers[rarest]
        self.counts = Counter({word: n for word, n in self.counts.items() if n > rarest})
        self.forgotten += rarest

    def remarks(self) -> list[str]:
        """What was left out, in sentences; none where all of the corpus was counted."""
        found = []
        if self.bytes_read < self.bytes_total:
            found.append(
                f"read {self.bytes_read:,} of {self.bytes_total:,} bytes, spread evenly over the "
                "corpus (of a compressed file longer than that, its beginning)"
            )
        if self.forgotten:
            found.append(
                f"more than {MOST_WORDS:,} different words: those seen at most {self.forgotten:,} "
                "times were forgotten on the way"
            )
        if len(self.counts) > MOST_LEARNT:
            found.append(
                f"learnt from the {MOST_LEARNT:,} most frequent of {len(self.counts):,} different "
                "words"
            )
        return [*found, *self.repairs.remarks()]


def count_words(
    places: Sequence[str | os.PathLike],
    *,
    lowercase: bool,
    words_of: WordsOf = words_of,
    sample_bytes: int = SAMPLE_BYTES,
    workers: int = 1,
    errors: str = "fail",
    text_field: str = "text",
) -> WordCounts:
    """How often each normalised word stands in the corpus, or in the sample that is read of it."""
    corpus = units(places, unit_bytes=UNIT_BYTES, text_field=text_field)
    chosen = sample(corpus, sample_bytes=sample_bytes)
    with tempfile.TemporaryDirectory() as folder, Workers(workers) as processes:
        jobs = [
            CountJob(unit, words_of, lowercase, errors, sample_bytes, Path(folder, str(number)))
            for number, unit in enumerate(chosen)
        ]
        processes.run(jobs, stage="count words", unit="B")
        total = WordCounts(bytes_total=sum(map(_num_bytes, corpus)))
        for job in jobs:
            part: WordCounts = pickle.loads(job.output.read_bytes())
            total.add(part.counts, forgotten=part.forgotten)
            total.bytes_read += part.bytes_read
            total.repairs += part.repairs
    if not total.counts:
        total.repairs.expect_text()
    return total


def sample(corpus: list[Unit], *, sample_bytes: int) -> list[Unit]:
    """Units spread evenly over the corpus, at least one, of `sample_bytes` at most; in its order.

    Multiples of the golden ratio, modulo 1, are spread evenly however many are taken.
    """
    order = sorted(range(len(corpus)), key=lambda number: number * 11400714819323198485 % 2**64)
    chosen, left = [], sample_bytes
    for number in order:
        left -= _num_bytes(corpus[number])
        if left < 0 and chosen:
            break
        chosen.append(number)
    return [corpus[number] for number in sorted(chosen)]


@dataclass(frozen=True)
class CountJob:
    """Leaves the `WordCounts` of a unit; of one longer than `most_bytes`, of that much text."""

    unit: Unit
    words_of: WordsOf
    lowercase: bool
    errors: str
    most_bytes: int
    output: Path

    @property
    def size(self) -> int:
        return _num_bytes(self.unit)

    def __call__(self, advance: Callable[[int], object]) -> None:
        found = WordCounts()
        lines = lines_of(self.unit, repairs=found.repairs, errors=self.errors)
        text_bytes = 0
        for block in _blocks(lines):
            found.add(self.words_of(block, lowercase=self.lowercase))
            text_bytes += sum(len(line.encode()) + 1 for line in block)
            advance(min(text_bytes, self.size) - found.bytes_read)
            found.bytes_read = min(text_bytes, self.size)
            if self.size > self.most_bytes <= text_bytes:
                break
        else:
            advance(self.size - found.bytes_read)
            found.bytes_read = self.size
        with whole_file(self.output) as part:
            part.write_bytes(pickle.dumps(found))


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Lines in lists of about `UNIT_BYTES` characters."""
    block, size = [], 0
    for line in lines:
        block.append(line)
        size += len(line) + 1
        if size >= UNIT_BYTES:
            yield block
            block, size = [], 0
    yield block


def _num_bytes(unit: Unit) -> int:
    return sum(part.num_bytes for part in unit)
