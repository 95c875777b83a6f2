"""Defines the features of a pretraining record, and reads and writes files without TensorFlow.

The names come from google-research/bert `create_pretraining_data.py`, whose files can be used
unchanged. `next_sentence_labels` is 1 for a random second text and 0 for the actual next text.
A file is a TFRecord file (tensorflow/core/lib/io/record_writer.h) of `tf.train.Example`s in the
wire format of protobuf. Features are sorted by name, so equal features give equal bytes.

Legend: T positions of a record, P predictions of a record, S sequences of a record.
"""

import glob
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import google_crc32c
import numpy as np

from bert_keras.errors import InputError, check_least, counted
from bert_keras.files import StrPath, existing_file

FLOATS, INTEGERS = 2, 3  # field numbers of float_list and int64_list in `tf.train.Feature`
SEQUENCE_FEATURES = ("input_ids", "input_mask", "segment_ids")  # int64 [T]
PREDICTION_FEATURES = ("masked_lm_positions", "masked_lm_ids")  # int64 [P], padded with 0
WEIGHTS_FEATURE = "masked_lm_weights"  # float32 [P], 0 where padded
LABEL_FEATURE = "next_sentence_labels"  # int64 [S]
# Features of records with several sequences. A token attends only to tokens with the same
# `sequence_ids`, which count from 1 and are 0 for padding. `position_ids` restart at 0 at each
# [CLS].
PACKING_FEATURES = ("position_ids", "sequence_ids")  # int64 [T]
LABEL_POSITIONS_FEATURE = "next_sentence_positions"  # int64 [S], the [CLS]s, padded with 0
LABEL_WEIGHTS_FEATURE = "next_sentence_weights"  # float32 [S], 0 where padded
_PACKED_LABEL_FEATURES = (LABEL_POSITIONS_FEATURE, LABEL_WEIGHTS_FEATURE)
_FLOAT_FEATURES = (WEIGHTS_FEATURE, LABEL_WEIGHTS_FEATURE)
SHORTEST_RECORD = 5  # [CLS] A [SEP] B [SEP]
_KEY_SIZE = 16  # first bytes of a feature: its size, its name's size, and how the name begins
LONGEST_RECORD = 2**16  # positions; a batch of 1,024 records then takes 0.5 GB for each feature


