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
_COPIED_AT_ONCE = 1 << 20  # bytes, or places


def piece_dtype(num_ids: int) -> np.dtype:
    """The smallest type that holds ids below `num_ids`."""
    return np.dtype("<u2" if num_ids <= 1 << 16 else "<u4")


class TokenWriter:
    """Writes a store as a stream: sentences of documents, and at the end `close`.

    As a context manager it lets go of its files whatever happens; only `close` makes them whole.

    Sentences without pieces are dropped, and documents without sentences.
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
    """Documents as ids: a `TokenStore`, or the part of one that a job holds."""

    @property
    def dtype(self) -> np.dtype: ...

    def documents(self, first: int, last: int) -> memoryview: ...

    def sentences(self, first: int, last: int) -> memoryview: ...

    def pieces(self, start: int, end: int) -> bytes: ...


class TokenStore:
    """Reads a store. Documents, sentences and pieces are numbered from 0 over the whole of it.

    Its files are mapped, not read: what was looked at is the system's to keep or drop, and no
    longer this process's after `release`.
    """

    def __init__(self, folder: str | os.PathLike, *, dtype: np.dtype):
        self.dtype = dtype
        self._maps = {name: _mapped(Path(folder) / name) for name in FILES}
        self._pieces = self._maps["pieces"]
        self.num_pieces = len(self._pieces) // dtype.itemsize
        self._sentences = memoryview(self._maps["sentences"]).cast("q")
        self._documents = memoryview(self._maps["documents"]).cast("q")
        self.num_sentences = len(self._sentences) - 1
        self.num_documents = len(self._documents) - 1
        if isinstance(self._pieces, mmap):
            self._pieces.madvise(MADV_RANDOM)  # what stands beside a span is not read too

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
        """Lets go of the memory that what was looked at took."""
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
                parts = [Path(folder) / name for folder in folders]
                if name == "pieces":
                    for part in parts:
                        with part.open("rb") as file:
                            shutil.copyfileobj(file, out, _COPIED_AT_ONCE)
                else:
                    end = 0
                    for part in parts:
                        end += _append_places(part, out, shift=end)
                    out.write(np.array([end], PLACE).tobytes())
                out.flush()
                os.fsync(out.fileno())


def _append_places(part: Path, out, *, shift: int) -> int:
    """Copies the places of one part behind the others, all but its end, which it returns."""
    left = part.stat().st_size // PLACE.itemsize - 1
    with part.open("rb") as file:
        while left:
            places = np.fromfile(file, PLACE, min(left, _COPIED_AT_ONCE))
            out.write((places + shift).tobytes())
            left -= len(places)
        return int(np.fromfile(file, PLACE, 1)[0])
