"""Counts the words of a corpus, or of a sample of it, as BERT's tokenizer divides them.

Memory is bounded. Of a large corpus, only units spread evenly over it are read, up to a number of
bytes. If there are too many different words, the rarest are dropped while counting. Neither depends
on the number of processes, because units are counted separately and added in a fixed order.
"""

import os
import pickle
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from tokenizers.pre_tokenizers import BertPreTokenizer

from bert_keras.files import atomic_file
from bert_keras.text.tokenizer import MAX_WORD_CHARACTERS, normalizer
from tfrecords_tools.inputs.corpus import lines_of, units
from tfrecords_tools.inputs.decoding import Repairs
from tfrecords_tools.inputs.parts import Unit, num_bytes_of
from tfrecords_tools.jobs import Workers

_HAN = re.compile("[\u4e00-\u9fff]")  # each is one word, which normalization does not change
_PARTS = re.compile(
    r"[!-/:-@\[-`{-~]|[^ !-/:-@\[-`{-~]+"
)  # each ASCII punctuation mark is one word


def words_of(lines: Sequence[str], *, lowercase: bool) -> Counter[str]:
    """Counts the words that BERT's tokenizer finds in lines.

    Normalization treats each chunk between spaces separately. To save time, equal chunks are
    counted first, and chunks of equal frequency are then normalized together.
    """
    words: Counter[str] = Counter()
    groups: dict[tuple[int, bool], list[str]] = {}
    chunks = Counter(chain.from_iterable(_without_han(line, words).split(" ") for line in lines))
    for chunk, count in chunks.items():
        is_plain = chunk.isascii() and chunk.isprintable()
        groups.setdefault((count, is_plain), []).append(chunk)
    normalize = normalizer(lowercase=lowercase).normalize_str
    split = BertPreTokenizer().pre_tokenize_str
    for (count, is_plain), chunks in groups.items():
        if is_plain:
            joined = " ".join(chunks)
            joined = joined.lower() if lowercase else joined
        else:
            # In batches, because the normalizer needs 100 bytes for each byte of text.
            batches = (chunks[start : start + 1000] for start in range(0, len(chunks), 1000))
            joined = " ".join(normalize(" ".join(batch)) for batch in batches)
        for part, number in Counter(_PARTS.findall(joined)).items():
            if part.isascii() or part.isalpha():
                words[part] += number * count
            else:
                for word, _ in split(part):
                    words[word] += number * count
    return words


def _without_han(line: str, words: Counter[str]) -> str:
    """Counts the Chinese characters of a line in `words` and replaces each by a space."""
    if line.isascii() or not _HAN.search(line):
        return line
    words.update(_HAN.findall(line))
    return _HAN.sub(" ", line)


WordsOf = Callable[..., Counter[str]]  # called with lines and `lowercase`
MAX_WORDS = 1_000_000  # about 150 bytes each; with more, the rarest are dropped
MAX_LEARNT_WORDS = 400_000  # the most frequent of them; the trainer takes 1.2 kB for each
UNIT_BYTES = 4 << 20


