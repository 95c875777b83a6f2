"""Surveys a corpus or an even sample of it: counts of its text and of the expected records."""

import math
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

from bert_keras.errors import InputError
from bert_keras.progress import progress
from bert_keras.text.fast_tokenizer import tokenizer_of
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.inputs.corpus import lines_of, units
from tfrecords_tools.inputs.decoding import Repairs
from tfrecords_tools.inputs.parts import Unit, grouped, num_bytes_of
from tfrecords_tools.inspect.forecast import Forecast, forecast, original_forecast
from tfrecords_tools.inspect.repeats import Repeats
from tfrecords_tools.records.objectives import RECORD_OBJECTIVES
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.text.store import TokenStore, TokenWriter, token_dtype
from tfrecords_tools.text.tokens import cut_to_fit, sentence_splitter

SAMPLE_BYTES = 32 << 20  # about ten seconds
UNIT_BYTES = 8 << 20
NUM_SAMPLED_UNITS = 32  # units of a large corpus that are read
BATCH_CHARACTERS = 1 << 17  # characters that are tokenized at once
OTHER_CASE_EVERY = 8  # every 8th batch is also tokenized in the other case
MIN_REPEATED_CHARACTERS = 20  # characters; short lines such as "Yes." or "* * *" repeat in any text
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
    """The counts of the text that was read: a corpus, or `NUM_SAMPLED_UNITS` units of it."""

    settings: BuildSettings
    vocabulary: Vocabulary | None
    num_bytes: int  # of the corpus on disk
    is_compressed: bool
    is_complete: bool
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
    sentence_tokens: Counter[int] = field(default_factory=Counter)  # tokens -> sentences
    unknown: int = 0
    unknown_words: Counter[str] = field(default_factory=Counter)
    unknown_in_case: Counter[str] = field(default_factory=Counter)  # of a sample, in both cases
    forecasts: dict[str, Forecast] = field(default_factory=dict)

    @property
    def max_tokens(self) -> int:
        """The largest number of tokens of a sentence that fits into a record."""
        specials = self.vocabulary.num_specials(2) if self.vocabulary else 3
        return self.settings.max_length - specials

    @property
    def tokens(self) -> int:
        """The number of tokens of all sentences."""
        return sum(length * count for length, count in self.sentence_tokens.items())


def survey(
    paths: Sequence[str | os.PathLike],
    *,
    vocabulary: Vocabulary | None,
    settings: BuildSettings,
    sample_bytes: int = SAMPLE_BYTES,
) -> Survey:
    """Reads a corpus or a sample of it and counts its text.

    Args:
        paths: Files, folders, glob patterns or TFDS names.
        vocabulary: The vocabulary. None counts no tokens and estimates no records.
        settings: The settings of the records.
        sample_bytes: The size of the sample; a smaller corpus is read as a whole.

    Raises:
        InputError: The corpus has no text, or a file is not text.
    """
    if vocabulary:
        settings = settings.for_vocabulary(vocabulary)
    corpus = units(paths, unit_bytes=UNIT_BYTES, text_field=settings.text_field)
    num_bytes = sum(map(num_bytes_of, corpus))
    counts = Survey(
        settings,
        vocabulary,
        num_bytes,
        is_compressed=any(
            part.compression or part.format == "parquet" for u in corpus for part in u
        ),
        is_complete=num_bytes <= sample_bytes,
    )
    max_characters = math.inf
    if not counts.is_complete:
        indices = np.linspace(0, len(corpus) - 1, NUM_SAMPLED_UNITS).round().astype(int)
        corpus = [corpus[index] for index in np.unique(indices)]
        max_characters = sample_bytes // len(corpus)
    with (
        tempfile.TemporaryDirectory(prefix="bert-tfrecords-") as folder,
        progress(stage="survey", unit="B", total=min(num_bytes, sample_bytes)) as bar,
        TokenWriter(folder, dtype=token_dtype(len(vocabulary or ()))) as writer,
    ):
        tokens = _TokenCounter(counts, vocabulary, writer) if vocabulary else None
        lines = chain.from_iterable(_lines(unit, counts, max_characters) for unit in corpus)
        for batch in grouped(lines, size_of=lambda line: len(line.text), most=BATCH_CHARACTERS):
            _count(batch, counts)
            if tokens:
                tokens.add(batch)
            bar.update(sum(len(line.text) for line in batch))
        if not counts.lines:
            counts.repairs.expect_text()
        if not counts.document_sentences:
            raise InputError(
                f"{settings.splitter} returned no sentence for any line of the corpus; expected a "
                "function from a line to its sentences"
            )
        writer.close()
        if vocabulary:
            counts.forecasts = _forecasts(folder, settings, vocabulary)
    return counts


