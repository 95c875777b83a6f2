"""Surveys a corpus or an even sample of it: counts of its text and of the expected records."""

import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from typing import NamedTuple

import numpy as np

from bert_keras.progress import progress
from bert_keras.text.fast_tokenizer import tokenizer_of
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.inputs.corpus import lines_of, units
from tfrecords_tools.inputs.decoding import Repairs
from tfrecords_tools.inputs.parts import Unit, grouped, num_bytes_of
from tfrecords_tools.inspect.forecast import Forecast, forecast, original_forecast
from tfrecords_tools.inspect.repeats import Repeats
from tfrecords_tools.records.objectives import OBJECTIVES
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.text.store import TokenStore, TokenWriter, piece_dtype
from tfrecords_tools.text.tokens import cut_to_fit, sentences_of

SAMPLE_BYTES = 32 << 20  # about ten seconds
UNIT_BYTES = 8 << 20
PLACES = 32  # units of a large corpus that are read
TOGETHER = 1 << 17  # characters that are tokenized at once
OTHER_CASE_EVERY = 8  # every 8th batch is also tokenized in the other case
SHORTEST_REPEAT = 20  # characters; short lines such as "Yes." or "* * *" repeat in any text
NUM_EXAMPLES = 5  # sentences with [UNK] of each batch

_MARKUP = re.compile(
    r"</?[A-Za-z][A-Za-z0-9]*(?:\s[^<>]*)?/?>|&(?:[a-z]{2,8}|#\d{2,5});"
    r"|\[\[|\]\]|\{\{|\}\}|^=+ .* =+$"
)
# UTF-8 that was decoded as Latin-1 or Windows-1252 and encoded again; and replacement characters.
_MISREAD = re.compile("[ÂÃ][\x80-\xbf]|â[\x80-\x9f€][\x80-\xbf™œ\x9d“”˜¦]|\ufffd")
_NOT_LETTERS = re.compile(r"[\W\d_]+")
_ENDS = re.compile(r"[.!?:;…。！？][\"'”’»)\]]*$")


