"""A unit of the corpus comes in; its documents as ids go out, a range of them at a time.

What `TokenizeUnit` leaves in a folder is cut along the ranges that `FindInstances` reads, so that
no machine needs another one's folder.
"""

import atexit
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from bert_keras.text.fast_tokenizer import write_vocabulary
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.inputs.corpus import Unit
from tfrecords_tools.inputs.repairs import Repairs
from tfrecords_tools.records.splits import Range, ranges_of
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.text.store import TokenStore
from tfrecords_tools.text.tokens import TokenizeUnit, counts_of, text_settings


@dataclass(frozen=True)
class RangeTokens:
    """What a range needs of a token store, read like one: see `TokenStore`.

    Sentences and pieces are numbered within the unit, documents too until they are `placed`. Of a
    document of several ranges each also holds the sentences behind its own into which a text may
    reach that begins in it.
    """

    range: Range
    dtype: np.dtype
    starts: bytes  # int64, the sentence where each document begins, and where the last ends
    places: bytes  # int64, the piece where each sentence begins, and the end
    ids: bytes

    @classmethod
    def of(cls, store: TokenStore, documents: Range, *, longest: int) -> "RangeTokens":
        """`longest` is how many pieces a text of it may be asked to fill."""
        starts = store.documents(documents.first, documents.last)
        places = store.sentences(documents.start, min(starts[-1], documents.end + longest))
        return cls(
            documents,
            store.dtype,
            starts.tobytes(),
            places.tobytes(),
            store.pieces(places[0], places[-1]),
        )

    def placed(self, first_document: int) -> "RangeTokens":
        """The same with documents numbered over the corpus, those of the unit from there on."""
        own = self.range
        moved = replace(own, first=own.first + first_document, last=own.last + first_document)
        return replace(self, range=moved)

    def documents(self, first: int, last: int) -> memoryview:
        return _places(self.starts, first - self.range.first, last - self.range.first)

    def sentences(self, first: int, last: int) -> memoryview:
        """Fewer where the range holds no more."""
        return _places(self.places, first - self.range.start, last - self.range.start)

    def pieces(self, start: int, end: int) -> bytes:
        size = self.dtype.itemsize
        before = memoryview(self.places).cast("q")[0]
        return self.ids[(start - before) * size : (end - before) * size]


@dataclass(frozen=True)
class UnitTold:
    """What is said of a unit when its ranges are made."""

    unit: int
    counts: Counter
    repairs: Repairs
    num_sentences: int
    num_pieces: int
    ranges: tuple[Range, ...]

    @property
    def num_documents(self) -> int:
        return self.counts["documents"]


def tokens_of(
    number: int, unit: Unit, *, vocabulary: Vocabulary, settings: BuildSettings
) -> Iterator[RangeTokens | UnitTold]:
    """The ranges of a unit in their order, and then what there is to say of it.

    Raises InputError as `TokenizeUnit` does.
    """
    with tempfile.TemporaryDirectory() as work:
        text = text_settings(settings, vocabulary=kept_vocabulary(vocabulary))
        job = TokenizeUnit(unit, Path(work) / "tokens", text)
        job(lambda _: None)
        store = TokenStore(job.output, dtype=text.dtype)
        ranges = []
        for documents in ranges_of(store, [store.num_documents]):
            ranges.append(replace(documents, unit=number))
            yield RangeTokens.of(store, ranges[-1], longest=settings.max_length)
        counts, repairs = counts_of(job.output)
        yield UnitTold(
            number, counts, repairs, store.num_sentences, store.num_pieces, tuple(ranges)
        )


@cache
def kept_vocabulary(vocabulary: Vocabulary) -> Path:
    """Where this process keeps the vocabulary: a worker shares no files with where it was given."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return write_vocabulary(vocabulary, Path(folder))


def _places(data: bytes, first: int, last: int) -> memoryview:
    return memoryview(data).cast("q")[first : last + 1]