@dataclass
class WordCounts:
    """The counts of the words in `bytes_read` of `bytes_total` bytes of files.

    The count of a word may be too small by up to `count_error`, if the word was dropped as one of
    the rarest and occurred again later.
    """

    counts: Counter[str] = field(default_factory=Counter)
    count_error: int = 0
    bytes_read: int = 0
    bytes_total: int = 0
    repairs: Repairs = field(default_factory=Repairs)

    def add(self, counts: Counter[str], *, count_error: int = 0) -> None:
        """Adds counts, and drops the rarest words if there are more than `MAX_WORDS`."""
        self.counts.update(counts)
        self.count_error += count_error
        if len(self.counts) <= MAX_WORDS:
            return
        words_by_count = Counter(self.counts.values())
        num_words, threshold = len(self.counts), 0
        while num_words > MAX_WORDS // 2:
            threshold += 1
            num_words -= words_by_count[threshold]
        self.counts = Counter({word: n for word, n in self.counts.items() if n > threshold})
        self.count_error += threshold

    def remarks(self) -> list[str]:
        """Returns a sentence for each kind of omission; none if the whole corpus was counted."""
        remarks = []
        if self.bytes_read < self.bytes_total:
            remarks.append(
                f"read {self.bytes_read:,} of {self.bytes_total:,} bytes, spread evenly over the "
                "corpus (only the start of a compressed file that is larger than the sample)"
            )
        if self.count_error:
            remarks.append(
                f"the corpus has more than {MAX_WORDS:,} different words; words that occurred at "
                f"most {self.count_error:,} times were dropped"
            )
        if len(self.counts) > MAX_LEARNT_WORDS:
            remarks.append(
                f"learnt from the {MAX_LEARNT_WORDS:,} most frequent of {len(self.counts):,} "
                "different words"
            )
        return [*remarks, *self.repairs.remarks()]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a corpus is read."""

    sample_bytes: int = 512 << 20  # at most
    workers: int = 1  # processes
    errors: str = "fail"  # for lines that are not UTF-8
    text_field: str = "text"  # of JSON lines, parquet and TFDS


def count_words(
    paths: Sequence[str | os.PathLike],
    *,
    lowercase: bool,
    words_of: WordsOf = words_of,
    reading: Reading = Reading(),
) -> WordCounts:
    """Counts the normalized words of a corpus, or of a sample of it.

    Args:
        paths: Files, folders, glob patterns or TFDS builders.
        lowercase: Lower-cases the words.
        words_of: Counts the words of lines.
        reading: How the corpus is read.

    Raises:
        InputError: The corpus contains no text.
    """
    corpus = units(paths, unit_bytes=UNIT_BYTES, text_field=reading.text_field)
    sampled = sample(corpus, sample_bytes=reading.sample_bytes)
    with tempfile.TemporaryDirectory() as folder, Workers(reading.workers) as processes:
        jobs = [
            CountJob(unit, words_of, lowercase, reading, Path(folder, str(number)))
            for number, unit in enumerate(sampled)
        ]
        processes.run(jobs, stage="count words", unit="B")
        total = WordCounts(bytes_total=sum(map(num_bytes_of, corpus)))
        for job in jobs:
            part: WordCounts = pickle.loads(job.output.read_bytes())
            total.add(part.counts, count_error=part.count_error)
            total.bytes_read += part.bytes_read
            total.repairs += part.repairs
    if not total.counts:
        total.repairs.expect_text()
    return total


def sample(corpus: list[Unit], *, sample_bytes: int) -> list[Unit]:
    """Selects units spread evenly over the corpus, at least one and at most `sample_bytes`.

    The units keep the order of the corpus. They are selected by multiples of the golden ratio
    modulo 1, because any number of these is spread evenly.
    """
    order = sorted(range(len(corpus)), key=lambda index: index * 11400714819323198485 % 2**64)
    selected, num_bytes = [], 0
    for index in order:
        num_bytes += num_bytes_of(corpus[index])
        if num_bytes > sample_bytes and selected:
            break
        selected.append(index)
    return [corpus[index] for index in sorted(selected)]


@dataclass(frozen=True)
class CountJob:
    """A job that writes the `WordCounts` of a unit, or of its first part.

    A unit that is larger than the sample is read only up to the size of the sample.
    """

    unit: Unit
    words_of: WordsOf
    lowercase: bool
    reading: Reading
    output: Path

    @property
    def size(self) -> int:
        return num_bytes_of(self.unit)

    def __call__(self, advance: Callable[[int], object]) -> None:
        counts = WordCounts()
        lines = lines_of(self.unit, repairs=counts.repairs, errors=self.reading.errors)
        text_bytes = 0
        for block in _blocks(lines):
            counts.add(self.words_of(block, lowercase=self.lowercase))
            num_bytes = sum(len(line.encode()) + 1 for line in block)
            text_bytes += num_bytes
            advance(num_bytes)
            if self.size > self.reading.sample_bytes <= text_bytes:
                counts.bytes_read = min(text_bytes, self.size)
                break
        else:
            counts.bytes_read = self.size
        with atomic_file(self.output) as part:
            part.write_bytes(pickle.dumps(counts))


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yields lists of lines with about `UNIT_BYTES` characters each."""
    block, size = [], 0
    for line in lines:
        block.append(line)
        size += len(line) + 1
        if size >= UNIT_BYTES:
            yield block
            block, size = [], 0
    yield block


MIN_COUNT = 2  # characters and pairs that occur once are not learnt
# The trainer receives each word in texts of at most this many repeats.
REPEATS_PER_TEXT = 1000


def most_frequent(words: Mapping[str, int]) -> dict[str, int]:
    """Returns the `MAX_LEARNT_WORDS` most frequent words, without words that are too long."""
    words = {word: n for word, n in words.items() if len(word) <= MAX_WORD_CHARACTERS}
    if len(words) <= MAX_LEARNT_WORDS:
        return words
    return dict(sorted(words.items(), key=lambda each: (-each[1], each[0]))[:MAX_LEARNT_WORDS])


def repeated_words(words: Mapping[str, int], bar) -> Iterator[str]:
    """Yields each word as often as it was counted, in texts of up to `REPEATS_PER_TEXT`."""
    for word in sorted(words):
        count = words[word]
        bar.update(count)
        for start in range(0, count, REPEATS_PER_TEXT):
            yield f"{word} " * min(REPEATS_PER_TEXT, count - start)
