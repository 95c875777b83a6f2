"""Writes a file of an encoder's vectors of every text of a file."""

import contextlib
import dataclasses
import json
import os
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count, pairwise
from pathlib import Path

import numpy as np
import tensorflow as tf

from bert_keras.architectures import ENCODER
from bert_keras.checkpoints.formats import open_text_checkpoint
from bert_keras.data.buckets import longest_first_batches
from bert_keras.data.schema import SEQUENCE_FEATURES
from bert_keras.errors import InputError
from bert_keras.models.encoder import BertEncoder
from bert_keras.progress import progress
from bert_keras.storage import size_told, text_lines, whole_file
from bert_keras.tasks.ner.encoding import TaggedWords
from bert_keras.tasks.ner.files import Sentence
from bert_keras.tasks.ner.windows import WordPieces, own_reach, rows_around, word_pieces
from bert_keras.text.tokenizer import TextTokenizer

# Bytes of a number; those of .jsonl as measured: "-0.123456, ".
SIZES = {".npz": 4, ".jsonl": 10.5}


def number_size(path: str | os.PathLike) -> float:
    """Bytes that one number takes; raises InputError for a name that ends in no known format."""
    if (ending := Path(path).suffix) not in SIZES:
        raise InputError(
            f"{path} ends in {ending!r}; expected .npz (NumPy's) or .jsonl (as extract_features.py)"
        )
    return SIZES[ending]


@contextlib.contextmanager
def feature_file(
    path: str | os.PathLike, *, layers: Sequence[int]
) -> Iterator[Callable[[int, Sequence[str], np.ndarray], None]]:
    """A way to write text after text: its number from 0, M tokens, vectors float32 [M, K, D].

    `.npz`: arrays "0", "1" and so on of the vectors, as they are, and "tokens_0", "tokens_1"; numpy
    reads one text without the rest. `.jsonl`: the lines of google-research/bert
    extract_features.py, numbers rounded to six digits: 2.6 times as large, and slow to read.
    """
    write = {".npz": _npz, ".jsonl": _jsonl}[Path(path).suffix]
    with whole_file(path) as beside, write(beside, layers) as add:
        yield add


@contextlib.contextmanager
def _npz(path: Path, layers: Sequence[int]):
    def add(number: int, tokens: Sequence[str], vectors_MKD: np.ndarray) -> None:
        for name, array in ((f"{number}", vectors_MKD), (f"tokens_{number}", np.array(tokens))):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)

    with zipfile.ZipFile(path, "w") as archive:
        yield add


@contextlib.contextmanager
def _jsonl(path: Path, layers: Sequence[int]):
    def add(number: int, tokens: Sequence[str], vectors_MKD: np.ndarray) -> None:
        # "linex_index" is how the original spells it, and what its readers ask for.
        file.write(f'{{"linex_index": {number}, "features": [')
        for place, (token, vectors_KD) in enumerate(zip(tokens, vectors_MKD, strict=True)):
            values = [[round(number, 6) for number in each] for each in vectors_KD.tolist()]
            told = [{"index": i, "values": v} for i, v in zip(layers, values, strict=True)]
            file.write(", " * bool(place) + json.dumps({"token": token, "layers": told}))
        file.write("]}\n")

    with path.open("w", encoding="utf-8") as file:
        yield add


LAYERS = (-1, -2, -3, -4)  # google-research/bert extract_features.py
UNITS = ("pieces", "words", "texts")
BATCH_SIZE = 32
CHUNK_CHARACTERS = 50_000  # of the texts in memory together: 150 MB of vectors of BERT-base


def write_features(
    pretrained: str | os.PathLike,
    texts: str | os.PathLike,
    output: str | os.PathLike,
    *,
    layers: Sequence[int] | None = None,
    of: str = "pieces",
) -> None:
    """Vectors of the texts of a file, one a line.

    `layers`: 0 the embeddings, 1 the first block and so on, or -1 the last, -2 the one before; the
    last four unless given, or all blocks where there are fewer. `of`
    "pieces" gives a vector for every piece, [CLS] and [SEP] too; "words" that of the first piece of
    each word between spaces (section 5.3); "texts" the mean over all pieces, as
    sentence-transformers pools. A text of more pieces than the checkpoint's `max_length` is read in
    windows that overlap by half: nothing is cut, and each piece has its vector from the window in
    which most stands on both its sides. `output`: see `feature_file`. Raises InputError, naming the
    line, for a text without a word.
    """
    if of not in UNITS:
        raise InputError(f"vectors of {of!r} were asked for; expected one of {', '.join(UNITS)}")
    size = number_size(output)
    checkpoint = open_text_checkpoint(pretrained)
    tokenizer, config = checkpoint.tokenizer, checkpoint.card.config
    layers = LAYERS[: config.num_layers] if layers is None else layers
    numbers = [_state_number(layer, num_layers=config.num_layers) for layer in layers]
    if len(set(numbers)) < len(numbers):
        raise InputError(
            f"layers {' '.join(map(str, layers))} were asked for; expected each layer once"
        )
    num_texts, num_vectors = _counts(texts, tokenizer, of=of)
    told = size_told(size * num_vectors * len(layers) * config.hidden_size)
    print(
        f"{_counted(num_texts, 'text')}, {_counted(num_vectors, 'vector')} x "
        f"{_counted(len(layers), 'layer')} x {config.hidden_size} numbers: about {told} in "
        f"{output}",
        file=sys.stderr,
    )
    card = dataclasses.replace(
        checkpoint.card,
        model=ENCODER.name,
        config=dataclasses.replace(config, has_pooler=False),
        labels=(),
        task={},
    )
    encoder = BertEncoder.from_checkpoint(checkpoint, card=card, source=pretrained)

    @tf.function(
        input_signature=[dict.fromkeys(SEQUENCE_FEATURES, tf.TensorSpec((None, None), tf.int32))]
    )
    def forward(inputs):
        states = encoder.states(inputs).hidden_states
        return tf.cast(tf.stack([states[number] for number in numbers], axis=2), tf.float32)

    next_number = count()
    with (
        progress(stage="features", unit="texts", total=num_texts) as bar,
        feature_file(output, layers=layers) as add,
    ):
        for chunk in _chunks(text_lines(texts)):
            pieces = _pieces(chunk, tokenizer, of=of)
            tokens = _tokens(chunk, pieces, tokenizer, of=of)
            encoded = _rows(pieces, tokenizer, max_length=card.max_length)
            vectors = _vectors(forward, encoded, pieces.bounds, with_ends=of != "words")
            for names, vectors_MKD in zip(tokens, vectors, strict=True):
                if of == "texts":
                    vectors_MKD = vectors_MKD.mean(axis=0, keepdims=True)
                add(next(next_number), names, vectors_MKD)
                bar.update(1)


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'s' * (count != 1)}"


