"""Finds and reads TFRecord files of `tf.train.Example`s, without TensorFlow.

Formats: protobuf's wire format; tensorflow/core/lib/io/record_writer.h.
"""

import glob
import os
from collections.abc import Iterator, Sequence
from functools import cache

import google_crc32c

from bert_keras.errors import InputError
from bert_keras.files import StrPath, existing_file

FLOATS, INTEGERS = 2, 3  # numbers of the lists in `tf.train.Feature`


def record_files(records: StrPath | Sequence[StrPath]) -> list[str]:
    """Returns the sorted paths of the record files that folders, patterns or file names match.

    A folder stands for its `train*.tfrecord` files, or all its `*.tfrecord` files without these.
    Raises InputError if one of `records` matches no file.
    """
    if isinstance(records, (str, os.PathLike)):
        records = [records]
    files: set[str] = set()
    for pattern in [os.fspath(each) for each in records]:
        if os.path.isdir(pattern):
            folder = glob.escape(pattern)
            found = glob.glob(f"{folder}/train*.tfrecord") or glob.glob(f"{folder}/*.tfrecord")
        else:
            found = [file for file in (pattern, *glob.glob(pattern)) if os.path.isfile(file)]
        if not found:
            raise InputError(f"{pattern} contains or matches no *.tfrecord files; name record files")
        files.update(found)
    return sorted(files)


def read_records(path: StrPath) -> Iterator[bytes]:
    """Yields the records of a file; InputError if it is missing, truncated or corrupt."""
    with existing_file(path).open("rb", buffering=1 << 20) as file:
        size = os.fstat(file.fileno()).st_size
        while head := file.read(12):
            length = int.from_bytes(head[:8], "little")
            is_whole = length <= size and head == framed_length(length)
            data = file.read(length + 4) if is_whole else b""
            record = data[:-4]
            if len(record) != length or data[-4:] != checksum(record):
                raise InputError(f"{path} is truncated or corrupt; write the records again")
            yield record


@cache
def framed_length(length: int) -> bytes:
    """Returns the 12 bytes that precede a record of `length` bytes in a file."""
    message = length.to_bytes(8, "little")
    return message + checksum(message)


def checksum(message: bytes) -> bytes:
    """Returns the masked CRC-32C of a message as TFRecord files use it."""
    crc = google_crc32c.value(message)
    return (((crc >> 15 | crc << 17) + 0xA282EAD8) % (1 << 32)).to_bytes(4, "little")


def varint(number: int) -> bytes:
    """Returns the bytes of a number, seven bits each, the lowest ones first."""
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


@cache
def feature_head(name: str, kind: int, length: int) -> bytes:
    """Returns the bytes before `length` bytes of values: Features.feature {key, Feature{list}}."""
    values = b"\x0a" + varint(length)
    value_list = bytes([kind << 3 | 2]) + varint(len(values) + length) + values
    key = b"\x0a" + varint(len(name)) + name.encode()
    feature = b"\x12" + varint(len(value_list) + length) + value_list
    return b"\x0a" + varint(len(key) + len(feature) + length) + key + feature


def packed_features(record: bytes) -> dict[str, tuple[int, bytes]]:
    """Returns by name the kind and the bytes of the values of each feature of an example.

    Raises ValueError if the bytes are not an example in any form that protobuf allows.
    """
    features = {}
    for part, entries in _fields(record):
        for _, entry in _fields(entries) if part == 1 else ():
            parts = dict(_fields(entry))
            for kind, values in _fields(parts.get(2, b"")):
                packed = b"".join(value for _, value in _fields(values))
                features[parts.get(1, b"").decode()] = kind, packed
    return features


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the number and the bytes of each field of a message."""
    at = 0
    while at < len(message):
        tag, at = _number_at(message, at)
        wire_type = tag & 7
        if wire_type == 2:
            size, at = _number_at(message, at)
            end = at + size
        elif wire_type == 0:
            _, end = _number_at(message, at)
        else:
            end = at + {1: 8, 5: 4}.get(wire_type, len(message))
        if end > len(message):
            raise ValueError("a field ends after its message, or its wire type is unknown")
        yield tag >> 3, message[at:end]
        at = end


def _number_at(message: bytes, at: int) -> tuple[int, int]:
    """Returns the varint that starts at a position, and the position after it."""
    number = 0
    for shift, byte in zip(range(0, 70, 7), message[at : at + 10], strict=False):
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at + shift // 7 + 1
    raise ValueError("a varint has no end")
