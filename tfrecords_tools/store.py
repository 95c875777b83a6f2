"""Keeps tokenized documents and the spans of instances in files on disk.

A token store is a folder with three files:

tokens      the ids, uint16 or uint32
sentences   the index of the first token of each sentence, and then the number of tokens, int64
documents   the index of the first sentence of each document, and then the number of sentences

A file of buckets contains the index of the first span of each bucket, the number of spans, and then
the spans of all buckets, int64 [n,4]: index of the instance in the file, label, start and end in
the store. To shuffle instances, each is put into a random bucket, and each bucket is shuffled (Rao
1961; Sandelius 1962).
"""

import os
import shutil
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from mmap import MADV_RANDOM, PROT_READ, mmap
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bert_keras.errors import InputError
from bert_keras.text.packing import span_indices

FILES = ("tokens", "sentences", "documents")
INDEX_DTYPE = np.dtype("<i8")
SENTENCES_PER_RANGE = 20_000
_COPY_SIZE = 1 << 20  # bytes, or indices


def check_has_text(num_documents: int) -> None:
    """Raises InputError if a corpus contains no documents."""
    if not num_documents:
        raise InputError("the corpus contains no text; expected a paragraph or a sentence per line")


def token_dtype(num_ids: int) -> np.dtype:
    """Returns the smallest integer type that holds ids below `num_ids`."""
    return np.dtype("<u2" if num_ids <= 1 << 16 else "<u4")


class TokenWriter:
    """A context manager that writes a store; drops sentences and documents without tokens."""

    def __init__(self, folder: Path, *, dtype: np.dtype):
        folder.mkdir(parents=True, exist_ok=True)
        self._files = {name: (folder / name).open("wb") for name in FILES}
        self._token_dtype = dtype
        self._num_tokens = self._num_sentences = self.num_documents = 0
        self._document = 0  # index for the next sentence; documents without sentences count too
        self._last_document = -1  # index of the last document that has a sentence

    def __enter__(self) -> "TokenWriter":
        return self

    def __exit__(self, *error) -> None:
        self._write_indices("sentences", np.array([self._num_tokens]))
        self._write_indices("documents", np.array([self._num_sentences]))
        for file in self._files.values():
            file.close()

    def add(self, ids: np.ndarray, lengths: np.ndarray, is_first: np.ndarray | None = None) -> None:
        """Adds sentences.

        Args:
            ids: int [M], the token ids of all sentences, concatenated.
            lengths: int [N], the number of tokens of each sentence.
            is_first: bool [N], which sentences begin a document; by default none.
        """
        documents = np.full(len(lengths), self._document)
        if is_first is not None:
            documents += np.cumsum(is_first)
            self._document = int(documents[-1]) if len(documents) else self._document
        lengths, documents = lengths[lengths > 0], documents[lengths > 0]
        if not len(lengths):
            return
        document_starts = np.flatnonzero(np.diff(documents, prepend=self._last_document))
        self._last_document = documents[-1]
        self._write_indices("documents", self._num_sentences + document_starts)
        self._write_indices("sentences", self._num_tokens + np.cumsum(lengths) - lengths)
        self._files["tokens"].write(np.asarray(ids, self._token_dtype).tobytes())
        self._num_tokens += int(lengths.sum())
        self._num_sentences += len(lengths)
        self.num_documents += len(document_starts)

    def _write_indices(self, name: str, indices: np.ndarray) -> None:
        self._files[name].write(indices.astype(INDEX_DTYPE).tobytes())


class TokenSource:
    """The tokens and boundaries of documents.

    Args:
        tokens: Token ids of `dtype`: the file of a store, or a part of it.
        sentences: int64, the first token of each sentence, and the end of the last one.
        documents: int64, the first sentence of each document, and the end of the last one.
        first_document, first_sentence: The indices in the corpus of the first document and
            sentence, by which the methods count.
    """

    def __init__(
        self,
        tokens: bytes | mmap,
        sentences: bytes | mmap,
        documents: bytes | mmap,
        *,
        dtype: np.dtype,
        first_document: int = 0,
        first_sentence: int = 0,
    ):
        self._tokens, self.dtype = tokens, dtype
        self._sentences = memoryview(sentences).cast("q")
        self._documents = memoryview(documents).cast("q")
        self._first_token = self._sentences[0]
        self._first_sentence, self._first_document = first_sentence, first_document

    def documents(self, first: int, last: int) -> memoryview:
        """Returns the first sentence of each document from `first` to `last`, `last` included."""
        return self._documents[first - self._first_document : last - self._first_document + 1]

    def sentences(self, first: int, last: int) -> memoryview:
        """Returns the first tokens of the sentences `first` to `last`, or to the end."""
        return self._sentences[first - self._first_sentence : last - self._first_sentence + 1]

    def text_at(self, document: int, fraction: float, num_tokens: int) -> tuple[int, int]:
        """Returns the first token and the end of a text in a document.

        Args:
            document: The index of the document.
            fraction: The share of the document's sentences that precede the text, below 1.
            num_tokens: The text has the fewest sentences with as many tokens, or all that follow.
        """
        start, end = self.documents(document, document + 1)
        starts = self.sentences(start + int(fraction * (end - start)), end)
        last = min(bisect_left(starts, starts[0] + num_tokens, 1), len(starts) - 1)
        return starts[0], starts[last]

    def tokens(self, start: int, end: int) -> bytes:
        """Returns the token ids from `start` to `end - 1` as bytes of `dtype`."""
        size, first = self.dtype.itemsize, self._first_token
        return self._tokens[(start - first) * size : (end - first) * size]


