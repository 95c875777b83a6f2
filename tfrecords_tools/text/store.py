"""Keeps documents as ids in plain files on disk, and reads spans of them, never the whole.

A store is a folder: `pieces` (uint16, or uint32 where the ids need it), `sentences` (int64, the
piece where each begins, and the end) and `documents` (int64, the sentence where each begins, and
the end).
"""

import os
import shutil
from collections.abc import Sequence
from mmap import MADV_DONTNEED, MADV_RANDOM, PROT_READ, mmap
from pathlib import Path
from typing import Protocol

import numpy as np

from bert_keras.storage import whole_folder

FILES = ("pieces", "sentences", "documents")
PLACE = np.dtype("<i8")
_COPIED_AT_ONCE = 1 << 20  # bytes, or positions


def piece_dtype(num_ids: int) -> np.dtype:
    """The smallest type that holds ids below `num_ids`."""
    return np.dtype("<u2" if num_ids <= 1 << 16 else "<u4")


class TokenWriter:
    """Writes a store as a stream: sentences of documents, and at the end `close`.

    Sentences without tokens are dropped, and documents without sentences. As a context manager it
    releases its files in any case; only `close` completes them.
    """

    def __init__(self, folder: str | os.PathLike, *, dtype: np.dtype):
        self._files = {name: (Path(folder) / name).open("wb") for name in FILES}
        self._dtype = dtype
        self._num_pieces = self._num_sentences = self.num_documents = 0
        self._document = 0  # counts those without sentences too
        self._last_document = -1  # the last one that has a sentence

    def __enter__(self) -> "TokenWriter":
        return self

    def __exit__(self, *error) -> None:
        for file in self._files.values():
            file.close()

    def add(self, ids: np.ndarray, lengths: np.ndarray, opens: np.ndarray | None = None) -> None:
        """Ids int [M] of sentences, and how many each has, int [N], sum M.

        `opens` bool [N] says which are the first of a document; by default none is, all go on with
        the one that is open.
        """
        lengths = np.asarray(lengths)
        documents = np.full(len(lengths), self._document)
        if opens is not None:
            documents += np.cumsum(opens)
            self._document = int(documents[-1]) if len(documents) else self._document
        lengths, documents = lengths[lengths > 0], documents[lengths > 0]
        if not len(lengths):
            return
        begins = np.flatnonzero(np.diff(documents, prepend=self._last_document))
        self._last_document = documents[-1]
        self._places("documents", self._num_sentences + begins)
        self._places("sentences", self._num_pieces + np.cumsum(lengths) - lengths)
        self._files["pieces"].write(np.asarray(ids, self._dtype).tobytes())
        self._num_pieces += int(lengths.sum())
        self._num_sentences += len(lengths)
        self.num_documents += len(begins)

    def close(self) -> None:
        """Writes the ends, and everything to the disk."""
        self._places("sentences", np.array([self._num_pieces]))
        self._places("documents", np.array([self._num_sentences]))
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        self.__exit__()

    def _places(self, name: str, places: np.ndarray) -> None:
        self._files[name].write(places.astype(PLACE).tobytes())


class Tokens(Protocol):
    """Documents as positions of ids: a `TokenStore`, or the part of one that a Beam step holds."""

    def documents(self, first: int, last: int) -> memoryview: ...

    def sentences(self, first: int, last: int) -> memoryview: ...


class TokenStore:
    """Reads a store. Documents, sentences and tokens are numbered from 0 over the whole store.

    The files are memory-mapped; `release` drops the pages that were read from this process.
    """

    def __init__(self, folder: str | os.PathLike):
        self._maps = {name: _mapped(Path(folder) / name) for name in FILES}
        self._pieces = self._maps["pieces"]
        self._sentences = memoryview(self._maps["sentences"]).cast("q")
        self._documents = memoryview(self._maps["documents"]).cast("q")
        self.num_sentences = len(self._sentences) - 1
        self.num_documents = len(self._documents) - 1
        self.num_pieces = self._sentences[-1]
        self.dtype = np.dtype("<u2" if len(self._pieces) == 2 * self.num_pieces else "<u4")
        if isinstance(self._pieces, mmap):
            self._pieces.madvise(MADV_RANDOM)  # the system reads nothing beside a span

    def documents(self, first: int, last: int) -> memoryview:
        """The sentences at which documents `first` to `last - 1` begin, and where the last ends."""
        return self._documents[first : last + 1]

    def sentences(self, first: int, last: int) -> memoryview:
        """The pieces at which sentences `first` to `last - 1` begin, and where the last ends."""
        return self._sentences[first : last + 1]

    def pieces(self, start: int, end: int) -> bytes:
        """The ids from `start` to `end - 1`, as bytes of `dtype`."""
        size = self.dtype.itemsize
        return self._pieces[start * size : end * size]

    def release(self) -> None:
        """Releases the memory of the pages that were read."""
        for each in self._maps.values():
            if isinstance(each, mmap):
                each.madvise(MADV_DONTNEED)


def _mapped(path: Path) -> mmap | bytes:
    with path.open("rb") as file:
        is_empty = not os.fstat(file.fileno()).st_size
        return b"" if is_empty else mmap(file.fileno(), 0, prot=PROT_READ)


def joined(folders: Sequence[str | os.PathLike], output: str | os.PathLike) -> None:
    """One store of many, in their order, written whole or not at all."""
    with whole_folder(output) as whole:
        for name in FILES:
            with open(whole / name, "wb") as out:
                end = 0
                for folder in folders:
                    with (Path(folder) / name).open("rb") as part:
                        if name == "pieces":
                            shutil.copyfileobj(part, out, _COPIED_AT_ONCE)
                            continue
                        # The end of a part is the beginning of the next one.
                        out.seek(max(0, out.tell() - PLACE.itemsize))
                        shift = end
                        while len(places := np.fromfile(part, PLACE, _COPIED_AT_ONCE)):
                            places += shift
                            out.write(places.tobytes())
                            end = places[-1]
                out.flush()
                os.fsync(out.fileno())
