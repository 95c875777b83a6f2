"""Encodes tagged words, as tokens for a fine-tuned encoder or as features of a frozen one.

Legend: W words, M words of a batch, B rows, T tokens of a row, K layers, D hidden size.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bert_keras.downstream.ner.windows import WordTokens, WordWindows
from bert_keras.downstream.task import Encoded
from bert_keras.text.packing import packed_texts
from bert_keras.text.vocab import Vocabulary


@dataclass(frozen=True)
class TaggedWords(Encoded):
    """Rows of tokens with the tags of their words.

    The target of a word is at its first token.
    """

    tokens: WordTokens  # the tokens of all words
    rows: WordWindows  # the tokens of each row, and the row of each word
    label_ids: np.ndarray  # int32 [W]; -1 for a word without a tag, or with an unknown tag
    vocabulary: Vocabulary

    @cached_property
    def lengths(self) -> np.ndarray:
        return self.rows.lengths + 2  # [CLS] and [SEP]

    def columns(self, row: int) -> np.ndarray:
        """Returns the columns of the words of a row in its targets and outputs, int64."""
        return self.rows.word_starts[self._words(row)] + 1  # [CLS] is at 0

    def words(self, rows: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
        """Returns the words whose tags are predicted in some rows, and their positions in a batch.

        Args:
            rows: int [B], the indices of the rows.

        Returns:
            The indices of the words, int64 [M], and their (batch rows, columns), each int64 [M].
        """
        words, columns = map(self._words, rows), [*map(self.columns, rows)]
        batch_rows = np.repeat(np.arange(len(rows)), [*map(len, columns)])
        return np.concatenate([*words]), (batch_rows, np.concatenate(columns))

    def batch(self, rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        """Returns (inputs, targets, weights) of some rows.

        Inputs are int32 [B,T] by name. Targets are label ids, int32 [B,T]. Weights are float32
        [B,T]: 1 at the first token of each word that has a label and is predicted in this row, else
        0.
        """
        inputs = self.inputs(rows)
        return inputs, *self.targets(rows, width=inputs["input_ids"].shape[1])

    def inputs(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the inputs of a fine-tuned encoder for some rows by name, int32 [B,T]."""
        return packed_texts(
            self.tokens.ids,
            self.rows.starts[rows, None],
            self.rows.lengths[rows, None],
            length=int(self.rows.lengths[rows].max()) + 2,
            vocabulary=self.vocabulary,
        )

    def targets(self, rows: np.ndarray, *, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the label ids, int32, and the weights, float32, of some rows, [B, width]."""
        words, positions = self.words(rows)
        label_ids = np.zeros((len(rows), width), np.int32)
        weights = np.zeros((len(rows), width), np.float32)
        label_ids[positions] = np.maximum(self.label_ids[words], 0)
        weights[positions] = self.label_ids[words] >= 0
        return label_ids, weights

    def _words(self, row: int) -> np.ndarray:
        return np.arange(*np.searchsorted(self.rows.word_rows, (row, row + 1)))


class PositionedWords(TaggedWords):
    """Same as `TaggedWords`, but targets have one column per word, as a BertFeatureTagger needs.

    The inputs also have `word_positions`, int32 [B,W], the positions of the first tokens of the
    words. Label ids and weights are [B,W], like the logits of a BertFeatureTagger.
    """

    def columns(self, row: int) -> np.ndarray:
        return np.arange(len(self._words(row)))

    def batch(self, rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        words, positions = self.words(rows)
        width = int(positions[1].max()) + 1
        positions_BW = np.zeros((len(rows), width), np.int32)
        positions_BW[positions] = self.rows.word_starts[words] + 1
        inputs = {**self.inputs(rows), "word_positions": positions_BW}
        return inputs, *self.targets(rows, width=width)


@dataclass(frozen=True)
class WordFeatures(PositionedWords):
    """Same as `PositionedWords`, but the inputs are features of words, as a WordTagger reads them.

    `lengths` counts words instead of tokens.
    """

    vectors: list[np.ndarray]  # for each of the K layers, the features of all words, float32 [W,D]

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.bincount(self.rows.word_rows, minlength=len(self.rows.starts))

    def batch(self, rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        """Returns (inputs, targets, weights) of some rows.

        Inputs are `features`, float32 [B,W,K,D], and `word_mask`, bool [B,W]. Targets (label ids)
        and weights are [B,W].
        """
        words, positions = self.words(rows)
        word_mask_BW = np.zeros((len(rows), int(positions[1].max()) + 1), bool)
        word_mask_BW[positions] = True
        features_BWKD = np.zeros(
            (*word_mask_BW.shape, len(self.vectors), self.vectors[0].shape[1]), np.float32
        )
        for layer, vectors_WD in enumerate(self.vectors):
            features_BWKD[(*positions, layer)] = vectors_WD[words]
        inputs = {"features": features_BWKD, "word_mask": word_mask_BW}
        return inputs, *self.targets(rows, width=word_mask_BW.shape[1])
