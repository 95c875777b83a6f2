"""Batches of tagged words: of pieces for a fine-tuned model, of features for a frozen one."""

import abc
from dataclasses import dataclass, field

import numpy as np

from bert_keras.tasks.ner.windows import WordWindows
from bert_keras.tasks.task import Encoded
from bert_keras.text.packing import packed, sequence_spans
from bert_keras.text.vocab import Vocabulary


class WordRows(Encoded):
    """Rows of words, each of which has one tag."""

    word_bounds: np.ndarray  # int64 [N+1]: the number of words before each sentence, and of all

    @abc.abstractmethod
    def columns(self, row: int) -> np.ndarray:
        """int64: where in a row's outputs those of its words are."""


@dataclass(frozen=True)
class TaggedWords(WordRows):
    """Rows of pieces with the tags of their words.

    `ids`, int32 [M], are all pieces end to end; `rows` tell which make a row, and where each of W
    words has its tag. `word_bounds`, int64 [N+1], count the words before each sentence, and W.
    `label_ids`, int32 [W], are -1 where the word has no tag, or one that is no label.
    """

    ids: np.ndarray
    rows: WordWindows
    word_bounds: np.ndarray
    label_ids: np.ndarray
    vocabulary: Vocabulary
    lengths: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengths", self.rows.lengths + 2)  # [CLS] and [SEP]

    def words_of(self, row: int) -> np.ndarray:
        """int64: the numbers of the words that have their tag in a row."""
        return np.arange(*np.searchsorted(self.rows.word_rows, (row, row + 1)))

    def columns(self, row: int) -> np.ndarray:
        """int64: where in a row, [CLS] counted, the first pieces of its words stand."""
        return self.rows.word_places[self.words_of(row)] + 1

    def batch(self, rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        """Inputs; label ids, int32 [B,T]; float32 [B,T], 1 on the first piece of words that have
        one and are the row's own, 0 on all else."""
        inputs = self.inputs(rows)
        own = [*map(self.words_of, rows)]
        words = np.concatenate(own)
        row_places = np.repeat(np.arange(len(rows)), [*map(len, own)])
        places = row_places, self.rows.word_places[words] + 1
        return inputs, *self.targets(words, places, inputs["input_ids"].shape)

    def inputs(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        return packed(
            self.ids,
            sequence_spans(self.rows.starts[rows, None], self.rows.lengths[rows, None]),
            num_rows=len(rows),
            length=int(self.lengths[rows].max()),
            vocabulary=self.vocabulary,
        )

    def targets(self, words: np.ndarray, places: tuple, shape: tuple[int, int]) -> tuple:
        """Label ids, int32, and float32, 1 on words that have one, with the words at `places`."""
        label_ids, weights = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
        label_ids[places] = np.maximum(self.label_ids[words], 0)
        weights[places] = self.label_ids[words] >= 0
        return label_ids, weights


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
class WordFeatures(WordRows):
    """The same rows as a WordTagger reads them: `vectors` holds one float32 [W, D] a layer, in the
    order of the words. `lengths` are in words."""

    words: PlacedWords
    vectors: list[np.ndarray]
    lengths: np.ndarray = field(init=False)
    word_bounds: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        lengths = np.bincount(self.words.rows.word_rows, minlength=len(self.words))
        object.__setattr__(self, "lengths", lengths)
        object.__setattr__(self, "word_bounds", self.words.word_bounds)

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
