"""Writes batches of features as TFRecord files of `tf.train.Example`s, without TensorFlow.

Features are sorted by name, so the same ones give the same bytes. Formats: protobuf wire format;
tensorflow/core/lib/io/record_writer.h.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras.data.record_file import (
    FLOATS,
    INTEGERS,
    checksum,
    feature_head,
    framed_length,
    varint,
)

# An encoded batch: bytes, uint8 [B,n], or [1,n] if they are equal for all rows; and bool [B,n],
# which of the bytes are used. None uses all bytes.
Block = tuple[np.ndarray, np.ndarray | None]


def write_record_file(output: Path, batches: Iterable[dict[str, np.ndarray]]) -> dict[str, Any]:
    """Writes batches of features and returns the entry of the manifest, with counts."""
    total, digest = Counter(), hashlib.sha256()
    with output.open("wb") as file:
        for features in batches:
            records, num_records = framed(serialized(features)), len(features["input_ids"])
            file.write(records)
            digest.update(records)
            sequences = features.get("sequence_ids", np.ones((num_records, 1), np.int64))
            total.update(
                bytes=len(records),
                records=num_records,
                sequences=int(sequences.max(axis=1).sum()),
                tokens=int(features["input_mask"].sum()),
                labels_one=int(np.sum(features.get("next_sentence_labels", 0))),
            )
    return {"file": output.name, **total, "sha256": digest.hexdigest()}


def serialized(features: dict[str, np.ndarray]) -> list[bytes]:
    """Encodes each row of features, int [B,n] from 0 to 2^32-1 or float32 [B,n], as one Example."""
    blocks: list[Block] = []
    for name in sorted(features):
        values = features[name]
        if np.issubdtype(values.dtype, np.floating):
            kind, data, used = FLOATS, np.ascontiguousarray(values, "<f4").view(np.uint8), None
        else:
            kind, (data, used) = INTEGERS, varints(values)
        if used is None:
            head = np.frombuffer(feature_head(name, kind, data.shape[1]), np.uint8)
            blocks += [(head[None], None), (data, None)]
        else:
            lengths = np.count_nonzero(used, axis=1)
            blocks += [_by_length(partial(feature_head, name, kind), lengths), (data, used)]
    sizes = sum(_sizes(block) for block in blocks) + np.zeros(len(data), np.int64)
    blocks.insert(0, _by_length(lambda n: b"\x0a" + varint(n), sizes))
    ends = (sizes + _sizes(blocks[0])).cumsum().tolist()
    flat = _joined(blocks, num_rows=len(data)).tobytes()
    return [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _sizes(block: Block) -> np.ndarray | int:
    """Returns the number of used bytes of each row, int [B], or one number for all rows."""
    data, used = block
    return data.shape[1] if used is None else np.count_nonzero(used, axis=1)


def _joined(blocks: list[Block], *, num_rows: int) -> np.ndarray:
    """Returns the used bytes of all blocks, row by row."""
    width = sum(data.shape[1] for data, _ in blocks)
    all_data, all_used = np.empty((num_rows, width), np.uint8), np.ones((num_rows, width), bool)
    end = 0
    for data, used in blocks:
        start, end = end, end + data.shape[1]
        all_data[:, start:end] = data
        if used is not None:
            all_used[:, start:end] = used
    return np.compress(all_used.ravel(), all_data.ravel())


def varints(values: np.ndarray) -> Block:
    """Encodes each row of int [B,n], with 0 <= value < 2^32, as a sequence of varints."""
    most = int(values.max(initial=0))
    if most < 128:
        return values.astype(np.uint8), None
    size = -(-most.bit_length() // 7)
    rest = values.astype(np.uint32)
    data, used = np.empty((*rest.shape, size), np.uint8), np.empty((*rest.shape, size), bool)
    used[..., 0] = True
    for byte in range(size):
        data[..., byte] = rest
        if byte + 1 < size:
            rest >>= 7
            np.greater(rest, 0, out=used[..., byte + 1])
            data[..., byte] |= 128
            data[..., byte] ^= (~used[..., byte + 1]).view(np.uint8) << 7
    return data.reshape(len(data), -1), used.reshape(len(used), -1)


def _by_length(encode: Callable[[int], bytes], lengths: np.ndarray) -> Block:
    """Applies `encode` to the length of each row."""
    distinct, rows = np.unique(lengths, return_inverse=True)
    encoded = [encode(length) for length in distinct.tolist()]
    width = max(map(len, encoded))
    data = np.frombuffer(b"".join(bytes_.ljust(width, b"\0") for bytes_ in encoded), np.uint8)
    used = np.arange(width) < np.array([[len(bytes_)] for bytes_ in encoded])
    return data.reshape(-1, width)[rows], used[rows]


def framed(records: list[bytes]) -> bytes:
    """Joins records in the format of a TFRecord file: length, its checksum, data, its checksum."""
    frames = ((framed_length(len(data)), data, checksum(data)) for data in records)
    return b"".join(part for frame in frames for part in frame)