def _forecasts(folder: str, settings: BuildSettings, vocabulary: Vocabulary) -> dict[str, Forecast]:
    """Returns a forecast for each objective.

    "the original" is the next sentence prediction of google-research/bert, for WordPiece only.
    """
    store = TokenStore(folder)
    forecasts, separators = {}, vocabulary.specials.num_separators
    if store.num_documents > 1 and not vocabulary.rules:
        forecasts["the original"] = original_forecast(store, settings)
    for name in RECORD_OBJECTIVES:
        if store.num_documents > (name == "nsp"):
            forecasts[name] = forecast(store, settings, objective=name, num_separators=separators)
    return forecasts


class _Line(NamedTuple):
    text: str
    previous: str  # the preceding line, "" at the start of a document
    sentences: list[str]
    is_first: bool  # whether it is the first line of its document


def _lines(unit: Unit, counts: Survey, max_characters: float) -> Iterator[_Line]:
    """Reads whole documents, until `max_characters` characters were read, and counts documents.

    A document that is longer than the rest of `max_characters` is cut there.
    """
    split = sentence_splitter(counts.settings.splitter, counts.vocabulary)
    previous, characters, num_sentences, num_read = "", 0, 0, 0
    for text in lines_of(unit, repairs=counts.repairs, errors="replace"):
        if text:
            sentences = split(text)
            yield _Line(text, previous, sentences, num_sentences == 0)
            num_sentences += len(sentences)
            characters += len(text)
            num_read += len(text)
        is_enough = num_read >= max_characters
        if num_sentences and (is_enough or not text):
            counts.document_sentences.append(num_sentences)
            counts.documents_cut += bool(text)
            counts.longest_document = max(counts.longest_document, characters)
            characters = num_sentences = 0
        if is_enough:
            break
        previous = text


def _count(lines: Sequence[_Line], counts: Survey) -> None:
    """Adds the counts of lines to the survey."""
    hashes = []
    for text, previous, _, _ in lines:
        counts.lines += 1
        counts.characters += len(text)
        counts.letters += len(_NOT_LETTERS.sub("", text))
        counts.lines_with_markup += _MARKUP.search(text) is not None
        counts.lines_misread += _MISREAD.search(text) is not None
        counts.lines_wrapped += (
            50 <= len(previous) <= 100 and text[0].islower() and not _ENDS.search(previous)
        )
        encoded = text.encode()
        counts.text_bytes += len(encoded) + 1
        if len(text) >= MIN_REPEATED_CHARACTERS:
            hashes.append(blake2b(encoded, digest_size=8).digest())
    counts.line_repeats.add(np.frombuffer(b"".join(hashes), np.uint64))


class _TokenCounter:
    """Tokenizes sentences, counts their tokens in a survey, and adds them to a token store."""

    def __init__(self, counts: Survey, vocabulary: Vocabulary, writer: TokenWriter):
        self._counts, self._writer, self._num_batches = counts, writer, 0
        lowercase = counts.settings.lowercase
        self._tokenizer = tokenizer_of(vocabulary, lowercase=lowercase)
        self._other_case = None
        if not vocabulary.rules:
            self._other_case = tokenizer_of(vocabulary, lowercase=not lowercase)

    def add(self, lines: Sequence[_Line]) -> None:
        """Adds the sentences of a batch of lines."""
        texts = [text for line in lines for text in line.sentences]
        is_first = [line.is_first and n == 0 for line in lines for n in range(len(line.sentences))]
        if not texts:
            return
        counts, unk_id = self._counts, self._tokenizer.vocabulary.unk_id
        ids, lengths = self._tokenizer.flat_ids(texts)
        is_unknown = ids == unk_id
        num_unknown = int(is_unknown.sum())
        counts.unknown += num_unknown
        if self._other_case and self._num_batches % OTHER_CASE_EVERY == 0:
            other = self._other_case.flat_ids(texts)[0]
            counts.unknown_in_case.update(
                tokens=len(ids),
                unknown=num_unknown,
                tokens_other=len(other),
                unknown_other=int((other == unk_id).sum()),
            )
        self._num_batches += 1
        with_unknown = np.unique(np.repeat(np.arange(len(lengths)), lengths)[is_unknown])
        for text in [texts[index] for index in with_unknown[:NUM_EXAMPLES].tolist()]:
            tokenized = self._tokenizer.encode(text)
            for (start, end), token_id in zip(tokenized.offsets, tokenized.ids, strict=True):
                if token_id == unk_id:
                    counts.unknown_words[text[start:end]] += 1
        counts.sentence_tokens.update(lengths.tolist())
        self._writer.add(ids, *cut_to_fit(lengths, np.array(is_first), longest=counts.max_tokens))
