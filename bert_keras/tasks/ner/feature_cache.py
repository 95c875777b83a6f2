"""Computes the vectors of words by a frozen encoder once and keeps them on the disk."""

import hashlib
import os
import sys
from collections.abc import Sequence
from math import prod
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from bert_keras.data.buckets import longest_first_batches
from bert_keras.data.schema import SEQUENCE_FEATURES
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.feature_tagger import features_at
from bert_keras.progress import progress
from bert_keras.storage import resumed_folder, size_told, write_text
from bert_keras.tasks.ner.encoding import PlacedWords

BATCH_SIZE = 32
BATCHES_PER_MARK = 20  # what a killed run does again at most
MARK = "batches_done"
INPUTS = (*SEQUENCE_FEATURES, "word_positions")


def stored_features(
    encoder: BertEncoder, words: PlacedWords, *, numbers: Sequence[int], folder: Path
) -> list[np.ndarray]:
    """A read-only memory map float32 [W, D] of each of these hidden states, a row a word, in the
    order of the words.

    In `folder`: FINGERPRINT/layers-9-10/layer_9.npy and so on. The fingerprint is that of the
    encoder's weights and of what it reads; layers that are there under it are not computed again.
    An interrupted computation is gone on with. Raises OSError where the disk is full.
    """
    place = folder / fingerprint(encoder, words)
    if missing := [number for number in numbers if not _stored(place, number)]:
        shape = (len(words.label_ids), encoder.config.hidden_size)
        with resumed_folder(place / f"layers-{'-'.join(map(str, missing))}") as beside:
            print(
                f"{shape[0]:,} words x {len(missing)} layer{'s' * (len(missing) > 1)} x {shape[1]} "
                f"numbers: {size_told(4 * prod(shape) * len(missing))} in {place}",
                file=sys.stderr,
            )
            _compute(encoder, words, numbers=missing, shape=shape, folder=beside)
    return [np.load(_stored(place, number)[0], mmap_mode="r") for number in numbers]


def fingerprint(encoder: BertEncoder, words: PlacedWords) -> str:
    """16 hexadecimal digits of all that the vectors depend on; the tokenizer and the data file are
    in the pieces that were made of them."""
    config = encoder.config
    numbers = (config.num_heads, config.activation, config.layer_norm_epsilon)
    digest = hashlib.sha256(repr((*numbers, encoder.compute_dtype)).encode())
    for layer in (encoder.embeddings, *encoder.blocks):
        for weight in layer.weights:
            digest.update(np.ascontiguousarray(keras.ops.convert_to_numpy(weight)).data)
    for array in (words.pieces.ids, *words.rows):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]


def _stored(place: Path, number: int) -> list[Path]:
    found = place.glob(f"layers-*/layer_{number}.npy")
    return [path for path in found if path.parent.suffix != ".partial"]


def _compute(
    encoder: BertEncoder,
    words: PlacedWords,
    *,
    numbers: Sequence[int],
    shape: tuple[int, int],
    folder: Path,
) -> None:
    paths, mark = [folder / f"layer_{number}.npy" for number in numbers], folder / MARK
    if not mark.is_file():
        for path in paths:
            _reserve(path, shape)
        write_text(mark, "0")
    num_done = int(mark.read_text(encoding="ascii"))
    maps = [np.lib.format.open_memmap(path, "r+") for path in paths]

    @tf.function(
        input_signature=[dict.fromkeys(INPUTS, tf.TensorSpec((None, None), tf.int32))],
        autograph=False,
    )
    def forward(inputs):
        states = encoder.states(inputs).hidden_states
        features_BWKD = features_at(states, inputs["word_positions"], numbers)
        return tf.cast(features_BWKD[inputs["word_positions"] > 0], tf.float32)

    batches = longest_first_batches(words.lengths, batch_size=BATCH_SIZE)
    with progress(stage="features", unit="rows", total=len(words)) as bar:
        bar.update(sum(map(len, batches[:num_done])))
        for number, rows in enumerate(batches[num_done:], start=num_done + 1):
            inputs, *_ = words.batch(rows)
            vectors_WKD = np.asarray(forward(inputs))
            own, _ = words.words(rows)
            for index, array in enumerate(maps):
                array[own] = vectors_WKD[:, index]
            if number % BATCHES_PER_MARK == 0:
                for array in maps:
                    array.flush()
                write_text(mark, str(number))
            bar.update(len(rows))
    for array in maps:
        array.flush()
    mark.unlink()


def _reserve(path: Path, shape: tuple[int, int]) -> None:
    """A file of zeros whose place on the disk is taken: a memory map that outgrows a disk kills."""
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    try:
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            file.flush()
            os.posix_fallocate(file.fileno(), file.tell(), 4 * prod(shape))
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error
