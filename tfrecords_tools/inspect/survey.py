"""Surveys a corpus, or an even sample of it: counts of its text, and of the records to expect."""

import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from bert_keras.progress import progress
from bert_keras.text.fast_tokenizer import tokenizer_of
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.inputs.corpus import lines_of, units
from tfrecords_tools.inputs.decoding import Repairs
from tfrecords_tools.inputs.parts import Unit, num_bytes_of
from tfrecords_tools.inspect.forecast import Forecast, forecast, original_forecast
from tfrecords_tools.inspect.repeats import Repeats
from tfrecords_tools.records.objectives import OBJECTIVES
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.text.store import TokenStore, TokenWriter, piece_dtype
from tfrecords_tools.text.tokens import cut_to_fit, sentences_of

SAMPLE_BYTES = 32 << 20  # about ten seconds
UNIT_BYTES = 8 << 20
PLACES = 32  # of a large corpus that are looked at
TOGETHER = 1 << 17  # characters that are tokenised at once
OTHER_CASE_EVERY = 8  # of these, one is tokenised in the other case too
SHORTEST_REPEAT = 20  # characters; a line such as "Yes." or "* * *" comes again in any text
NUM_EXAMPLES = 5  # sentences with [UNK], of those that are tokenised together

_MARKUP = re.compile(
    r"</?[A-Za-z][A-Za-z0-9]*(?:\s[^<>]*)?/?>|&(?:[a-z]{2,8}|#\d{2,5});"
    r"|\[\[|\]\]|\{\{|\}\}|^=+ .* =+$"
)
# UTF-8 that was once read as Latin-1 or Windows-1252 and written again; bytes not understood.
_MISREAD = re.compile("[ÂÃ][\x80-\xbf]|â[\x80-\x9f€][\x80-\xbf™œ\x9d“”˜¦]|\ufffd")
_NOT_LETTERS = re.compile(r"[\W\d_]+")
_ENDS = re.compile(r"[.!?:;…。！？][\"'”’»)\]]*$")


@dataclass
class Survey:
    """Counts are of what was read: the whole corpus, or `PLACES` spread evenly over it."""

    settings: BuildSettings
    vocabulary: Vocabulary | None
    num_bytes: int  # of the corpus, as it lies on disk
    is_compressed: bool
    is_whole: bool
    repairs: Repairs = field(default_factory=Repairs)
    lines: int = 0
    characters: int = 0
    text_bytes: int = 0
    letters: int = 0
    lines_with_markup: int = 0
    lines_misread: int = 0
    lines_wrapped: int = 0  # a sentence goes on in the next line, as in a text of fixed width
    line_repeats: Repeats = field(default_factory=Repeats)
    document_sentences: list[int] = field(default_factory=list)
    documents_cut: int = 0  # because the sample was long enough
    longest_document: int = 0  # characters
    sentence_pieces: Counter[int] = field(default_factory=Counter)  # how many have how many
    unknown: int = 0
    unknown_words: Counter[str] = field(default_factory=Counter)
    unknown_in_case: Counter[str] = field(default_factory=Counter)  # of some, in either case
    forecasts: dict[str, Forecast] = field(default_factory=dict)

    @property
    def longest(self) -> int:
        """Pieces of a sentence that fits into a record."""
        specials = self.vocabulary.num_specials(2) if self.vocabulary else 3
        return self.settings.max_length - specials

    @property
    def pieces(self) -> int:
        return sum(length * count for length, count in self.sentence_pieces.items())


def survey(
    places: Sequence[str | os.PathLike],
    *,
    vocabulary: Vocabulary | None,
    settings: BuildSettings,
    sample_bytes: int = SAMPLE_BYTES,
) -> Survey:
    """Reads about `sample_bytes`, or all if there is not more; without a vocabulary no pieces.

    Raises InputError where there is no text at all, or a file is none.
    """
    if vocabulary:
        settings = settings.for_vocabulary(vocabulary)
    corpus = units(places, unit_bytes=UNIT_BYTES, text_field=settings.text_field)
    num_bytes = sum(map(num_bytes_of, corpus))
    found = Survey(
        settings,
        vocabulary,
        num_bytes,
        is_compressed=any(
            part.compression or part.format == "parquet" for u in corpus for part in u
        ),
        is_whole=num_bytes <= sample_bytes,
    )
    chosen = corpus if found.is_whole else _spread(corpus, PLACES)
    with (
        tempfile.TemporaryDirectory(prefix="bert-tfrecords-") as folder,
        progress(stage="look", unit="B", total=min(num_bytes, sample_bytes)) as bar,
        TokenWriter(folder, dtype=piece_dtype(len(vocabulary or ()))) as writer,
    ):
        reader = _Reader(found, _Pieces(found, vocabulary, writer) if vocabulary else None)
        for unit in chosen:
            lines = lines_of(unit, repairs=found.repairs, errors="replace")
            reader.read(
                lines, most=None if found.is_whole else sample_bytes // len(chosen), bar=bar
            )
        if not found.lines:
            found.repairs.expect_text()
        writer.close()
        if vocabulary:
            found.forecasts = _forecasts(folder, settings, vocabulary)
    return found


