"""Corpus files come in; documents as ids with sentence bounds go out, and their split."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import numpy as np

from bert_keras.errors import InputError
from bert_keras.text.tokenizer import WordPieceTokenizer
from tfrecords_tools.corpus import documents as corpus_documents
from tfrecords_tools.sentences import sentences


@dataclass(frozen=True)
class Documents:
    """`pieces` int32 of all documents; each document's sentence bounds are places in it."""

    pieces: np.ndarray
    bounds: list[list[int]]  # per document: the start of each sentence, then the end of the last

    def __len__(self) -> int:
        return len(self.bounds)

    def part(self, numbers: Iterable[int]) -> "Documents":
        return Documents(self.pieces, [self.bounds[number] for number in numbers])

    @property
    def num_pieces(self) -> int:
        return sum(bounds[-1] - bounds[0] for bounds in self.bounds)


def tokenized(files: Iterable[str | os.PathLike], tokenizer: WordPieceTokenizer) -> Documents:
    """The corpus as one array of ids with the places where sentences begin."""
    parts, bounds, place = [np.empty(0, np.int32)], [], 0
    for lines in corpus_documents(files, stage="tokenize"):
        texts = [sentence for line in lines for sentence in sentences(line)]
        ids = [each for each in tokenizer.ids_batch(texts) if each]
        if not ids:
            continue
        ends = place + np.cumsum([len(each) for each in ids])
        bounds.append([place, *ends.tolist()])
        parts.append(np.fromiter(chain.from_iterable(ids), np.int32, bounds[-1][-1] - place))
        place = bounds[-1][-1]
    return Documents(np.concatenate(parts), bounds)


def split(documents: Documents, *, held_out_rate: float, seed: int) -> dict[str, Documents]:
    """`train`, and `held-out` where a rate asks for it: whole documents, chosen by the seed."""
    if held_out_rate == 0:
        return {"train": documents}
    order = np.random.default_rng(seed).permutation(len(documents)).tolist()
    num_held_out = max(2, round(held_out_rate * len(documents)))
    if len(documents) - num_held_out < 2:
        raise InputError(
            f"the corpus has {len(documents)} documents, too few to hold some out: each side needs "
            "two; put blank lines between documents or give more files"
        )
    return {
        "train": documents.part(sorted(order[num_held_out:])),
        "held-out": documents.part(sorted(order[:num_held_out])),
    }
