"""Encodes one or two texts an example as rows of a classifier, or as windows of long texts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bert_keras.errors import InputError
from bert_keras.tasks.task import Encoded
from bert_keras.text.packing import pack
from bert_keras.text.vocab import Vocabulary

Ids = Sequence[Sequence[int]]


@dataclass(frozen=True)
class EncodedTexts(Encoded):
    """Inputs [B, T]; a text too long loses its end, the longer of a pair first."""

    texts: tuple[Ids, ...]
    targets: np.ndarray
    max_length: int
    vocabulary: Vocabulary
    lengths: np.ndarray

    def batch(self, rows: np.ndarray) -> tuple:
        texts = [[text[row] for row in rows] for text in self.texts]
        inputs = pack(*texts, vocabulary=self.vocabulary, max_length=self.max_length)
        return inputs, self.targets[rows]


def num_pieces(texts: tuple[Ids, ...], vocabulary: Vocabulary) -> np.ndarray:
    """int64 [N]: pieces of each example, [CLS] and [SEP]s counted."""
    counts_KN = np.array([[len(ids) for ids in text] for text in texts], np.int64)
    return counts_KN.sum(axis=0) + vocabulary.num_specials(len(texts))


@dataclass(frozen=True)
class EncodedWindows(Encoded):
    """Inputs [B, W, T]: each example has as many windows as its last text needs, the rest of W is
    padding. The first text of a pair stands whole in each of them.

    `starts` are, for each example, where its windows of the last text begin; `lengths` counts the
    pieces of all its windows.
    """

    texts: tuple[Ids, ...]
    targets: np.ndarray
    max_length: int
    vocabulary: Vocabulary
    starts: Sequence[range]
    lengths: np.ndarray

    def batch(self, rows: np.ndarray) -> tuple:
        firsts, lasts = [], []
        for row in rows:
            *first, last = parts = [text[row] for text in self.texts]
            room = room_of_last(parts, max_length=self.max_length, vocabulary=self.vocabulary)
            for start in self.starts[row]:
                firsts += first
                lasts.append(last[start : start + room])
        texts = (firsts, lasts) if firsts else (lasts,)
        windows = pack(*texts, vocabulary=self.vocabulary, max_length=self.max_length)
        counts = np.array([len(self.starts[row]) for row in rows])
        is_real_BW = np.arange(counts.max()) < counts[:, None]
        inputs = {}
        for name, array_XT in windows.items():
            filler = self.vocabulary.pad_id if name == "input_ids" else 0
            array_BWT = np.full((*is_real_BW.shape, array_XT.shape[1]), filler, np.int32)
            array_BWT[is_real_BW] = array_XT
            inputs[name] = array_BWT
        return inputs, self.targets[rows]


def room_of_last(texts: Sequence[Sequence[int]], *, max_length: int, vocabulary: Vocabulary) -> int:
    """How many pieces of the last text fit beside the others and the special pieces."""
    return max_length - sum(map(len, texts[:-1])) - vocabulary.num_specials(len(texts))


def windows_of(
    texts: tuple[Ids, ...],
    targets: np.ndarray,
    *,
    max_length: int,
    stride: int,
    vocabulary: Vocabulary,
    places: Sequence[str],
) -> EncodedWindows:
    """Each window begins `stride` pieces behind the one before, or where that one ends, if sooner.

    Raises InputError where the first text of a pair leaves the second no room.
    """
    starts, lengths = [], []
    for row, parts in enumerate(zip(*texts, strict=True)):
        room = room_of_last(parts, max_length=max_length, vocabulary=vocabulary)
        if room < 1:
            raise InputError(
                f"{places[row]} has a first text of {len(parts[0])} pieces, which leaves the "
                f"second no room; raise max_length={max_length}, or exchange the text columns"
            )
        step, length = min(stride, room), len(parts[-1])
        starts.append(range(0, max(1, length - room + step), step))
        of_last = sum(min(room, length - start) for start in starts[-1])
        lengths.append(of_last + len(starts[-1]) * (max_length - room))
    return EncodedWindows(
        texts, targets, max_length, vocabulary, starts, np.array(lengths, np.int64)
    )
