"""Writes the hidden states of an encoder for each line of a text file."""

import dataclasses
import json
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from keras import ops
from tqdm import tqdm

from bert_keras.checkpoints.formats import open_text_checkpoint
from bert_keras.data.buckets import longest_first_batches, num_columns
from bert_keras.data.schema import SEQUENCE_FEATURES
from bert_keras.distribution.forward import compiled
from bert_keras.errors import InputError, check
from bert_keras.files import StrPath, atomic_file, existing_file, text_lines
from bert_keras.models.encoder import BertEncoder
from bert_keras.text.encode import encode
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
BATCH_SIZE = 32
# Characters of the texts that are in memory together. With BERT-base their vectors take 150 MB.
CHUNK_CHARACTERS = 50_000


def write_features(
    pretrained: StrPath, texts: StrPath, output: StrPath, *, layers: Sequence[int] | None = None
) -> None:
    """Writes the hidden states of every token, including [CLS] and [SEP], of the texts of a file.

    A text with more tokens than the checkpoint's `max_length` is cut, as in the original.

    Args:
        pretrained: The folder of a checkpoint of any format.
        texts: A UTF-8 file with one text per line.
        output: The file to write. `.npz` holds the vectors as arrays "0", "1" and so on, float32
            [tokens, layers, D], and the tokens as "tokens_0", "tokens_1" and so on; NumPy can read
            one text without the others. `.jsonl` has the format of google-research/bert
            extract_features.py, with six digits; it is 2.6 times as large and slow to read.
        layers: The layers to write: 0 for the embeddings, 1 for the first block, -1 for the last.
            The default is the last four blocks, or all blocks if there are fewer.

    Raises:
        InputError: An argument is invalid, or a line of `texts` has no word.
    """
    write = WRITERS.get(Path(output).suffix)
    if write is None:
        raise InputError(f"{output}: expected a name that ends in .npz or .jsonl")
    existing_file(texts)
    checkpoint = open_text_checkpoint(pretrained)
    num_layers = checkpoint.metadata.config.num_layers
    layers = LAYERS[:num_layers] if layers is None else layers
    indices = [layer % (num_layers + 1) for layer in layers if abs(layer) <= num_layers + 1]
    check(
        len({*indices}) == len(layers) and num_layers + 1 not in layers,
        f"layers are {' '.join(map(str, layers))}; expected 0 (the embeddings) to {num_layers} "
        f"(the last), or from the end -1 to {-num_layers - 1}, each layer once",
    )
    metadata = checkpoint.metadata.of_model(
        "BertEncoder",
        keeps_head=False,
        config=dataclasses.replace(checkpoint.metadata.config, has_pooler=False),
    )
    encoder = BertEncoder.from_checkpoint(checkpoint, metadata=metadata, source=pretrained)
    features = _hidden_states(encoder, checkpoint.tokenizer, _chunks(texts), indices=indices)
    with atomic_file(output) as path:
        write(path, tqdm(features, desc="features", unit=" texts"), layers)


def _hidden_states(
    encoder: BertEncoder,
    tokenizer: TextTokenizer,
    chunks: Iterable[list[str]],
    *,
    indices: list[int],
) -> Features:
    def chosen_states(inputs):
        states = encoder.states(inputs).hidden_states
        return ops.cast(ops.stack([states[index] for index in indices], axis=2), "float32")

    forward = compiled(chosen_states, encoder, names=SEQUENCE_FEATURES)
    most = encoder.metadata.max_length
    for chunk in chunks:
        inputs = encode(tokenizer, chunk, max_length=most)
        lengths = np.count_nonzero(inputs["input_mask"], axis=1)
        vectors: list[np.ndarray] = [np.empty(0)] * len(chunk)
        for rows in longest_first_batches(lengths, batch_size=BATCH_SIZE):
            columns = num_columns(lengths[rows[0]], most)
            batch = {name: array[rows, :columns] for name, array in inputs.items()}
            for row, states_TKD in zip(rows, np.asarray(forward(batch)), strict=True):
                vectors[row] = states_TKD[: lengths[row]]
        for ids, vectors_MKD in zip(inputs["input_ids"], vectors, strict=True):
            tokens = [tokenizer.vocabulary.tokens[each] for each in ids[: len(vectors_MKD)]]
            yield tokens, vectors_MKD


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
