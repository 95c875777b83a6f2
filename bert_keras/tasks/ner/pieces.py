"""Words of sentences in; their pieces laid end to end, and where each word begins, out."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from bert_keras.tasks.ner.reading import Sentence
from bert_keras.text.tokenizer import TextTokenizer


@dataclass(frozen=True)
class WordPieces:
    """M pieces of the W words of N sentences.

    `ids`, int32 [M]. `firsts`, int64 [W], are the places in `ids` of the first piece of each word;
    `bounds`, int64 [N+1], those of each sentence's first piece, and M; `word_bounds`, int64 [N+1],
    count the words before each sentence, and W.
    """

    ids: np.ndarray
    firsts: np.ndarray
    bounds: np.ndarray
    word_bounds: np.ndarray


def word_pieces(sentences: Sequence[Sentence], tokenizer: TextTokenizer) -> WordPieces:
    """Each word is tokenized by itself, behind a blank, which counts in RoBERTa. One that comes to
    nothing (control characters alone) is read as [UNK], for every word needs a piece that its tag
    is predicted from."""
    words = chain.from_iterable(sentence.words for sentence in sentences)
    ids, counts = tokenizer.flat_ids([f" {word}" for word in words])
    empty = counts == 0
    ids = np.insert(ids, (np.cumsum(counts) - counts)[empty], tokenizer.vocabulary.unk_id)
    ends = np.cumsum(np.where(empty, 1, counts))
    starts = np.concatenate([[0], ends])
    word_bounds = np.cumsum([0, *(len(sentence.words) for sentence in sentences)])
    return WordPieces(ids, starts[:-1], starts[word_bounds], word_bounds)
