"""Writes the hidden states of an encoder for each line of a text file."""

import dataclasses
import json
import os
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import tensorflow as tf

from bert_keras.checkpoints.checkpoint import TextCheckpoint
from bert_keras.checkpoints.formats import open_text_checkpoint
from bert_keras.data.buckets import longest_first_batches
from bert_keras.data.schema import SEQUENCE_FEATURES
from bert_keras.downstream.ner.tags import Sentence
from bert_keras.downstream.ner.words import TaggedWords, WordTokens, sentence_rows, word_tokens
from bert_keras.errors import InputError, counted
from bert_keras.files import atomic_file, readable_size, text_lines
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.sentence_encoder import BertSentenceEncoder
from bert_keras.progress import progress
from bert_keras.text.tokenizer import TextTokenizer

Features = Iterable[tuple[Sequence[str], np.ndarray]]  # for each text: M tokens, float32 [M, K, D]


def _write_npz(path: Path, features: Features, layers: Sequence[int]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for number, (tokens, vectors_MKD) in enumerate(features):
            for name, array in ((f"{number}", vectors_MKD), (f"tokens_{number}", np.array(tokens))):
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, array, allow_pickle=False)


def _write_jsonl(path: Path, features: Features, layers: Sequence[int]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for number, (tokens, vectors_MKD) in enumerate(features):
            # The original spells the key "linex_index", and programs that read its files expect it.
            file.write(f'{{"linex_index": {number}, "features": [')
            for position, (token, vectors_KD) in enumerate(zip(tokens, vectors_MKD, strict=True)):
                values = [[round(value, 6) for value in row] for row in vectors_KD.tolist()]
                rows = [{"index": i, "values": v} for i, v in zip(layers, values, strict=True)]
                file.write(", " * bool(position) + json.dumps({"token": token, "layers": rows}))
            file.write("]}\n")


# File extension -> writer, and bytes per number. The value for .jsonl is measured; one number is
# written as "-0.123456, ".
FORMATS: dict[str, tuple[Callable[[Path, Features, Sequence[int]], None], float]] = {
    ".npz": (_write_npz, 4),
    ".jsonl": (_write_jsonl, 10.5),
}
LAYERS = (-1, -2, -3, -4)  # google-research/bert extract_features.py
UNITS = ("tokens", "words", "texts")
BATCH_SIZE = 32
# Characters of the texts that are in memory together. With BERT-base their vectors take 150 MB.
CHUNK_CHARACTERS = 50_000


def write_features(
    pretrained: str | os.PathLike,
    texts: str | os.PathLike,
    output: str | os.PathLike,
    *,
    layers: Sequence[int] | None = None,
    of: str = "tokens",
) -> None:
    """Writes the hidden states of the texts of a file, one text per line.

    A text with more tokens than the checkpoint's `max_length` is read in windows that overlap by
    half. The vector of each token comes from the window with the most context on both sides of it.

    Args:
        pretrained: The folder of a checkpoint of any format.
        texts: A UTF-8 file with one text per line.
        output: The file to write. `.npz` holds the vectors as arrays "0", "1" and so on, float32
            [tokens, layers, D], and the tokens as "tokens_0", "tokens_1" and so on; NumPy can read
            one text without the others. `.jsonl` has the format of google-research/bert
            extract_features.py, with six digits; it is 2.6 times as large and slow to read.
        layers: The layers to write: 0 for the embeddings, 1 for the first block, -1 for the last.
            The default is the last four blocks, or all blocks if there are fewer.
        of: "tokens" for a vector of every token including [CLS] and [SEP]; "words" for the vector
            of the first token of each whitespace-separated word (section 5.3); "texts" for the mean
            over all tokens of a text. With a sentence encoder, "texts" is the embedding that
            `BertSentenceEncoder.encode` returns.

    Raises:
        InputError: An argument is invalid, or a line of `texts` has no word.
    """
    if of not in UNITS:
        raise InputError(f"the unit of the vectors is {of!r}; expected one of {', '.join(UNITS)}")
    if (suffix := Path(output).suffix) not in FORMATS:
        raise InputError(
            f"{output} ends in {suffix!r}; expected .npz (NumPy) or .jsonl (the format of "
            "extract_features.py)"
        )
    write, value_size = FORMATS[suffix]
    checkpoint = open_text_checkpoint(pretrained)
    tokenizer, config = checkpoint.tokenizer, checkpoint.metadata.config
    embedding = checkpoint.metadata.embedding if of == "texts" else None
    if embedding is not None and layers is not None:
        raise InputError(
            f"{pretrained} is a {checkpoint.metadata.model}, whose embeddings of texts come from "
            "its last layer; omit --layers (layers)"
        )
    if embedding is not None:
        layers = (-1,)
    layers = LAYERS[: config.num_layers] if layers is None else layers
    indices = _state_indices(layers, num_layers=config.num_layers)
    num_texts, num_vectors = _count_texts(texts, tokenizer, of=of)
    num_values = config.hidden_size
    if embedding is not None:
        num_values = embedding.sizes(config.hidden_size)[-1]
    size = readable_size(value_size * num_vectors * len(layers) * num_values)
    vectors = f"{counted(num_vectors, 'vector')} x {counted(len(layers), 'layer')}"
    print(
        f"{counted(num_texts, 'text')}, {vectors} x {num_values} values: about {size} in {output}",
        file=sys.stderr,
    )
    make = _hidden_states if embedding is None else _embeddings
    features = make(checkpoint, pretrained, texts, indices=indices, of=of)
    with atomic_file(output) as path:
        write(path, progress(features, stage="features", unit="texts", total=num_texts), layers)


def _embeddings(
    checkpoint: TextCheckpoint, source: str | os.PathLike, texts: str | os.PathLike, **_
) -> Iterator[tuple[list[str], np.ndarray]]:
    """Yields the text and the embedding of each line of a file, float32 [1, 1, E]."""
    model = BertSentenceEncoder.from_checkpoint(
        checkpoint, metadata=checkpoint.metadata, source=source
    )
    for chunk in _chunks(texts):
        for text, vector_E in zip(chunk, model.encode(chunk), strict=True):
            yield [text], vector_E[None, None]


def _hidden_states(
    checkpoint: TextCheckpoint,
    source: str | os.PathLike,
    texts: str | os.PathLike,
    *,
    indices: list[int],
    of: str,
) -> Iterator[tuple[list[str], np.ndarray]]:
    """Yields the names and the vectors of the units of each line of a file."""
    tokenizer, config = checkpoint.tokenizer, checkpoint.metadata.config
    metadata = dataclasses.replace(
        checkpoint.metadata,
        model="BertEncoder",
        config=dataclasses.replace(config, has_pooler=False),
        labels=(),
        task={},
        embedding=None,
    )
    encoder = BertEncoder.from_checkpoint(checkpoint, metadata=metadata, source=source)

    @tf.function(
        input_signature=[dict.fromkeys(SEQUENCE_FEATURES, tf.TensorSpec((None, None), tf.int32))],
        autograph=False,
    )
    def forward(inputs):
        states = encoder.states(inputs).hidden_states
        return tf.cast(tf.stack([states[index] for index in indices], axis=2), tf.float32)

    for chunk in _chunks(texts):
        word_tokens = _word_tokens(chunk, tokenizer, of=of)
        tokens = _tokens(chunk, word_tokens, tokenizer, of=of)
        rows = sentence_rows(word_tokens, limit=metadata.max_length - 2)
        no_labels = np.full(len(word_tokens.starts), -1, np.int32)
        words = TaggedWords(word_tokens, rows, no_labels, tokenizer.vocabulary)
        vectors = _vectors(forward, words, word_tokens.bounds, has_specials=of != "words")
        for names, vectors_MKD in zip(tokens, vectors, strict=True):
            if of == "texts":
                vectors_MKD = vectors_MKD.mean(axis=0, keepdims=True)
            yield names, vectors_MKD


def _state_indices(layers: Sequence[int], *, num_layers: int) -> list[int]:
    for layer in layers:
        if not -num_layers - 1 <= layer <= num_layers:
            raise InputError(
                f"the encoder has no layer {layer}; expected 0 (the embeddings) to {num_layers} "
                f"(the last), or from the end -1 to {-num_layers - 1}"
            )
    indices = [layer % (num_layers + 1) for layer in layers]
    if len(set(indices)) < len(indices):
        raise InputError(
            f"layers {' '.join(map(str, layers))} name a layer twice; expected each layer once"
        )
    return indices


def _count_texts(texts: str | os.PathLike, tokenizer: TextTokenizer, *, of: str) -> tuple[int, int]:
    """Counts texts and vectors, and checks the whole file before any vector is computed."""
    num_texts = num_vectors = 0
    for chunk in _chunks(texts):
        bounds = _word_tokens(chunk, tokenizer, of=of).word_bounds
        if len(empty := np.flatnonzero(np.diff(bounds) == 0)):
            raise InputError(
                f"{texts}, line {num_texts + empty[0] + 1} contains no word; expected a text on "
                "every line"
            )
        num_texts += len(chunk)
        ends = 0 if of == "words" else 2 * len(chunk)
        num_vectors += len(chunk) if of == "texts" else int(bounds[-1]) + ends
    if not num_texts:
        raise InputError(f"{texts} is empty; expected a text on every line")
    return num_texts, num_vectors


def _chunks(file: str | os.PathLike) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for text in text_lines(file):
        chunk.append(text)
        size += len(text)
        if size >= CHUNK_CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _word_tokens(texts: Sequence[str], tokenizer: TextTokenizer, *, of: str) -> WordTokens:
    """Tokenizes texts; the "words" of the result are the units with a vector: words or tokens."""
    if of == "words":
        sentences = [Sentence(tuple(text.split()), None, 0, 0) for text in texts]
        return word_tokens(sentences, tokenizer)
    ids, lengths = tokenizer.flat_ids(texts)
    bounds = np.cumsum([0, *lengths])
    return WordTokens(ids, np.arange(len(ids)), bounds, bounds)


def _tokens(
    texts: Sequence[str], word_tokens: WordTokens, tokenizer: TextTokenizer, *, of: str
) -> list[list[str]]:
    """Returns the token, word or text of each vector, as one list for each text."""
    if of == "texts":
        return [[text] for text in texts]
    if of == "words":
        return [text.split() for text in texts]
    vocabulary = tokenizer.vocabulary
    ids = (
        [vocabulary.cls_id, *word_tokens.ids[a:b], vocabulary.sep_id]
        for a, b in pairwise(word_tokens.bounds)
    )
    return [[vocabulary.tokens[number] for number in each] for each in ids]


def _vectors(
    forward: Callable, words: TaggedWords, bounds: np.ndarray, *, has_specials: bool
) -> Iterator[np.ndarray]:
    """Yields the vectors of each text, float32 [M, K, D].

    `has_specials` includes the [CLS] of a text's first row and the [SEP] of its last row.
    """
    row_bounds = np.searchsorted(words.rows.starts, bounds)
    row_vectors: list[np.ndarray] = [np.empty(0)] * len(words)
    for rows in longest_first_batches(words.lengths, batch_size=BATCH_SIZE):
        inputs, *_ = words.batch(rows)
        for row, states_TKD in zip(rows, forward(inputs).numpy(), strict=True):
            columns = words.columns(row)
            if has_specials and row in row_bounds:
                columns = np.insert(columns, 0, 0)
            if has_specials and row + 1 in row_bounds:
                columns = np.append(columns, words.lengths[row] - 1)
            row_vectors[row] = states_TKD[columns]
    return (np.concatenate(row_vectors[a:b]) for a, b in pairwise(row_bounds))
