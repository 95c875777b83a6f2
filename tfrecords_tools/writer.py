"""Batches of features come in; TFRecord files of `tf.train.Example`s go out, the same bytes always.

Examples are encoded a batch at a time and framed without TensorFlow, whose import would bring Keras
along. Features stand in the order of their names. Formats: protobuf wire format;
tensorflow/core/lib/io/record_writer.h.
"""

import os
from collections.abc import Iterable
from functools import cache

import numpy as np

_LONGEST_VARINT = 5  # bytes: 32 bits in groups of 7


def write_records(path: str | os.PathLike, records: Iterable[list[bytes]]) -> int:
    """Writes batches of serialised examples as one TFRecord file; returns how many there were."""
    count = 0
    with open(path, "wb") as file:
        for batch in records:
            file.write(framed(batch))
            count += len(batch)
    return count


def serialized(features: dict[str, np.ndarray]) -> list[bytes]:
    """One `tf.train.Example` a row of features: int [B,n] of values from 0, or float32 [B,n]."""
    columns = [_entries(name, features[name]) for name in sorted(features)]
    examples = []
    for entries in zip(*columns, strict=True):
        body = b"".join(part for entry in entries for part in entry)
        examples.append(b"\x0a" + _varint(len(body)) + body)
    return examples


def _entries(name: str, values: np.ndarray) -> Iterable[tuple[bytes, bytes]]:
    """Head and payload of a feature's map entry, row by row."""
    if np.issubdtype(values.dtype, np.floating):
        kind, payloads = 2, [row.tobytes() for row in np.ascontiguousarray(values, "<f4")]
    else:
        kind, payloads = 3, packed_varints(values)
    return [(_head(name, kind, len(payload)), payload) for payload in payloads]


@cache
def _head(name: str, kind: int, length: int) -> bytes:
    """Everything before the packed values: Features.feature {key, Feature{list{value}}}."""
    values = b"\x0a" + _varint(length)
    listed = bytes([kind << 3 | 2]) + _varint(len(values) + length) + values
    key = b"\x0a" + _varint(len(name)) + name.encode()
    feature = b"\x12" + _varint(len(listed) + length) + listed
    return b"\x0a" + _varint(len(key) + len(feature) + length) + key + feature


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def packed_varints(values: np.ndarray) -> list[bytes]:
    """Each row of int [B,n], values from 0 below 2^32, as varints one after the other."""
    rest = np.asarray(values).astype(np.uint32)
    groups = []
    more = np.ones(rest.shape, bool)
    for _ in range(_LONGEST_VARINT):
        used = more
        more = rest > 127
        groups.append((rest.astype(np.uint8) & 127 | more.astype(np.uint8) << 7, used))
        rest = rest >> 7
        if not more.any():
            break
    used = np.stack([used for _, used in groups], axis=-1)
    flat = np.stack([group for group, _ in groups], axis=-1)[used].tobytes()
    ends = used.sum(axis=(1, 2)).cumsum().tolist()
    return [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def framed(records: list[bytes]) -> bytes:
    """Records as they stand in a TFRecord file: length, its checksum, data, its checksum."""
    lengths = np.array([len(record) for record in records], "<u8")
    heads = [row.tobytes() for row in lengths]
    frames = zip(heads, masked_crc32c(heads), records, masked_crc32c(records), strict=True)
    return b"".join(part for frame in frames for part in frame)


def masked_crc32c(messages: list[bytes]) -> list[bytes]:
    """TFRecord's checksum of each message of at least four bytes, as four bytes.

    All messages advance together, aligned at their ends: a checksum of 0 stays 0 over leading zero
    bytes, and starting at 0xffffffff is the same as inverting the first four bytes.
    """
    longest = max(map(len, messages), default=0)
    longest += longest % 2
    data = np.frombuffer(b"".join(m.rjust(longest, b"\0") for m in messages), np.uint8)
    data = data.reshape(len(messages), longest).copy()
    starts = longest - np.array([[len(message)] for message in messages])
    np.put_along_axis(
        data, starts + np.arange(4), ~np.take_along_axis(data, starts + np.arange(4), 1), 1
    )
    table = _crc_table()
    crc = np.zeros(len(messages), np.uint32)
    for two_bytes in np.ascontiguousarray(data.view("<u2").T):
        crc = table[(crc ^ two_bytes) & 0xFFFF] ^ (crc >> 16)
    crc = ~crc
    masked = ((crc >> 15) | (crc << 17)) + np.uint32(0xA282EAD8)
    return [row.tobytes() for row in masked.astype("<u4")]


@cache
def _crc_table() -> np.ndarray:
    """uint32 [65536]: what two bytes do to a CRC-32C (Castagnoli, reflected 0x82F63B78)."""
    table = np.arange(65536, dtype=np.uint32)
    for _ in range(16):
        table = (table >> 1) ^ np.where(table & 1, np.uint32(0x82F63B78), np.uint32(0))
    return table
