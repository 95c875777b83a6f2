"""Rows of pieces and the tags of their words in; batches as a token classifier takes them out."""

from dataclasses import dataclass

import numpy as np

from bert_keras.tasks.ner.windows import Rows
from bert_keras.tasks.task import Encoded
from bert_keras.text.packing import packed, sequence_spans
from bert_keras.text.vocab import Vocabulary


@dataclass(frozen=True)
class TaggedWords(Encoded):
    """Rows of pieces with the tags of their words.

    `ids`, int32 [M], are all pieces end to end; `rows` tell which make a row, and where each of W
    words has its tag. `word_bounds`, int64 [N+1], count the words before each sentence, and W.
    `label_ids`, int32 [W], are -1 where the word has no tag, or one that is no label.
    """

    ids: np.ndarray
    rows: Rows
    word_bounds: np.ndarray
    label_ids: np.ndarray
    vocabulary: Vocabulary

    @property
    def lengths(self) -> np.ndarray:
        return self.rows.lengths + 2

    def columns(self, row: int) -> np.ndarray:
        """int64: where in a row, [CLS] counted, the first pieces of its words stand."""
        words = slice(*np.searchsorted(self.rows.word_rows, (row, row + 1)))
        return self.rows.word_places[words] + 1

    def batch(self, rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        """Inputs; label ids, int32 [B,T]; float32 [B,T], 1 on the first piece of words that have
        one and are the row's own, 0 on all else."""
        length = int(self.lengths[rows].max())
        spans = sequence_spans(self.rows.starts[rows, None], self.rows.lengths[rows, None])
        inputs = packed(
            self.ids, spans, num_rows=len(rows), length=length, vocabulary=self.vocabulary
        )
        first, after = np.searchsorted(self.rows.word_rows, [rows, rows + 1])
        words = np.concatenate([*map(np.arange, first, after)])
        places = np.repeat(np.arange(len(rows)), after - first), self.rows.word_places[words] + 1
        label_ids_BT = np.zeros((len(rows), length), np.int32)
        label_ids_BT[places] = np.maximum(self.label_ids[words], 0)
        weights_BT = np.zeros((len(rows), length), np.float32)
        weights_BT[places] = self.label_ids[words] >= 0
        return inputs, label_ids_BT, weights_BT
