"""Rows of pieces and the tags of their words in; batches that tell where each word stands, out."""

from dataclasses import dataclass

import numpy as np

from bert_keras.tasks.ner.encoded import TaggedWords
from bert_keras.tasks.task import Encoded


class PlacedWords(TaggedWords):
    """As TaggedWords, with `word_positions` int32 [B, W] beside the pieces; label ids and weights
    are [B, W] too, as the logits of a BertFeatureTagger are."""

    def columns(self, row: int) -> np.ndarray:
        return np.arange(len(self.words_of(row)))

    def batch(self, rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        words, places, shape = self.places(rows)
        positions_BW = np.zeros(shape, np.int32)
        positions_BW[places] = self.rows.word_places[words] + 1  # [CLS] stands at 0
        inputs = {**self.inputs(rows), "word_positions": positions_BW}
        return inputs, *self.targets(words, places, shape)

    def places(self, rows: np.ndarray) -> tuple[np.ndarray, tuple, tuple[int, int]]:
        """The words of these rows, int64 [M]; where each goes in [B, W]; B and W."""
        own = [*map(self.words_of, rows)]
        counts = np.array([*map(len, own)])
        columns = np.concatenate([*map(np.arange, counts)])
        places = np.repeat(np.arange(len(rows)), counts), columns
        return np.concatenate(own), places, (len(rows), int(counts.max()))


@dataclass(frozen=True)
class WordFeatures(Encoded):
    """The same rows as a WordTagger reads them: `vectors` holds one float32 [W, D] a layer, in the
    order of the words. `lengths` are in words."""

    words: PlacedWords
    vectors: list[np.ndarray]
    lengths: np.ndarray

    @classmethod
    def of(cls, words: PlacedWords, vectors: list[np.ndarray]) -> "WordFeatures":
        lengths = np.bincount(words.rows.word_rows, minlength=len(words))
        return cls(words, vectors, lengths)

    @property
    def word_bounds(self) -> np.ndarray:
        return self.words.word_bounds

    def columns(self, row: int) -> np.ndarray:
        return self.words.columns(row)

    def batch(self, rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        """`features` float32 [B, W, K, D] and `word_mask` bool [B, W]; label ids; weights."""
        words, places, shape = self.words.places(rows)
        features_BWKD = np.zeros((*shape, len(self.vectors), self.vectors[0].shape[1]), np.float32)
        for number, vectors_WD in enumerate(self.vectors):
            features_BWKD[(*places, number)] = vectors_WD[words]
        word_mask_BW = np.zeros(shape, bool)
        word_mask_BW[places] = True
        inputs = {"features": features_BWKD, "word_mask": word_mask_BW}
        return inputs, *self.words.targets(words, places, shape)