class TokenStore(TokenSource):
    """Reads a store by memory maps; the first document, sentence and token have the index 0."""

    def __init__(self, folder: Path):
        maps: list[mmap | bytes] = []
        for name in FILES:
            with (folder / name).open("rb") as file:
                is_empty = not os.fstat(file.fileno()).st_size
                maps.append(b"" if is_empty else mmap(file.fileno(), 0, prot=PROT_READ))
        tokens, sentences, documents = maps
        self.num_tokens = memoryview(sentences).cast("q")[-1]
        dtype = np.dtype("<u2" if len(tokens) == 2 * self.num_tokens else "<u4")
        super().__init__(tokens, sentences, documents, dtype=dtype)
        self.num_sentences = len(self._sentences) - 1
        self.num_documents = len(self._documents) - 1
        if isinstance(tokens, mmap):
            tokens.madvise(MADV_RANDOM)  # the system does not read ahead of a span

    def document_sizes(self) -> np.ndarray:
        """Returns int64 [2,D], the number of sentences and of tokens of each document."""
        documents = np.asarray(self._documents)
        return np.stack([np.diff(documents), np.diff(np.asarray(self._sentences)[documents])])

    def tokens_of_spans(self, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Returns the token ids of spans with these first tokens and lengths, concatenated."""
        return np.frombuffer(self._tokens, self.dtype)[span_indices(starts, lengths)]


def join_stores(folders: Sequence[Path], output: Path) -> None:
    """Joins stores into one, in their order."""
    output.mkdir(exist_ok=True)
    for name in FILES:
        with (output / name).open("wb") as out:
            end = 0
            for folder in folders:
                with (folder / name).open("rb") as file:
                    if name == "tokens":
                        shutil.copyfileobj(file, out, _COPY_SIZE)
                        continue
                    # The last index of a store is the first index of the next store.
                    out.seek(max(0, out.tell() - INDEX_DTYPE.itemsize))
                    shift = end
                    while len(indices := np.fromfile(file, INDEX_DTYPE, _COPY_SIZE)):
                        indices += shift
                        out.write(indices.tobytes())
                        end = indices[-1]


class Range(NamedTuple):
    """Adjacent documents of one unit, or a part of one large document."""

    unit: int
    part: int  # index of the range within the unit
    first: int  # index of the first document
    last: int  # index after the last document
    start: int  # index of the first sentence
    end: int  # index after the last sentence


def ranges_of(store: TokenStore, unit_documents: Sequence[int]) -> Iterator[Range]:
    """Yields the ranges of all documents; each unit of the corpus has `unit_documents` of them."""
    for unit, (first, last) in enumerate(pairwise(accumulate(unit_documents, initial=0))):
        for part, bounds in enumerate(_ranges(store, first, last)):
            yield Range(unit, part, *bounds)


def _ranges(store: TokenStore, first: int, last: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields (first, last, start, end) of ranges of up to about `SENTENCES_PER_RANGE` sentences."""
    # A document with more sentences is divided into several ranges.
    range_start = None
    for document, (start, end) in enumerate(pairwise(store.documents(first, last)), first):
        is_large = end - start > SENTENCES_PER_RANGE
        if range_start is None:
            first, range_start = document, start
        if start - range_start >= SENTENCES_PER_RANGE or is_large:
            if document > first:
                yield first, document, range_start, start
            first, range_start = document, start
        if is_large:
            for part in range(start, end, SENTENCES_PER_RANGE):
                yield document, document + 1, part, min(part + SENTENCES_PER_RANGE, end)
            range_start = None
    if range_start is not None:
        yield first, last, range_start, end


def documents_of(store: TokenSource, documents: Range) -> Iterator[tuple[int, list[int]]]:
    """Yields the documents of a range; see `instances.Document`."""
    starts = store.documents(documents.first, documents.last).tolist()
    starts[0], starts[-1] = documents.start, documents.end
    bounds = store.sentences(documents.start, documents.end).tolist()
    for index, (start, end) in enumerate(pairwise(starts), documents.first):
        yield index, bounds[start - documents.start : end - documents.start + 1]


class SpanTable(NamedTuple):
    """Spans of instances, int64 [n] each; the spans of an instance are adjacent."""

    instances: np.ndarray  # 0, 1, ... in the order of the table
    labels: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


def write_buckets(path: Path, tables: Sequence[np.ndarray]) -> list[int]:
    """Writes the spans of each bucket, int64 [n,4], and returns the number of spans of each."""
    sizes = list(map(len, tables))
    with path.open("wb") as file:
        for array in (np.cumsum([0, *sizes]), *tables):
            file.write(array.astype(INDEX_DTYPE).tobytes())
    return sizes


def read_bucket(paths: Iterable[Path], *, num_buckets: int, bucket: int) -> SpanTable:
    """Returns the instances of one bucket from all files, in their order."""
    tables, num_before = [np.empty((0, 4), INDEX_DTYPE)], 0
    for path in paths:
        with path.open("rb") as file:
            file.seek(bucket * INDEX_DTYPE.itemsize)
            start, end = np.fromfile(file, INDEX_DTYPE, 2).tolist()
            file.seek(((num_buckets + 1) + start * 4) * INDEX_DTYPE.itemsize)
            table = np.fromfile(file, INDEX_DTYPE, (end - start) * 4).reshape(-1, 4)
        if len(table):
            # Numbers the instances 0, 1, ... over all files.
            is_next_instance = np.diff(table[:, 0], prepend=table[0, 0]) != 0
            table[:, 0] = num_before + np.cumsum(is_next_instance)
            num_before = int(table[-1, 0]) + 1
            tables.append(table)
    return SpanTable(*np.concatenate(tables).T)