def _state_number(layer: int, *, num_layers: int) -> int:
    if not -num_layers - 1 <= layer <= num_layers:
        raise InputError(
            f"layer {layer} was asked for; expected 0 (the embeddings) to {num_layers} (the last), "
            f"or from the end -1 to {-num_layers - 1}"
        )
    return layer % (num_layers + 1)


def _counts(texts: str | os.PathLike, tokenizer: TextTokenizer, *, of: str) -> tuple[int, int]:
    """Of texts and of vectors; the whole file is checked before anything is computed."""
    num_texts = num_vectors = 0
    for chunk in _chunks(text_lines(texts)):
        bounds = _pieces(chunk, tokenizer, of=of).word_bounds
        if len(empty := np.flatnonzero(np.diff(bounds) == 0)):
            raise InputError(
                f"{texts}, line {num_texts + empty[0] + 1} holds no word; expected a text on every "
                "line"
            )
        num_texts += len(chunk)
        ends = 0 if of == "words" else 2 * len(chunk)
        num_vectors += len(chunk) if of == "texts" else int(bounds[-1]) + ends
    if not num_texts:
        raise InputError(f"{texts} is empty; expected a text on every line")
    return num_texts, num_vectors


def _chunks(texts: Iterable[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for text in texts:
        chunk.append(text)
        size += len(text)
        if size >= CHUNK_CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _pieces(texts: Sequence[str], tokenizer: TextTokenizer, *, of: str) -> WordPieces:
    """What has a vector is a word here: a piece, unless words were asked for."""
    if of == "words":
        sentences = [Sentence(tuple(text.split()), None, 0, 0) for text in texts]
        return word_pieces(sentences, tokenizer)
    ids = tokenizer.ids_batch(texts)
    bounds = np.cumsum([0, *map(len, ids)])
    flat = np.fromiter(chain.from_iterable(ids), np.int32, bounds[-1])
    return WordPieces(flat, np.arange(len(flat)), bounds, bounds)


def _tokens(
    texts: Sequence[str], pieces: WordPieces, tokenizer: TextTokenizer, *, of: str
) -> list[list[str]]:
    """What each vector is of."""
    if of == "texts":
        return [[text] for text in texts]
    if of == "words":
        return [text.split() for text in texts]
    names = tokenizer.vocabulary.pieces
    return [
        ["[CLS]", *(names[number] for number in pieces.ids[a:b]), "[SEP]"]
        for a, b in pairwise(pieces.bounds)
    ]


def _rows(pieces: WordPieces, tokenizer: TextTokenizer, *, max_length: int) -> TaggedWords:
    rows = rows_around(pieces, own_reach(pieces), limit=max_length - 2)
    no_labels = np.full(len(pieces.firsts), -1, np.int32)
    return TaggedWords(pieces.ids, rows, pieces.word_bounds, no_labels, tokenizer.vocabulary)


def _vectors(
    forward: Callable, encoded: TaggedWords, bounds: np.ndarray, *, with_ends: bool
) -> Iterator[np.ndarray]:
    """Of each text, float32 [M, K, D]; `with_ends`: the first row's [CLS], the last one's [SEP]."""
    row_bounds = np.searchsorted(encoded.rows.starts, bounds)
    found: list[np.ndarray] = [np.empty(0)] * len(encoded)
    for rows in longest_first_batches(encoded.lengths, batch_size=BATCH_SIZE):
        inputs, *_ = encoded.batch(rows)
        for row, states_TKD in zip(rows, forward(inputs).numpy(), strict=True):
            columns = encoded.columns(row)
            if with_ends and row in row_bounds:
                columns = np.insert(columns, 0, 0)
            if with_ends and row + 1 in row_bounds:
                columns = np.append(columns, encoded.lengths[row] - 1)
            found[row] = states_TKD[columns]
    return (np.concatenate(found[a:b]) for a, b in pairwise(row_bounds))
