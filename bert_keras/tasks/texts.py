"""Encodes texts and pairs of texts for a classifier: one or several sequences an example."""

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

    texts: tuple[Ids, ...]  # the token ids of the first, and of the second text of each sequence
    targets: np.ndarray
    max_length: int
    vocabulary: Vocabulary
    lengths: np.ndarray

    def batch(self, rows: np.ndarray) -> tuple:
        return self.inputs(rows), self.targets[rows]

    def inputs(self, sequences: np.ndarray) -> dict[str, np.ndarray]:
        """Int32 [X, T] by name, of these sequences."""
        texts = [[text[number] for number in sequences] for text in self.texts]
        return pack(*texts, vocabulary=self.vocabulary, max_length=self.max_length)


@dataclass(frozen=True)
class EncodedGroups(EncodedTexts):
    """Inputs [B, W, T]: each example has as many sequences as it needs, the rest of W is padding.

    The sequences of example i are `bounds[i]` to `bounds[i + 1]`.
    """

    bounds: np.ndarray  # int [N+1]

    def batch(self, rows: np.ndarray) -> tuple:
        starts, ends = self.bounds[rows], self.bounds[rows + 1]
        sequences_BW = starts[:, None] + np.arange((ends - starts).max())
        is_real_BW = sequences_BW < ends[:, None]
        inputs = {}
        for name, array_XT in self.inputs(sequences_BW[is_real_BW]).items():
            filler = self.vocabulary.pad_id if name == "input_ids" else 0
            inputs[name] = np.full((*is_real_BW.shape, array_XT.shape[1]), filler, np.int32)
            inputs[name][is_real_BW] = array_XT
        return inputs, self.targets[rows]


def num_tokens(texts: tuple[Ids, ...], vocabulary: Vocabulary) -> np.ndarray:
    """int64 [X]: the tokens of each sequence, [CLS] and [SEP] included."""
    counts_KX = np.array([[len(ids) for ids in text] for text in texts], np.int64)
    return counts_KX.sum(axis=0) + vocabulary.num_specials(len(texts))


def windows_of(
    texts: tuple[Ids, ...],
    targets: np.ndarray,
    *,
    max_length: int,
    stride: int,
    vocabulary: Vocabulary,
    places: Sequence[str],
) -> EncodedGroups:
    """Divide the only text, or the second of a pair, into windows; each has the whole first text.

    A window begins `stride` tokens after the previous one, or where that one ends, if sooner.
    `lengths` counts the tokens of all windows of an example. `places` are named in errors.

    Raises:
        InputError: where the first text of a pair leaves no tokens for the second.
    """
    firsts, lasts, bounds = [], [], [0]
    for place, (*first, last) in zip(places, zip(*texts, strict=True), strict=True):
        size = max_length - vocabulary.num_specials(len(texts)) - sum(map(len, first))
        if size < 1:
            raise InputError(
                f"{place} has a first text of {len(first[0])} pieces, which leaves the second no "
                f"room; raise max_length={max_length}, or exchange the text columns"
            )
        step = min(stride, size)
        for start in range(0, max(1, len(last) - size + step), step):
            firsts += first
            lasts.append(last[start : start + size])
        bounds.append(len(lasts))
    windows = (firsts, lasts) if firsts else (lasts,)
    lengths = np.add.reduceat(num_tokens(windows, vocabulary), bounds[:-1])
    return EncodedGroups(windows, targets, max_length, vocabulary, lengths, np.array(bounds))
