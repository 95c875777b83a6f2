"""Writes the hidden states of an encoder for each line of a text file."""

import dataclasses
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from bert_keras.checkpoints.checkpoint import TextCheckpoint
from bert_keras.checkpoints.formats import open_text_checkpoint
from bert_keras.data.buckets import longest_first_batches
from bert_keras.data.schema import SEQUENCE_FEATURES
from bert_keras.downstream.ner.tags import Sentence
from bert_keras.downstream.ner.words import TaggedWords, WordTokens, sentence_rows, word_tokens
from bert_keras.errors import InputError, check
from bert_keras.files import StrPath, atomic_file, text_lines
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.sentence_encoder import BertSentenceEncoder
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


WRITERS = {".npz": _write_npz, ".jsonl": _write_jsonl}
LAYERS = (-1, -2, -3, -4)  # google-research/bert extract_features.py
UNITS = ("tokens", "words", "texts")
BATCH_SIZE = 32
# Characters of the texts that are in memory together. With BERT-base their vectors take 150 MB.
CHUNK_CHARACTERS = 50_000


def write_features(
    pretrained: StrPath,
    texts: StrPath,
    output: StrPath,
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
    check(of in UNITS, f"the unit of the vectors is {of!r}; expected one of {', '.join(UNITS)}")
    write = WRITERS.get(Path(output).suffix)
    if write is None:
        raise InputError(f"{output}: expected a name that ends in .npz or .jsonl")
    checkpoint = open_text_checkpoint(pretrained)
    num_layers = checkpoint.metadata.config.num_layers
    is_embedding = of == "texts" and checkpoint.metadata.embedding is not None
    check(
        layers is None or not is_embedding,
        f"{pretrained} computes embeddings of texts from its last layer; omit --layers (layers)",
    )
    layers = (LAYERS[: 1 if is_embedding else num_layers]) if layers is None else layers
    indices = [layer % (num_layers + 1) for layer in layers if abs(layer) <= num_layers + 1]
    check(
        len({*indices}) == len(layers) and num_layers + 1 not in layers,
        f"layers are {' '.join(map(str, layers))}; expected 0 (the embeddings) to {num_layers} "
        f"(the last), or from the end -1 to {-num_layers - 1}, each layer once",
    )
    if is_embedding:
        features = _embeddings(checkpoint, pretrained, texts)
    else:
        features = _hidden_states(checkpoint, pretrained, texts, indices=indices, of=of)
    with atomic_file(output) as path:
        write(path, tqdm(features, desc="features", unit=" texts"), layers)


def _embeddings(
    checkpoint: TextCheckpoint, source: StrPath, texts: StrPath
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
    source: StrPath,
    texts: StrPath,
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


def _chunks(texts: StrPath) -> Iterator[list[str]]:
    """Yields the lines of a file, some at a time; each must have a word."""
    chunk: list[str] = []
    number = size = 0
    for number, text in enumerate(text_lines(texts), start=1):
        check(
            text.strip(), f"{texts}, line {number} contains no word; expected a text on each line"
        )
        chunk.append(text)
        size += len(text)
        if size >= CHUNK_CHARACTERS:
            yield chunk
            chunk, size = [], 0
    check(number, f"{texts} is empty; expected a text on each line")
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