def _spread(corpus: list[Unit], count: int) -> list[Unit]:
    """At most `count` units, at even distances."""
    return [corpus[n] for n in sorted({round(n) for n in np.linspace(0, len(corpus) - 1, count)})]


def _forecasts(folder: str, settings: BuildSettings, vocabulary: Vocabulary) -> dict[str, Forecast]:
    """By objective; "the original" is its next sentence prediction, of WordPiece alone."""
    store = TokenStore(folder, dtype=piece_dtype(len(vocabulary)))
    forecasts, separators = {}, vocabulary.specials.num_separators
    if store.num_documents > 1 and not vocabulary.rules:
        forecasts["the original"] = original_forecast(store, settings)
    for name in OBJECTIVES:
        if store.num_documents > (name == "nsp"):
            forecasts[name] = forecast(store, settings, objective=name, num_separators=separators)
    return forecasts


class _Reader:
    """Counts lines in a survey, and their pieces where there is a vocabulary."""

    def __init__(self, found: Survey, pieces: "_Pieces | None"):
        self._found = found
        self._pieces = pieces
        self._split = sentences_of(found.settings.splitter, found.vocabulary)
        self._texts: list[str] = []
        self._opens: list[bool] = []
        self._line_numbers: list[bytes] = []
        self._size = 0

    def read(self, lines: Iterable[str], *, most: int | None, bar) -> None:
        """Whole documents, until `most` characters were read; one longer than that is cut there."""
        before, characters, num_sentences, last = "", 0, 0, self._found.characters
        for line in lines:
            if line:
                self._note(line, before)
                texts = self._split(line)
                self._texts += texts
                self._opens += [num_sentences == 0, *[False] * (len(texts) - 1)][: len(texts)]
                num_sentences += len(texts)
                characters += len(line)
                self._size += len(line)
                if self._size > TOGETHER:
                    bar.update(self._flush())
            is_enough = most is not None and self._found.characters - last >= most
            if num_sentences and (is_enough or not line):
                self._found.document_sentences.append(num_sentences)
                self._found.documents_cut += bool(line)
                self._found.longest_document = max(self._found.longest_document, characters)
                characters = num_sentences = 0
            if is_enough:
                break
            before = line
        bar.update(self._flush())

    def _note(self, line: str, before: str) -> None:
        found = self._found
        found.lines += 1
        found.characters += len(line)
        found.letters += len(_NOT_LETTERS.sub("", line))
        found.lines_with_markup += _MARKUP.search(line) is not None
        found.lines_misread += _MISREAD.search(line) is not None
        found.lines_wrapped += (
            50 <= len(before) <= 100 and line[0].islower() and not _ENDS.search(before)
        )
        encoded = line.encode()
        found.text_bytes += len(encoded) + 1
        if len(line) >= SHORTEST_REPEAT:
            self._line_numbers.append(blake2b(encoded, digest_size=8).digest())

    def _flush(self) -> int:
        """Counts what was read since the last time; returns its characters."""
        size = self._size
        self._found.line_repeats.add(np.frombuffer(b"".join(self._line_numbers), np.uint64))
        if self._pieces:
            self._pieces.add(self._texts, self._opens)
        self._texts, self._opens, self._line_numbers, self._size = [], [], [], 0
        return size


class _Pieces:
    """Tokenizes sentences, counts their pieces in a survey, and writes these to a token store."""

    def __init__(self, found: Survey, vocabulary: Vocabulary, writer: TokenWriter):
        self._found, self._writer = found, writer
        self._num_batches = 0
        lowercase = found.settings.lowercase
        self._tokenizer = tokenizer_of(vocabulary, lowercase=lowercase)
        self._other_case = None
        if not vocabulary.rules:
            self._other_case = tokenizer_of(vocabulary, lowercase=not lowercase)

    def add(self, texts: list[str], opens: list[bool]) -> None:
        """Counts and stores sentences; `opens` says which are the first of a document."""
        self._num_batches += 1
        if not texts:
            return
        ids, lengths = self._tokenizer.flat_ids(texts)
        self._note_unknown(texts, ids, lengths)
        self._found.sentence_pieces.update(lengths.tolist())
        longest = self._found.longest
        self._writer.add(ids, *cut_to_fit(lengths, np.array(opens), longest=longest))

    def _note_unknown(self, texts: list[str], ids: np.ndarray, lengths: np.ndarray) -> None:
        found, unknown = self._found, self._tokenizer.vocabulary.unk_id
        is_unknown = ids == unknown
        num_unknown = int(is_unknown.sum())
        found.unknown += num_unknown
        if self._other_case and (self._num_batches - 1) % OTHER_CASE_EVERY == 0:
            other = self._other_case.flat_ids(texts)[0]
            found.unknown_in_case.update(
                pieces=len(ids),
                unknown=num_unknown,
                pieces_other=len(other),
                unknown_other=int((other == unknown).sum()),
            )
        sentences = np.repeat(np.arange(len(lengths)), lengths)[is_unknown]
        for number in np.unique(sentences)[:NUM_EXAMPLES].tolist():
            text = texts[number]
            tokenized = self._tokenizer.encode(text)
            for (start, end), each in zip(tokenized.offsets, tokenized.ids, strict=True):
                if each == unknown:
                    found.unknown_words[text[start:end]] += 1
