"""Writes the records of the original writer, in its order, from text with one sentence a line.

Feature by feature these are the records of google-research/bert `create_pretraining_data.py` for
the same files, vocabulary, seed and options, with all its ways: a random next text may be of the
same document where ten draws find no other, a short length holds for a whole document, and so on.
They differ where `bert_keras.text.tokenizer` says that the tokens of rare characters do. Refused
are a corpus with fewer records than shards, of which the original makes empty files, input of
another format, a vocabulary that holds a piece twice, and what makes the original fail: text that
is not UTF-8, lengths under 5.

Ids, instances and their order lie on disk. Memory holds 4 bytes a document while the instances are
drawn, 4 bytes a record while they are shuffled, and the longest line.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import pread
from pathlib import Path

import numpy as np

from bert_keras.errors import InputError
from bert_keras.storage import json_object
from bert_keras.text.packing import packed_texts
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.google.instances import (
    NUMBER,
    ORDER,
    ROWS,
    DrawInstances,
    filled,
    opened,
    row_dtype,
)
from tfrecords_tools.google.tokens import TokenizeFiles
from tfrecords_tools.jobs import Workers
from tfrecords_tools.manifest import split_summary
from tfrecords_tools.records.writer import write_record_file
from tfrecords_tools.settings import NUM_SPECIALS, GoogleSettings
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

        def counted() -> Iterator[tuple[dict[str, np.ndarray], dict[str, int]]]:
            for rows in self._batches():
                yield (
                    self._features(rows, store, vocabulary),
                    {
                        "records": len(rows),
                        "sequences": len(rows),
                        "tokens": int(rows["lengths"].sum()) + NUM_SPECIALS * len(rows),
                        "labels_one": int(rows["is_random"].sum()),
                    },
                )
                advance(len(rows))
                store.release()

        write_record_file(self.output, self.counts, counted())

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
        features = packed_texts(
            pieces, starts, lengths, length=self.settings.max_length, vocabulary=vocabulary
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


def write_google(
    files: Sequence[str],
    *,
    vocabulary: Path,
    settings: GoogleSettings,
    outputs: Sequence[Path],
    work: Path,
    workers: Workers,
) -> dict:
    """Writes the records in turn to `outputs`; returns what the manifest says of them.

    `work` keeps what is needed on the way: 2 bytes a piece, 32 a record and 6 more a prediction.
    What stands there or in `outputs` already is taken as made by the same call. The first two
    stages are one job each, for every draw depends on all before it.
    """
    store, instances = work / "store", work / "instances"
    tokens = TokenizeFiles(store, tuple(files), vocabulary, settings.lowercase)
    workers.run([tokens], stage="tokenize", unit="B")
    draw = DrawInstances(instances, store, vocabulary, settings)
    workers.run([draw], stage="draw", unit="sentence")
    num_records = (instances / ORDER).stat().st_size // NUMBER.itemsize
    if num_records < len(outputs):
        raise InputError(
            f"the corpus gives {num_records:,} records for {len(outputs):,} shards; give more text "
            "or ask for fewer"
        )
    jobs = [
        WriteRecords(
            output=output,
            counts=work / f"{output.name}.json",
            turns=range(number, num_records, len(outputs)),
            instances=instances,
            store=store,
            vocabulary=vocabulary,
            settings=settings,
        )
        for number, output in enumerate(outputs)
    ]
    workers.run(jobs, stage="write", unit="record")
    return _summary(jobs)


def _summary(jobs: Sequence[WriteRecords]) -> dict:
    """What the manifest says of the split."""
    store = opened(jobs[0].store, Vocabulary.from_file(jobs[0].vocabulary))
    return split_summary(
        [json_object(job.counts) for job in jobs],
        summed=("records", "tokens", "labels_one", "sequences"),
        documents=store.num_documents,
        sentences=store.num_sentences,
        pieces=store.num_pieces,
    )
