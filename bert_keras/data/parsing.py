"""Parses serialized records into arrays, many records at once."""

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from bert_keras.data import record_file
from bert_keras.errors import InputError, counted

_PREFIX = 16  # the first bytes of a feature, which state its name and its size


class RecordParser:
    """Parses records of one schema; the integers of a feature must be below its limit."""

    # The bytes before the values of a feature depend only on its name and the size of its values.
    # The parser remembers them, and reads a record field by field only if its bytes differ.

    def __init__(
        self, schema: record_file.PretrainingSchema, *, limits: Mapping[str, int] | None = None
    ):
        self._lengths = schema.lengths
        self._limits = dict.fromkeys(self._lengths, 2**31) | dict(limits or {})
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
            is_float = record_file.feature_type(name) == record_file.FLOATS
            array = None if is_float else _integers(values, length)
            if is_float and set(map(len, values)) == {4 * length}:
                array = np.frombuffer(b"".join(values), "<f4").reshape(-1, length)
            # A negative integer has more bytes than `_integers` takes.
            if array is None or not array.max() < limit or (is_float and array.min() < 0):
                raise ValueError(f"{name} is not {counted(length, 'number')} from 0 to {limit - 1}")
            features[name] = array.astype("float32" if is_float else "int32", copy=False)
        return features

    def _split(self, record: bytes) -> dict[str, bytes]:
        """Returns the bytes of the values of each feature."""
        values_of, head = {}, _head_of_example(len(record))
        position = len(head) if record.startswith(head) else 0
        for _ in self._lengths:
            feature = self._seen.get(record[position : position + _PREFIX])
            if feature is None or not record.startswith(feature[0], position):
                break
            head, name, size = feature
            values_of[name] = record[position + len(head) : position + size]
            position += size
        if position == len(record) and len(values_of) == len(self._lengths):
            return values_of
        features = record_file.parse_features(record)
        for name in self._lengths:
            expected_type = record_file.feature_type(name)
            value_type, values = features.get(name, (expected_type, b""))
            values_of[name] = values if value_type == expected_type else b""
            head = record_file.feature_head(name, expected_type, len(values))
            self._seen[head[:_PREFIX]] = head, name, len(head) + len(values)
        return values_of


@cache
def _head_of_example(size: int) -> bytes:
    """Returns the bytes before the features of an example of `size` bytes."""
    encode = record_file.encode_varint
    return b"\x0a" + encode(max(0, size - 1 - len(encode(size))))


def _integers(values: list[bytes], length: int) -> np.ndarray | None:
    """Returns rows of varints, [B, length], or None if a row does not have `length` varints."""
    data = np.frombuffer(b"".join(values), np.uint8)
    last = np.flatnonzero(data < 128)  # index of the last byte of each varint
    ends = np.cumsum(np.fromiter(map(len, values), np.int64, len(values)))
    if len(last) != length * len(values) or (last[length - 1 :: length] != ends - 1).any():
        return None
    if len(last) == len(data):
        return data.reshape(-1, length)
    integers, sizes = data[last].astype(np.int64), np.diff(last, prepend=-1)
    if (largest := sizes.max()) > 5:
        return None
    for offset in range(1, largest):
        longer = np.flatnonzero(sizes > offset)
        integers[longer] = integers[longer] << 7 | data[last[longer] - offset] & 127
    return integers.reshape(-1, length)
