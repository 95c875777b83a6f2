"""Instances on disk and their order come in; record files go out."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import pread
from pathlib import Path

import numpy as np

from bert_keras.storage import whole_file
from bert_keras.text.packing import packed, sequence_spans
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.google.instances import NUMBER, ORDER, ROWS, filled, opened, row_dtype
from tfrecords_tools.google.settings import NUM_SPECIALS, GoogleSettings
from tfrecords_tools.records.writer import framed, serialized
from tfrecords_tools.text.store import TokenStore

_RECORDS_TOGETHER = 1024  # encoded at once; their arrays fit a processor's cache


@dataclass(frozen=True)
class WriteRecords:
    """A job: a record file, and before it a file of JSON with what the manifest says of it."""

    output: Path
    counts: Path
    turns: range  # places in the order of all instances
    instances: Path
    store: Path
    vocabulary: Path
    settings: GoogleSettings

    @property
    def size(self) -> int:
        return len(self.turns)

    def __call__(self, advance: Callable[[int], object]) -> None:
        vocabulary = Vocabulary.from_file(self.vocabulary)
        store = opened(self.store, vocabulary)
        counts, digest = Counter(bytes=0, records=0, tokens=0, labels_one=0), hashlib.sha256()
        with (
            whole_file(self.output) as part,
            part.open("wb") as file,
        ):
            for rows in self._batches():
                records = framed(serialized(self._features(rows, store, vocabulary)))
                file.write(records)
                digest.update(records)
                counts.update(_counted(rows, records))
                advance(len(rows))
                store.release()
            told = {"file": self.output.name, **counts, "sha256": digest.hexdigest()}
            with whole_file(self.counts) as counts_part:
                counts_part.write_text(json.dumps(told), encoding="utf-8")

    def _batches(self) -> Iterator[np.ndarray]:
        """The rows of the instances whose turn it is."""
        dtype = row_dtype(self.settings)
        with (
            (self.instances / ROWS).open("rb") as rows,
            (self.instances / ORDER).open("rb") as order,
        ):
            for start in range(0, len(self.turns), _RECORDS_TOGETHER):
                turns = self.turns[start : start + _RECORDS_TOGETHER]
                order.seek(turns[0] * NUMBER.itemsize)
                near = np.fromfile(order, NUMBER, turns[-1] - turns[0] + 1)
                data = [
                    pread(rows.fileno(), dtype.itemsize, number * dtype.itemsize)
                    for number in near[:: turns.step].tolist()
                ]
                yield np.frombuffer(b"".join(data), dtype)

    def _features(
        self, rows: np.ndarray, store: TokenStore, vocabulary: Vocabulary
    ) -> dict[str, np.ndarray]:
        """The seven features of a batch; see `bert_keras.data.schema`."""
        lengths = rows["lengths"].astype(np.int64)
        ends = rows["starts"] + lengths
        spans = zip(rows["starts"].ravel().tolist(), ends.ravel().tolist(), strict=True)
        pieces = np.frombuffer(b"".join([store.pieces(*span) for span in spans]), store.dtype)
        starts = (np.cumsum(lengths) - lengths.ravel()).reshape(lengths.shape)
        features = packed(
            pieces,
            sequence_spans(starts, lengths),
            num_rows=len(rows),
            length=self.settings.max_length,
            vocabulary=vocabulary,
        )
        is_filled = filled(rows)
        # A piece of A stands behind [CLS], one of B behind [SEP] too; what is empty sorts last.
        chosen = rows["chosen"].astype(np.int64)
        positions = 1 + chosen + (chosen >= lengths[:, :1])
        positions[~is_filled] = self.settings.max_length
        by_position = np.argsort(positions, axis=1)
        positions = np.take_along_axis(positions, by_position, axis=1)
        shown = np.take_along_axis(rows["shown"], by_position, axis=1)
        positions[~is_filled] = 0
        input_ids = features["input_ids"]
        answers = np.take_along_axis(input_ids, positions, axis=1)
        row, slot = np.nonzero(is_filled)
        input_ids[row, positions[row, slot]] = np.where(shown < 0, answers, shown)[row, slot]
        return {
            **features,
            "masked_lm_positions": positions,
            "masked_lm_ids": np.where(is_filled, answers, 0),
            "masked_lm_weights": is_filled.astype(np.float32),
            "next_sentence_labels": rows["is_random"][:, None],
        }


def _counted(rows: np.ndarray, records: bytes) -> dict[str, int]:
    return {
        "bytes": len(records),
        "records": len(rows),
        "tokens": int(rows["lengths"].sum()) + NUM_SPECIALS * len(rows),
        "labels_one": int(rows["is_random"].sum()),
    }
