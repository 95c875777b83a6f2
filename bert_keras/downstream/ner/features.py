"""Named entity recognition with a BiLSTM on frozen features (BERT paper, section 5.3, Table 7)."""

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
from tqdm import tqdm

from bert_keras.config import LAYER_CHOICES, BertConfig, feature_layers
from bert_keras.data.encoded import longest_first_batches, num_columns
from bert_keras.data.record_file import SEQUENCE_FEATURES
from bert_keras.downstream.ner.task import NerTask
from bert_keras.errors import check_least, check_name
from bert_keras.fields import setting
from bert_keras.files import atomic_folder, readable_size
from bert_keras.kinds.words import TaggedWords

if TYPE_CHECKING:  # a task checks its data before Keras is imported
    import keras

    from bert_keras.models.encoder import BertEncoder
    from bert_keras.models.feature_tagger import BertFeatureTagger

BATCH_SIZE = 32
ROWS_AT_ONCE = 20 * BATCH_SIZE  # adjacent rows, which are sorted by length for their batches
INPUTS = (*SEQUENCE_FEATURES, "word_positions")


class PositionedWords(TaggedWords):
    """Same as `TaggedWords`, but a column of the targets is a word; inputs have its position."""

    def columns(self, row: int) -> np.ndarray:
        return np.arange(len(self._words(row)))

    def batch(self, rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        words, positions = self.words(rows)
        width = num_columns(int(positions[1].max()) + 1, int(self.lengths.max()))
        positions_BW = np.zeros((len(rows), width), np.int32)
        positions_BW[positions] = self.rows.word_starts[words] + 1
        inputs = {**self.inputs(rows), "word_positions": positions_BW}
        return inputs, *self.targets(rows, width=width)


@dataclass(frozen=True)
class WordFeatures(PositionedWords):
    """Rows with the inputs of a WordTagger: `features`, float32 [B,W,K,D], and `word_mask`."""

    # For each of the K layers, the features of all words, float32 [W,D].
    vectors: list[np.ndarray] = field(kw_only=True)

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.bincount(self.rows.word_rows, minlength=len(self.rows.starts))

    def batch(self, rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        words, positions = self.words(rows)
        word_mask_BW = np.zeros((len(rows), self.num_columns(rows)), bool)
        word_mask_BW[positions] = True
        shape = (*word_mask_BW.shape, len(self.vectors), self.vectors[0].shape[1])
        features_BWKD = np.zeros(shape, np.float32)
        for layer, vectors_WD in enumerate(self.vectors):
            features_BWKD[(*positions, layer)] = vectors_WD[words]
        inputs = {"features": features_BWKD, "word_mask": word_mask_BW}
        return inputs, *self.targets(rows, width=word_mask_BW.shape[1])


@dataclass(frozen=True, kw_only=True)
class NerFeaturesTask(NerTask):
    """NER by a two-layer BiLSTM on stored hidden states of the first token of each word."""

    layers: str = setting("concat-last-four", "one of the paper's six choices of layers")
    lstm_units: int = setting(768, "units of each direction")

    model: ClassVar[str] = "BertFeatureTagger"
    freezes_encoder: ClassVar[bool] = True
    rows_type: ClassVar[type[TaggedWords]] = PositionedWords

    def __post_init__(self):
        super().__post_init__()
        check_name(self.layers, LAYER_CHOICES, what="choice of layers")
        check_least(self, 1, "lstm_units")

    def check_encoder(self, config: BertConfig) -> None:
        super().check_encoder(config)
        feature_layers(self.layers, num_layers=config.num_layers)

    def trained(self, model: "BertFeatureTagger") -> "keras.Model":
        return model.tagger

    def prepared(
        self, encoded: TaggedWords, model: "BertFeatureTagger", *, folder: Path
    ) -> WordFeatures:
        """Returns rows with the hidden states of the first token of each word.

        The states are computed unless `folder` has them. They are read-only memory maps, float32
        [W,D], of files such as DIGEST/layer_9.npy, with a digest of the encoder, words and layers.
        """
        import keras

        words, encoder = cast(PositionedWords, encoded), model.encoder
        layers = model.tagger.feature_layers
        arguments = (encoder.config, encoder.compute_dtype, layers)
        digest = hashlib.sha256(repr(arguments).encode())
        for array in (*encoder.weights, words.tokens.ids, *words.rows):
            digest.update(np.ascontiguousarray(keras.ops.convert_to_numpy(array)).data)
        folder /= digest.hexdigest()[:16]
        if not folder.is_dir():
            shape = (len(words.label_ids), encoder.config.hidden_size)
            size = readable_size(4 * shape[0] * shape[1] * len(layers))
            print(f"stores features of {shape[0]:,} words, {size}, in {folder}", file=sys.stderr)
            folder.parent.mkdir(parents=True, exist_ok=True)
            with atomic_folder(folder) as new_folder:
                paths = [new_folder / f"layer_{layer}.npy" for layer in layers]
                arrays = [np.lib.format.open_memmap(p, "w+", np.float32, shape) for p in paths]
                _write_features(encoder, words, layers, arrays)
        vectors = [np.load(folder / f"layer_{layer}.npy", "r") for layer in layers]
        return WordFeatures(
            words.tokens, words.rows, words.label_ids, words.vocabulary, vectors=vectors
        )


def _write_features(
    encoder: "BertEncoder", words: PositionedWords, layers: Sequence[int], arrays: Sequence
) -> None:
    """Writes the features of all words into an array for each layer, float32 [W,D]."""
    import keras

    from bert_keras.distribution.model import compile_call
    from bert_keras.models.feature_tagger import features_at

    def states_of_words(inputs):
        states = encoder.states(inputs).hidden_states
        return keras.ops.cast(features_at(states, inputs["word_positions"], layers), "float32")

    forward = compile_call(states_of_words, encoder, names=INPUTS)
    with tqdm(total=len(words), desc="features", unit=" rows") as bar:
        for first in range(0, len(words), ROWS_AT_ONCE):
            rows = np.arange(first, min(first + ROWS_AT_ONCE, len(words)))
            for batch in longest_first_batches(words.lengths[rows], batch_size=BATCH_SIZE):
                inputs, *_ = words.batch(rows[batch])
                indices, _ = words.words(rows[batch])
                vectors_MKD = np.asarray(forward(inputs))[inputs["word_positions"] > 0]
                for index, array in enumerate(arrays):
                    array[indices] = vectors_MKD[:, index]
                bar.update(len(batch))
    for array in arrays:
        array.flush()


NER_FEATURES_TASK = NerFeaturesTask(name="ner-features", max_length=128)