@dataclass
class Survey:
    """The counts of the text that was read: all of it, or `PLACES` units spread evenly over it."""

    settings: BuildSettings
    vocabulary: Vocabulary | None
    num_bytes: int  # of the corpus on disk
    is_compressed: bool
    is_whole: bool
    repairs: Repairs = field(default_factory=Repairs)
    lines: int = 0
    characters: int = 0
    text_bytes: int = 0
    letters: int = 0
    lines_with_markup: int = 0
    lines_misread: int = 0
    lines_wrapped: int = 0  # lines that continue a sentence, as in text of fixed width
    line_repeats: Repeats = field(default_factory=Repeats)
    document_sentences: list[int] = field(default_factory=list)
    documents_cut: int = 0  # at the end of the sample
    longest_document: int = 0  # characters
    sentence_pieces: Counter[int] = field(default_factory=Counter)  # tokens -> sentences
    unknown: int = 0
    unknown_words: Counter[str] = field(default_factory=Counter)
    unknown_in_case: Counter[str] = field(default_factory=Counter)  # of a sample, in both cases
    forecasts: dict[str, Forecast] = field(default_factory=dict)

    @property
    def longest(self) -> int:
        """The largest number of tokens of a sentence that fits into a record."""
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
    """Reads a corpus or a sample of it and counts its text.

    Args:
        places: Files, folders, glob patterns or TFDS names.
        vocabulary: The vocabulary. None counts no tokens and estimates no records.
        settings: The settings of the records.
        sample_bytes: The size of the sample; a smaller corpus is read as a whole.

    Raises:
        InputError: The corpus has no text, or a file is not text.
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
    chosen = corpus
    if not found.is_whole:
        numbers = np.linspace(0, len(corpus) - 1, PLACES).round().astype(int)
        chosen = [corpus[number] for number in np.unique(numbers)]
    with (
        tempfile.TemporaryDirectory(prefix="bert-tfrecords-") as folder,
        progress(stage="look", unit="B", total=min(num_bytes, sample_bytes)) as bar,
        TokenWriter(folder, dtype=piece_dtype(len(vocabulary or ()))) as writer,
    ):
        pieces = _Pieces(found, vocabulary, writer) if vocabulary else None
        most = None if found.is_whole else sample_bytes // len(chosen)
        lines = chain.from_iterable(_lines(unit, found, most=most) for unit in chosen)
        for together in grouped(lines, size_of=lambda line: len(line.text), most=TOGETHER):
            _count(together, found)
            if pieces:
                pieces.add(together)
            bar.update(sum(len(line.text) for line in together))
        if not found.lines:
            found.repairs.expect_text()
        writer.close()
        if vocabulary:
            found.forecasts = _forecasts(folder, settings, vocabulary)
    return found


def _forecasts(folder: str, settings: BuildSettings, vocabulary: Vocabulary) -> dict[str, Forecast]:
    """Returns a forecast for each objective.

    "the original" is the next sentence prediction of google-research/bert, for WordPiece only.
    """
    store = TokenStore(folder)
    forecasts, separators = {}, vocabulary.specials.num_separators
    if store.num_documents > 1 and not vocabulary.rules:
        forecasts["the original"] = original_forecast(store, settings)
    for name in OBJECTIVES:
        if store.num_documents > (name == "nsp"):
            forecasts[name] = forecast(store, settings, objective=name, num_separators=separators)
    return forecasts


class _Line(NamedTuple):
    text: str
    before: str  # the preceding line, "" at the beginning of a document
    sentences: list[str]
    is_first: bool  # whether it is the first line of its document


def _lines(unit: Unit, found: Survey, *, most: int | None) -> Iterator[_Line]:
    """Reads whole documents, until `most` characters were read, and counts documents.

    A document that is longer than the rest of `most` is cut there.
    """
    split = sentences_of(found.settings.splitter, found.vocabulary)
    before, characters, num_sentences, in_unit = "", 0, 0, 0
    for text in lines_of(unit, repairs=found.repairs, errors="replace"):
        if text:
            sentences = split(text)
            yield _Line(text, before, sentences, num_sentences == 0)
            num_sentences += len(sentences)
            characters += len(text)
            in_unit += len(text)
        is_enough = most is not None and in_unit >= most
        if num_sentences and (is_enough or not text):
            found.document_sentences.append(num_sentences)
            found.documents_cut += bool(text)
            found.longest_document = max(found.longest_document, characters)
            characters = num_sentences = 0
        if is_enough:
            break
        before = text


def _count(lines: Sequence[_Line], found: Survey) -> None:
    """Adds the counts of lines to the survey."""
    numbers = []
    for text, before, _, _ in lines:
        found.lines += 1
        found.characters += len(text)
        found.letters += len(_NOT_LETTERS.sub("", text))
        found.lines_with_markup += _MARKUP.search(text) is not None
        found.lines_misread += _MISREAD.search(text) is not None
        found.lines_wrapped += (
            50 <= len(before) <= 100 and text[0].islower() and not _ENDS.search(before)
        )
        encoded = text.encode()
        found.text_bytes += len(encoded) + 1
        if len(text) >= SHORTEST_REPEAT:
            numbers.append(blake2b(encoded, digest_size=8).digest())
    found.line_repeats.add(np.frombuffer(b"".join(numbers), np.uint64))


class _Pieces:
    """Tokenizes sentences, counts their tokens in a survey, and adds them to a token store."""

    def __init__(self, found: Survey, vocabulary: Vocabulary, writer: TokenWriter):
        self._found, self._writer = found, writer
        self._num_batches = 0
        lowercase = found.settings.lowercase
        self._tokenizer = tokenizer_of(vocabulary, lowercase=lowercase)
        self._other_case = None
        if not vocabulary.rules:
            self._other_case = tokenizer_of(vocabulary, lowercase=not lowercase)

    def add(self, lines: Sequence[_Line]) -> None:
        texts = [text for line in lines for text in line.sentences]
        opens = [line.is_first and n == 0 for line in lines for n in range(len(line.sentences))]
        if not texts:
            return
        found, unk_id = self._found, self._tokenizer.vocabulary.unk_id
        ids, lengths = self._tokenizer.flat_ids(texts)
        is_unknown = ids == unk_id
        num_unknown = int(is_unknown.sum())
        found.unknown += num_unknown
        if self._other_case and self._num_batches % OTHER_CASE_EVERY == 0:
            other = self._other_case.flat_ids(texts)[0]
            found.unknown_in_case.update(
                pieces=len(ids),
                unknown=num_unknown,
                pieces_other=len(other),
                unknown_other=int((other == unk_id).sum()),
            )
        self._num_batches += 1
        with_unknown = np.unique(np.repeat(np.arange(len(lengths)), lengths)[is_unknown])
        for text in [texts[number] for number in with_unknown[:NUM_EXAMPLES].tolist()]:
            tokenized = self._tokenizer.encode(text)
            for (start, end), number in zip(tokenized.offsets, tokenized.ids, strict=True):
                if number == unk_id:
                    found.unknown_words[text[start:end]] += 1
        found.sentence_pieces.update(lengths.tolist())
        self._writer.add(ids, *cut_to_fit(lengths, np.array(opens), longest=found.longest))
