"""Parses serialized records into arrays, many records at once."""

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from bert_keras.data import record_file
from bert_keras.errors import InputError, counted

_PREFIX = 16  # bytes of a feature that tell its name and its size


class RecordParser:
    """Parses records of one schema, whose integers are below `limits`, by default 2^31."""

    # The bytes before the values of a feature follow from its name and the size of its values. The
    # parser remembers them, and reads a record field by field only if its bytes differ.

    def __init__(
        self, schema: record_file.PretrainingSchema, *, limits: Mapping[str, int] | None = None
    ):
        self._lengths = schema.lengths
        self._limits = dict.fromkeys(self._lengths, 2**31) | dict(limits or {})
        self._seen: dict[bytes, tuple[bytes, str, int]] = {}

    def __call__(self, records: Sequence[tuple[str, bytes]]) -> dict[str, np.ndarray]:
        """Returns the features, int32 or float32 [B, n], of records, each with its file."""
        try:
            return self._parsed([record for _, record in records])
        except ValueError as error:
            if len(records) > 1:
                for each in records:
                    self([each])
            ((file, _),) = records
            raise InputError(f"{file} has a wrong record ({error}); write it again") from error

    def _parsed(self, records: Sequence[bytes]) -> dict[str, np.ndarray]:
        rows = [self._split(record) for record in records]
        features = {}
        for name, length in self._lengths.items():
            values, limit = [row[name] for row in rows], self._limits[name]
            is_float = record_file.feature_kind(name) == record_file.FLOATS
            array = None if is_float else _integers(values, length)
            if is_float and {*map(len, values)} == {4 * length}:
                array = np.frombuffer(b"".join(values), "<f4").reshape(-1, length)
            # A negative integer has more bytes than `_integers` takes.
            if array is None or not array.max() < limit or (is_float and array.min() < 0):
                raise ValueError(f"{name} is not {counted(length, 'number')} from 0 to {limit - 1}")
            features[name] = array.astype("float32" if is_float else "int32", copy=False)
        return features

    def _split(self, record: bytes) -> dict[str, bytes]:
        """Returns the bytes of the values of each feature."""
        found, seen, head = {}, self._seen, _head_of_example(len(record))
        at = len(head) if record.startswith(head) else 0
        for _ in self._lengths:
            feature = seen.get(record[at : at + _PREFIX])
            if feature is None or not record.startswith(feature[0], at):
                break
            head, name, size = feature
            found[name] = record[at + len(head) : at + size]
            at += size
        if at == len(record) and len(found) == len(self._lengths):
            return found
        features = record_file.packed_features(record)
        for name in self._lengths:
            kind = record_file.feature_kind(name)
            found_kind, values = features.get(name, (kind, b""))
            found[name] = values if found_kind == kind else b""
            head = record_file.feature_head(name, kind, len(values))
            seen[head[:_PREFIX]] = head, name, len(head) + len(values)
        return found


@cache
def _head_of_example(size: int) -> bytes:
    """Returns the bytes before the features of an example of `size` bytes."""
    return b"\x0a" + record_file.varint(max(0, size - 1 - len(record_file.varint(size))))


def _integers(values: list[bytes], length: int) -> np.ndarray | None:
    """Returns rows of varints, [B, length]; None if a row does not have `length` of them."""
    data = np.frombuffer(b"".join(values), np.uint8)
    last = np.flatnonzero(data < 128)  # byte of each record_file.varint
    ends = np.cumsum(np.fromiter(map(len, values), np.int64, len(values)))
    if len(last) != length * len(values) or (last[length - 1 :: length] != ends - 1).any():
        return None
    if len(last) == len(data):
        return data.reshape(-1, length)
    numbers, sizes = data[last].astype(np.int64), np.diff(last, prepend=-1)
    if (largest := sizes.max()) > 5:
        return None
    for offset in range(1, largest):
        longer = np.flatnonzero(sizes > offset)
        numbers[longer] = numbers[longer] << 7 | data[last[longer] - offset] & 127
    return numbers.reshape(-1, length)
