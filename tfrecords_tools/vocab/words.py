"""Counts the words of a corpus as a tokenizer divides them, in several processes.

The trainers of `tokenizers` can count words themselves, but then the ids, and with them the ties
between equally frequent pairs, differ from run to run, and one process reads the text.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from tokenizers import normalizers
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel
from tqdm import tqdm

from bert_keras.files import StrPath
from bert_keras.text.rules import unigram_steps
from bert_keras.text.tokenizer import MAX_WORD_CHARACTERS, normalizer
from tfrecords_tools.inputs.corpus import lines_of, units
from tfrecords_tools.inputs.decoding import Repairs, Unit, grouped, num_bytes_of
from tfrecords_tools.jobs import Workers

MAX_WORDS = 1_000_000  # about 150 bytes each; with more, the rarest are dropped
MAX_LEARNT_WORDS = 400_000  # the most frequent of them; the trainer takes 1.2 kB for each
UNIT_BYTES = 4 << 20
_BATCH = 1000  # chunks that are normalized together; the normalizer needs 100 bytes for a byte
_REPEATS_PER_TEXT = 1000  # a trainer receives each word in texts of at most this many repeats
_HAN = re.compile("[\u4e00-\u9fff]")  # each is one word, which normalization does not change
# Each ASCII punctuation mark is one word.
_PARTS = re.compile(r"[!-/:-@\[-`{-~]|[^ !-/:-@\[-`{-~]+")

WordsOf = Callable[..., Counter[str]]  # called with lines and `lowercase`


def words_of(lines: Sequence[str], *, lowercase: bool) -> Counter[str]:
    """Counts the words that BERT's tokenizer finds in lines.

    To save time, equal chunks between spaces are counted first, and chunks of equal frequency are
    then normalized together.
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
            batches = (chunks[start : start + _BATCH] for start in range(0, len(chunks), _BATCH))
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


def byte_words_of(lines: Sequence[str], *, lowercase: bool) -> Counter[str]:
    """Counts words with the preceding blank, written in byte-level letters; case is kept."""
    split = ByteLevel(add_prefix_space=False).pre_tokenize_str
    chunks = Counter(part for line in lines for part in re.findall("^[^ ]*| [^ ]*", line))
    return _word_counts(chunks, lambda chunk: [word for word, _ in split(chunk)])


def plain_words_of(lines: Sequence[str], *, lowercase: bool) -> Counter[str]:
    """Counts the words between blanks after the normalization that ALBERT applies."""
    steps = unigram_steps(lowercase=lowercase, keeps_accents=not lowercase)
    normalize = normalizers.Sequence(steps).normalize_str
    chunks = Counter(chain.from_iterable(map(str.split, lines)))
    return _word_counts(chunks, lambda chunk: normalize(chunk).split())


def _word_counts(chunks: Counter[str], split: Callable[[str], list[str]]) -> Counter[str]:
    words: Counter[str] = Counter()
    for chunk, count in chunks.items():
        for word in split(chunk):
            words[word] += count
    return words


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a corpus is read."""

    workers: int = 1  # processes
    errors: str = "fail"  # for lines that are not UTF-8
    text_field: str = "text"  # of JSON lines, parquet and TFDS


def count_words(
    paths: Sequence[StrPath], *, lowercase: bool, words_of: WordsOf, reading: Reading
) -> tuple[Counter[str], list[str]]:
    """Counts the words of a corpus; `words_of` counts those of lines.

    Returns:
        The counts, and a sentence about each kind of words that were dropped or repaired.

    Raises:
        InputError: The corpus contains no text.
    """
    corpus = units(paths, unit_bytes=UNIT_BYTES, text_field=reading.text_field)
    count = partial(_count_unit, words_of=words_of, lowercase=lowercase, errors=reading.errors)
    words, repairs, remarks = Counter(), Repairs(), []
    total = sum(map(num_bytes_of, corpus))
    with (
        Workers(reading.workers) as processes,
        tqdm(desc="count words", unit=" B", unit_scale=True, total=total) as bar,
    ):
        for unit, counted in zip(corpus, processes.map(count, corpus), strict=True):
            words.update(counted[0])
            repairs.add(counted[1])
            if len(words) > MAX_WORDS:
                words = Counter(dict(words.most_common(MAX_WORDS // 2)))
                remarks = [f"dropped the rarest of more than {MAX_WORDS:,} different words"]
            bar.update(num_bytes_of(unit))
    repairs.expect_text()
    return words, remarks + repairs.remarks()


def _count_unit(
    unit: Unit, *, words_of: WordsOf, lowercase: bool, errors: str
) -> tuple[Counter[str], Repairs]:
    words, repairs = Counter(), Repairs()
    lines = lines_of(unit, repairs=repairs, errors=errors)
    for block in grouped(lines, size_of=lambda line: len(line) + 1, most=UNIT_BYTES):
        words.update(words_of(block, lowercase=lowercase))
    return words, repairs


def most_frequent(words: Mapping[str, int]) -> dict[str, int]:
    """Returns the `MAX_LEARNT_WORDS` most frequent words, without words that are too long."""
    words = {word: n for word, n in words.items() if len(word) <= MAX_WORD_CHARACTERS}
    if len(words) <= MAX_LEARNT_WORDS:
        return words
    return dict(sorted(words.items(), key=lambda each: (-each[1], each[0]))[:MAX_LEARNT_WORDS])


def repeated_words(words: Mapping[str, int], bar: tqdm) -> Iterator[str]:
    """Yields each word as often as it was counted, in texts of up to a thousand repeats."""
    for word in sorted(words):
        count = words[word]
        bar.update(count)
        for start in range(0, count, _REPEATS_PER_TEXT):
            yield f"{word} " * min(_REPEATS_PER_TEXT, count - start)