@dataclass(frozen=True)
class PretrainingSchema:
    """The features of the records of a file; raises InputError for a field that is out of range."""

    max_length: int = 128  # positions of a record (T)
    # Predictions of a record (P). With 0, records hold plain ids and are masked when they are read.
    max_predictions: int = 20
    has_labels: bool = True  # whether each sequence has a next sentence label
    # Maximum number of sequences that share a record (S). A record without labels does not depend
    # on this number, so any value above 1 becomes max(2, T // 3), the largest possible number.
    max_sequences: int = 1

    def __post_init__(self):
        check_least(self, SHORTEST_RECORD, "max_length", most=LONGEST_RECORD)
        check_least(self, 0, "max_predictions", most=LONGEST_RECORD)
        check_least(self, 1, "max_sequences", most=LONGEST_RECORD)
        if self.max_sequences > 1 and not self.has_labels:
            object.__setattr__(self, "max_sequences", max(2, self.max_length // 3))

    @property
    def lengths(self) -> dict[str, int]:
        """The number of values of each feature, in the order in which records are written."""
        lengths: dict[str, int] = dict.fromkeys(SEQUENCE_FEATURES, self.max_length)
        if self.max_predictions:
            lengths |= dict.fromkeys((*PREDICTION_FEATURES, WEIGHTS_FEATURE), self.max_predictions)
        if self.is_packed:
            lengths |= dict.fromkeys(PACKING_FEATURES, self.max_length)
        if self.has_labels:
            lengths[LABEL_FEATURE] = self.max_sequences
        if self.has_labels and self.is_packed:
            lengths |= dict.fromkeys(_PACKED_LABEL_FEATURES, self.max_sequences)
        return dict(sorted(lengths.items()))

    @property
    def is_packed(self) -> bool:
        """Whether several sequences share a record."""
        return self.max_sequences > 1

    def __str__(self) -> str:
        labels = "with" if self.has_labels else "without"
        packed = f", up to {self.max_sequences} sequences each" if self.is_packed else ""
        return (
            f"{self.max_length} positions and {counted(self.max_predictions, 'prediction')}, "
            f"{labels} next sentence labels{packed}"
        )

    def limits(self, vocab_size: int | None) -> dict[str, int]:
        """Returns the limit of each integer feature; its values must be below the limit."""
        positions = ("position_ids", "masked_lm_positions", LABEL_POSITIONS_FEATURE)
        limits: dict[str, int] = dict.fromkeys(positions, self.max_length)
        limits |= dict.fromkeys(("input_ids", "masked_lm_ids"), vocab_size or 2**31)
        limits |= dict.fromkeys(("input_mask", "segment_ids", LABEL_FEATURE), 2)
        return limits | {"sequence_ids": self.max_length + 1}


def feature_type(name: str) -> int:
    """Returns the type of a feature's values, `FLOATS` or `INTEGERS`."""
    return FLOATS if name in _FLOAT_FEATURES else INTEGERS


def read_schema(path: StrPath) -> PretrainingSchema:
    """Returns the schema of the first record of a file."""
    path = os.fspath(existing_file(path))
    try:
        features = parse_features(next(read_records(path), b""))
    except ValueError:
        features = {}
    counts = {}  # feature -> its number of values, or 0 if they have the wrong type
    for name, (value_type, values) in features.items():
        # A float has four bytes. The last byte of a varint is below 128.
        count = len(values) // 4 if value_type == FLOATS else sum(byte < 128 for byte in values)
        counts[name] = count if value_type == feature_type(name) else 0

    def has_any(*features):
        return any(name in counts for name in features)

    # Finds a schema with all features of the record; an error then names those that are missing.
    is_packed = has_any(*PACKING_FEATURES, *_PACKED_LABEL_FEATURES)
    schema = PretrainingSchema(
        max(SHORTEST_RECORD, counts.get("input_ids", 0)),
        counts.get("masked_lm_positions", int(has_any(*PREDICTION_FEATURES, WEIGHTS_FEATURE))),
        has_labels=has_any(LABEL_FEATURE, *_PACKED_LABEL_FEATURES),
        max_sequences=max(2, counts.get(LABEL_FEATURE, 0)) if is_packed else 1,
    )
    wrong = [
        f"{name} ({counts.get(name, 0)}, not {length})"
        for name, length in schema.lengths.items()
        if counts.get(name) != length
    ]
    if wrong:
        wrong = ", ".join(wrong)
        raise InputError(f"{path} is empty, damaged or has no pretraining records: {wrong}")
    return schema


def common_schema(files: Sequence[str]) -> PretrainingSchema:
    """Returns the schema of several files; raises InputError if their schemas differ."""
    first, *others = files
    expected = read_schema(first)
    for file in others:
        if (schema := read_schema(file)) != expected:
            raise InputError(f"{file} has records of {schema}, but {first} of {expected}")
    return expected


def record_files(records: StrPath | Sequence[StrPath]) -> list[str]:
    """Returns the sorted paths of the record files that folders, patterns or file names match.

    The files of a folder are its `train*.tfrecord`, or else all its `*.tfrecord`.
    """
    if isinstance(records, (str, os.PathLike)):
        records = [records]
    files: set[str] = set()
    for pattern in [os.fspath(each) for each in records]:
        if os.path.isdir(pattern):
            folder = glob.escape(pattern)
            matches = glob.glob(f"{folder}/train*.tfrecord") or glob.glob(f"{folder}/*.tfrecord")
        else:
            matches = [file for file in (pattern, *glob.glob(pattern)) if os.path.isfile(file)]
        if not matches:
            raise InputError(f"{pattern} has no *.tfrecord files; name a folder of records")
        files.update(matches)
    return sorted(files)


def read_records(path: StrPath) -> Iterator[bytes]:
    """Yields the records of a file; raises InputError if it is missing, truncated or corrupt."""
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


def encode_varint(value: int) -> bytes:
    """Returns the bytes of a varint, which hold seven bits each, the lowest bits first."""
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


@cache
def feature_head(name: str, value_type: int, length: int) -> bytes:
    """Returns the bytes before `length` bytes of values: Features.feature {key, Feature{list}}."""
    # 0x0a and 0x12 are the tags of the fields 1 and 2, which a size and as many bytes follow.
    values = b"\x0a" + encode_varint(length)
    value_list = bytes([value_type << 3 | 2]) + encode_varint(len(values) + length) + values
    key = b"\x0a" + encode_varint(len(name)) + name.encode()
    feature = b"\x12" + encode_varint(len(value_list) + length) + value_list
    return b"\x0a" + encode_varint(len(key) + len(feature) + length) + key + feature


def parse_features(record: bytes) -> dict[str, tuple[int, bytes]]:
    """Returns the type and the bytes of each feature's values; raises ValueError if damaged."""
    # Example {1: features}, Features {1: entry, ...}, entry {1: name, 2: feature}, Feature
    # {FLOATS or INTEGERS: list}. A list contains values, or one field with all of them.
    parsed = {}
    for number, features in _fields(record):
        for _, entry in _fields(features) if number == 1 else ():
            fields = dict(_fields(entry))
            for value_type, value_list in _fields(fields.get(2, b"")):
                values = b"".join(value for _, value in _fields(value_list))
                parsed[fields.get(1, b"").decode()] = value_type, values
    return parsed


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the number and the bytes of each field of a message."""
    start = 0
    while start < len(message):
        tag, start = _read_varint(message, start)
        wire_type = tag & 7
        if wire_type == 2:  # a size, and as many bytes
            size, start = _read_varint(message, start)
            end = start + size
        elif wire_type == 0:  # a varint
            _, end = _read_varint(message, start)
        else:  # 8 or 4 bytes
            end = start + {1: 8, 5: 4}.get(wire_type, len(message))
        if end > len(message):
            raise ValueError("a field ends after its message, or its wire type is unknown")
        yield tag >> 3, message[start:end]
        start = end


def _read_varint(message: bytes, start: int) -> tuple[int, int]:
    """Returns the varint that starts at a position, and the position after it."""
    value = 0
    for shift, byte in zip(range(0, 70, 7), message[start : start + 10], strict=False):
        value |= (byte & 127) << shift
        if byte < 128:
            return value, start + shift // 7 + 1
    raise ValueError("a varint has no end")


class RecordParser:
    """Parses records of one schema; the values of a feature must be below its limit.

    The bytes before the values of a feature depend only on its name and the size of its values. The
    parser remembers them, and parses a record field by field only if it has other bytes.
    """

    def __init__(self, schema: PretrainingSchema, *, limits: Mapping[str, int] | None = None):
        self._lengths = schema.lengths
        self._limits = dict.fromkeys(self._lengths, 2**31) | dict(limits or {})
        # The first bytes of a feature -> all bytes before its values, its name, its size in bytes
        self._seen: dict[bytes, tuple[bytes, str, int]] = {}

    def __call__(self, records: Sequence[tuple[str, bytes]]) -> dict[str, np.ndarray]:
        """Returns the features, int32 or float32 [B, n], of records (file, bytes)."""
        try:
            return self._parse([record for _, record in records])
        except ValueError as error:
            if len(records) > 1:
                for each in records:  # raises the error of the wrong record
                    self([each])
            ((file, _),) = records
            raise InputError(f"{file} has a wrong record ({error}); write it again") from error

    def _parse(self, records: Sequence[bytes]) -> dict[str, np.ndarray]:
        rows = [self._split(record) for record in records]
        features = {}
        for name, length in self._lengths.items():
            values, limit = [row[name] for row in rows], self._limits[name]
            is_float = feature_type(name) == FLOATS
            array = None if is_float else _integers(values, length)
            if is_float and set(map(len, values)) == {4 * length}:
                array = np.frombuffer(b"".join(values), "<f4").reshape(-1, length)
            # Integers are never negative here. NaN is not below the limit either.
            if array is None or not array.max() < limit or (is_float and array.min() < 0):
                raise ValueError(f"{name} is not {counted(length, 'number')} from 0 to {limit - 1}")
            features[name] = array.astype("float32" if is_float else "int32", copy=False)
        return features

    def _split(self, record: bytes) -> dict[str, bytes]:
        """Returns the bytes of the values of each feature."""
        values_of, head = {}, _head_of_example(len(record))
        position = len(head) if record.startswith(head) else 0
        for _ in self._lengths:
            feature = self._seen.get(record[position : position + _KEY_SIZE])
            if feature is None or not record.startswith(feature[0], position):
                break
            head, name, size = feature
            values_of[name] = record[position + len(head) : position + size]
            position += size
        if position == len(record) and len(values_of) == len(self._lengths):
            return values_of
        features = parse_features(record)
        for name in self._lengths:
            expected_type = feature_type(name)
            value_type, values = features.get(name, (expected_type, b""))
            values_of[name] = values if value_type == expected_type else b""
            head = feature_head(name, expected_type, len(values))
            self._seen[head[:_KEY_SIZE]] = head, name, len(head) + len(values)
        return values_of


@cache
def _head_of_example(size: int) -> bytes:
    """Guesses the bytes before the features of an example of `size` bytes; `_split` checks them."""
    encode = encode_varint
    return b"\x0a" + encode(max(0, size - 1 - len(encode(size))))


def _integers(values: list[bytes], length: int) -> np.ndarray | None:
    """Decodes varints, [B, length]; None if a row has another number of them or a negative one."""
    data = np.frombuffer(b"".join(values), np.uint8)
    last = np.flatnonzero(data < 128)  # the index of the last byte of each varint
    row_ends = np.cumsum(np.fromiter(map(len, values), np.int64, len(values)))
    if len(last) != length * len(values) or (last[length - 1 :: length] != row_ends - 1).any():
        return None
    if len(last) == len(data):  # each varint has one byte
        return data.reshape(-1, length)
    integers, sizes = data[last].astype(np.int64), np.diff(last, prepend=-1)
    if (largest := sizes.max()) > 5:  # bytes; the integer is negative or has more than 35 bits
        return None
    for offset in range(1, largest):  # from the last byte, which has the highest bits, backwards
        longer = np.flatnonzero(sizes > offset)
        integers[longer] = integers[longer] << 7 | data[last[longer] - offset] & 127
    return integers.reshape(-1, length)


def write_record_file(output: Path, batches: Iterable[dict[str, np.ndarray]]) -> dict[str, Any]:
    """Writes batches of features, and returns the file's entry in the manifest."""
    total, digest = Counter(), hashlib.sha256()
    with output.open("wb") as file:
        for features in batches:
            records, num_records = frame(serialize(features)), len(features["input_ids"])
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


class EncodedRows(NamedTuple):
    """Bytes of each row of a batch. The rows have equal widths; some bytes may be unused."""

    data: np.ndarray  # uint8 [B,n], or [1,n] if all rows are equal
    used: np.ndarray | None = None  # bool [B,n], which bytes to write; None if all are written

    @property
    def sizes(self) -> np.ndarray | int:
        """The number of used bytes of each row, int [B], or one int if all sizes are equal."""
        return self.data.shape[1] if self.used is None else np.count_nonzero(self.used, axis=1)


def serialize(features: dict[str, np.ndarray]) -> list[bytes]:
    """Encodes each row of features, int [B,n] from 0 to 2^32-1 or float32 [B,n], as one Example."""
    num_rows = len(next(iter(features.values())))
    parts: list[EncodedRows] = []  # of an Example, in order
    for name in sorted(features):
        values = features[name]
        if np.issubdtype(values.dtype, np.floating):
            value_type = FLOATS
            encoded = EncodedRows(np.ascontiguousarray(values, "<f4").view(np.uint8))
        else:
            value_type, encoded = INTEGERS, encode_varints(values)
        parts += [_encode_sizes(partial(feature_head, name, value_type), encoded.sizes), encoded]
    sizes = sum(each.sizes for each in parts) + np.zeros(num_rows, np.int64)  # int [B]
    parts.insert(0, _encode_sizes(lambda size: b"\x0a" + encode_varint(size), sizes))
    ends = (sizes + parts[0].sizes).cumsum().tolist()
    # Joins the parts along their columns, and then takes the used bytes of all rows.
    shape = (num_rows, sum(each.data.shape[1] for each in parts))
    data, used, column = np.empty(shape, np.uint8), np.ones(shape, bool), 0
    for part in parts:
        columns = slice(column, column + part.data.shape[1])
        data[:, columns] = part.data
        if part.used is not None:
            used[:, columns] = part.used
        column = columns.stop
    flat = np.compress(used.ravel(), data.ravel()).tobytes()
    return [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def encode_varints(values: np.ndarray) -> EncodedRows:
    """Encodes each row of int [B,n], with 0 <= value < 2^32, as a sequence of varints."""
    largest = int(values.max(initial=0))
    if largest < 128:
        return EncodedRows(values.astype(np.uint8))
    size = -(-largest.bit_length() // 7)  # bytes of the largest varint
    rest = values.astype(np.uint32)
    data, used = np.empty((*rest.shape, size), np.uint8), np.empty((*rest.shape, size), bool)
    used[..., 0] = True
    for byte in range(size):
        data[..., byte] = rest
        if byte + 1 < size:
            rest >>= 7
            np.greater(rest, 0, out=used[..., byte + 1])
            # The highest bit tells that another byte follows: it is set, and cleared if none does.
            data[..., byte] |= 128
            data[..., byte] ^= (~used[..., byte + 1]).view(np.uint8) << 7
    return EncodedRows(data.reshape(len(data), -1), used.reshape(len(used), -1))


def _encode_sizes(encode: Callable[[int], bytes], sizes: np.ndarray | int) -> EncodedRows:
    """Applies `encode` to the size of each row."""
    if isinstance(sizes, int):
        return EncodedRows(np.frombuffer(encode(sizes), np.uint8)[None])
    distinct, rows = np.unique(sizes, return_inverse=True)
    encoded = [encode(size) for size in distinct.tolist()]
    width = max(map(len, encoded))
    data = np.frombuffer(b"".join(each.ljust(width, b"\0") for each in encoded), np.uint8)
    used = np.arange(width) < np.array([[len(each)] for each in encoded])
    return EncodedRows(data.reshape(-1, width)[rows], used[rows])


def frame(records: list[bytes]) -> bytes:
    """Joins records in the format of a TFRecord file: length, its checksum, data, its checksum."""
    frames = ((framed_length(len(data)), data, checksum(data)) for data in records)
    return b"".join(chain.from_iterable(frames))
