"""Encodes texts and pairs of texts for a classifier, as one or several sequences per example."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bert_keras.downstream.task import Encoded
from bert_keras.errors import InputError
from bert_keras.text.packing import pack
from bert_keras.text.vocab import Vocabulary

Ids = Sequence[Sequence[int]]  # the token ids of several texts


@dataclass(frozen=True)
class EncodedTexts(Encoded):
    """N examples of one sequence each; a batch has inputs of shape [B, T].

    A sequence that is too long loses tokens at the end of its longer text.
    """

    texts: tuple[Ids, ...]  # the token ids of the first, and of the second text of each sequence
    targets: np.ndarray | None  # of the loss, [N] or [N, num_labels]; None without a loss
    max_length: int  # maximum number of tokens of a sequence, special tokens included
    vocabulary: Vocabulary
    lengths: np.ndarray  # int64 [N], in tokens; batches group examples of similar length

    def batch(self, rows: np.ndarray) -> tuple:
        return self.inputs(rows), *self.targets_of(rows)

    def targets_of(self, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        """Returns a tuple of the targets of some rows; it is empty without a loss."""
        return () if self.targets is None else (self.targets[rows],)

    def inputs(self, sequences: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the model inputs of X sequences by name, int32 [X, T]."""
        texts = [[text[number] for number in sequences] for text in self.texts]
        return pack(*texts, vocabulary=self.vocabulary, max_length=self.max_length)


@dataclass(frozen=True)
class EncodedGroups(EncodedTexts):
    """N examples of several sequences each; a batch has inputs of shape [B, W, T].

    W is the largest number of sequences of an example in the batch. Other examples have padding
    sequences.
    """

    bounds: np.ndarray  # int [N+1]; example i has the sequences `bounds[i]` to `bounds[i + 1] - 1`

    def batch(self, rows: np.ndarray) -> tuple:
        starts, ends = self.bounds[rows], self.bounds[rows + 1]
        sequences_BW = starts[:, None] + np.arange((ends - starts).max())
        is_real_BW = sequences_BW < ends[:, None]
        inputs = {}
        for name, array_XT in self.inputs(sequences_BW[is_real_BW]).items():
            padding = self.vocabulary.pad_id if name == "input_ids" else 0
            inputs[name] = np.full((*is_real_BW.shape, array_XT.shape[1]), padding, np.int32)
            inputs[name][is_real_BW] = array_XT
        return inputs, *self.targets_of(rows)


def num_tokens(texts: tuple[Ids, ...], vocabulary: Vocabulary) -> np.ndarray:
    """Returns the number of tokens of each sequence, special tokens included, int64 [X]."""
    counts_KX = np.array([[len(ids) for ids in text] for text in texts], np.int64)
    return counts_KX.sum(axis=0) + vocabulary.num_specials(len(texts))


def windows_of(
    texts: tuple[Ids, ...],
    targets: np.ndarray,
    *,
    max_length: int,
    stride: int,
    vocabulary: Vocabulary,
    locations: Sequence[str],
) -> EncodedGroups:
    """Divides the only text, or the second of a pair, into windows of at most `max_length` tokens.

    Each window of a pair has the complete first text. A window starts `stride` tokens after the
    preceding one, or at the end of the preceding one if this is sooner. `lengths` of the result
    counts the tokens of all windows of an example.

    Raises:
        InputError: The first text of a pair leaves no tokens for the second.
    """
    first_texts, parts, bounds = [], [], [0]
    for location, (*first, divided) in zip(locations, zip(*texts, strict=True), strict=True):
        size = max_length - vocabulary.num_specials(len(texts)) - sum(map(len, first))
        if size < 1:
            raise InputError(
                f"{location} has a first text of {len(first[0])} tokens, which leaves none for the "
                "second; raise max_length, or cut long texts with long_texts=truncate"
            )
        step = min(stride, size)
        for start in range(0, max(1, len(divided) - size + step), step):
            first_texts += first
            parts.append(divided[start : start + size])
        bounds.append(len(parts))
    windows = (first_texts, parts) if first_texts else (parts,)
    lengths = np.add.reduceat(num_tokens(windows, vocabulary), bounds[:-1])
    return EncodedGroups(windows, targets, max_length, vocabulary, lengths, np.array(bounds))
