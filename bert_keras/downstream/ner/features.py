"""Named entity recognition with a BiLSTM on frozen features (BERT paper, section 5.3, Table 7)."""

import hashlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from math import prod
from pathlib import Path
from typing import ClassVar, cast

import keras
import numpy as np
import tensorflow as tf

from bert_keras.architectures import FEATURE_TAGGER
from bert_keras.checkpoints.feature_layers import LAYER_CHOICES, feature_layers
from bert_keras.config import BertConfig
from bert_keras.data.buckets import longest_first_batches
from bert_keras.data.schema import SEQUENCE_FEATURES
from bert_keras.downstream.ner.encoding import PositionedWords, TaggedWords, WordFeatures
from bert_keras.downstream.ner.task import NerTask
from bert_keras.errors import InputError, check_least, check_name, counted
from bert_keras.files import readable_size, resumed_folder, write_text
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.feature_tagger import BertFeatureTagger, features_at
from bert_keras.progress import progress

BATCH_SIZE = 32
BATCHES_PER_CHECKPOINT = 20  # a run that was killed repeats at most this many batches
PROGRESS_FILE = "batches_done"  # name of the file with the number of completed batches
INPUTS = (*SEQUENCE_FEATURES, "word_positions")


@dataclass(frozen=True, kw_only=True)
class NerFeaturesTask(NerTask):
    """Same as `NerTask`, but without fine-tuning of the encoder.

    The hidden states of the first token of each word are computed once and stored. Only a two-layer
    BiLSTM on these features is trained.
    """

    # One of the paper's six choices of layers (LAYER_CHOICES). The default is the paper's best: it
    # has a dev F1 of 96.1 with BERT-base.
    layers: str = "concat-last-four"
    lstm_units: int = 768  # units of each direction

    model: ClassVar[str] = FEATURE_TAGGER.name
    freezes_encoder: ClassVar[bool] = True
    rows_type: ClassVar[type[TaggedWords]] = PositionedWords

    def __post_init__(self):
        super().__post_init__()
        check_name(self.layers, LAYER_CHOICES, what="choice of layers")
        check_least(self, 1, "lstm_units")

    def check_encoder(self, config: BertConfig) -> None:
        try:
            feature_layers(self.layers, num_layers=config.num_layers)
        except InputError as error:
            raise InputError(f"{error}; use layers=last or layers=weighted-sum-all") from error

    def trained(self, model: BertFeatureTagger) -> keras.Model:
        return model.tagger

    def prepared(
        self, encoded: TaggedWords, model: BertFeatureTagger, *, folder: Path
    ) -> WordFeatures:
        words = cast(PositionedWords, encoded)
        layers = model.tagger.feature_layers.indices
        vectors = stored_features(model.encoder, words, layers=layers, folder=folder)
        return WordFeatures(words.tokens, words.rows, words.label_ids, words.vocabulary, vectors)


def stored_features(
    encoder: BertEncoder, words: PositionedWords, *, layers: Sequence[int], folder: Path
) -> list[np.ndarray]:
    """Returns hidden states of the first token of each word, and computes them if necessary.

    The states are stored in files such as FINGERPRINT/layers-9-10/layer_9.npy in `folder`, where
    the fingerprint depends on the encoder and on its inputs. An interrupted computation continues
    from its last stored batches.

    Args:
        encoder: The encoder.
        words: The words and the rows of tokens that contain them.
        layers: The hidden states: 0 for the embeddings, i for the output of block i.
        folder: The folder of the files.

    Returns:
        A read-only memory map, float32 [W,D], for each hidden state.

    Raises:
        OSError: The disk is full.
    """
    folder /= fingerprint(encoder, words)
    if missing := [layer for layer in layers if not _stored(folder, layer)]:
        with resumed_folder(folder / f"layers-{'-'.join(map(str, missing))}") as partial:
            _compute(encoder, words, layers=missing, folder=partial)
    return [np.load(_stored(folder, layer)[0], mmap_mode="r") for layer in layers]


def fingerprint(encoder: BertEncoder, words: PositionedWords) -> str:
    """Returns a hash of everything that the hidden states depend on, as 16 hexadecimal digits.

    The tokenizer and the data file enter through the token ids.
    """
    digest = hashlib.sha256(repr((encoder.config, encoder.compute_dtype)).encode())
    for weight in encoder.weights:
        digest.update(np.ascontiguousarray(keras.ops.convert_to_numpy(weight)).data)
    for array in (words.tokens.ids, *words.rows):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]


def _stored(folder: Path, layer: int) -> list[Path]:
    paths = folder.glob(f"layers-*/layer_{layer}.npy")
    return [path for path in paths if path.parent.suffix != ".partial"]


def _compute(
    encoder: BertEncoder, words: PositionedWords, *, layers: Sequence[int], folder: Path
) -> None:
    shape = len(words.label_ids), encoder.config.hidden_size
    print(
        f"stores the features of {counted(shape[0], 'word')} x {counted(len(layers), 'layer')} x "
        f"{shape[1]} values: "
        f"{readable_size(4 * prod(shape) * len(layers))} in {folder.parent}",
        file=sys.stderr,
    )
    paths, progress_file = [folder / f"layer_{i}.npy" for i in layers], folder / PROGRESS_FILE
    if not progress_file.is_file():
        for path in paths:
            _allocate(path, shape)
        write_text(progress_file, "0")
    num_done = int(progress_file.read_text(encoding="ascii"))
    maps = [np.lib.format.open_memmap(path, "r+") for path in paths]

    @tf.function(
        input_signature=[dict.fromkeys(INPUTS, tf.TensorSpec((None, None), tf.int32))],
        autograph=False,
    )
    def forward(inputs):
        states = encoder.states(inputs).hidden_states
        features_BWKD = features_at(states, inputs["word_positions"], layers)
        return tf.cast(features_BWKD[inputs["word_positions"] > 0], tf.float32)

    batches = longest_first_batches(words.lengths, batch_size=BATCH_SIZE)
    with progress(stage="features", unit="rows", total=len(words)) as bar:
        bar.update(sum(map(len, batches[:num_done])))
        for number, rows in enumerate(batches[num_done:], start=num_done + 1):
            inputs, *_ = words.batch(rows)
            vectors_WKD = np.asarray(forward(inputs))
            indices_W, _ = words.words(rows)
            for index, array in enumerate(maps):
                array[indices_W] = vectors_WKD[:, index]
            if number % BATCHES_PER_CHECKPOINT == 0 or number == len(batches):
                for array in maps:
                    array.flush()
                write_text(progress_file, str(number))
            bar.update(len(rows))
    progress_file.unlink()


def _allocate(path: Path, shape: tuple[int, int]) -> None:
    """Creates a .npy file of zeros whose disk space is allocated.

    Without this, writing to a memory map on a full disk would kill the process. The zeros are
    written, because macOS has no `posix_fallocate`.
    """
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    try:
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            num_blocks, rest = divmod(4 * prod(shape), 2**20)
            file.writelines(repeat(bytes(2**20), num_blocks))
            file.write(bytes(rest))
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


NER_FEATURES_TASK = NerFeaturesTask(name="ner-features", max_length=128)
