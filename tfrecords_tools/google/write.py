"""Writes the records of the original writer, in its order, from text with one sentence a line.

Each feature equals the output of google-research/bert `create_pretraining_data.py` for the same
files, vocabulary, seed and options. The known errors of the script are kept: for example, a random
next text may come from the same document if ten draws find no other, and a short length applies to
a whole document. The tokens of rare characters differ as described in `bert_keras.text.tokenizer`.

The module refuses: a corpus with fewer records than shards (the original writes empty files), input
that is not plain text, a vocabulary that contains a token twice, and input on which the original
fails (text that is not UTF-8, lengths under 5).

Ids, instances and their order are kept on disk. Memory holds 4 bytes a document while the instances
are drawn, 4 bytes a record while they are shuffled, and the longest line.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import pread
from pathlib import Path

import numpy as np

from bert_keras.errors import InputError, counted
from bert_keras.files import json_object
from bert_keras.text.packing import packed_texts
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.google.instances import ORDER, ORDER_DTYPE, ROWS, DrawInstances, row_dtype
from tfrecords_tools.google.tokens import TokenizeFiles
from tfrecords_tools.jobs import Workers
from tfrecords_tools.manifest import split_summary
from tfrecords_tools.records.writer import write_record_file
from tfrecords_tools.settings import GoogleSettings
from tfrecords_tools.text.store import TokenStore

BATCH_RECORDS = 1024  # encoded at once; their arrays fit a processor's cache


@dataclass(frozen=True)
class WriteRecords:
    """A job that writes a JSON file with the counts for the manifest, and then a record file."""

    output: Path
    counts: Path
    order_positions: range  # positions in the order of all instances
    instances: Path
    store: Path
    vocabulary: Path
    settings: GoogleSettings

    @property
    def size(self) -> int:
        return len(self.order_positions)

    def __call__(self, advance: Callable[[int], object]) -> None:
        vocabulary = Vocabulary.from_file(self.vocabulary)
        store = TokenStore(self.store)

        def batches() -> Iterator[tuple[dict[str, np.ndarray], dict[str, int]]]:
            for rows in self._batches():
                features = self._features(rows, store, vocabulary)
                counts = {
                    "records": len(rows),
                    "sequences": len(rows),
                    "tokens": int(features["input_mask"].sum()),
                    "labels_one": int(rows["is_random"].sum()),
                }
                yield features, counts
                advance(len(rows))
                store.release()

        write_record_file(self.output, self.counts, batches())

    def _batches(self) -> Iterator[np.ndarray]:
        """Yields batches of the rows of the instances at `order_positions`."""
        dtype = row_dtype(self.settings)
        with (
            (self.instances / ROWS).open("rb") as rows,
            (self.instances / ORDER).open("rb") as order,
        ):
            for start in range(0, len(self.order_positions), BATCH_RECORDS):
                positions = self.order_positions[start : start + BATCH_RECORDS]
                order.seek(positions[0] * ORDER_DTYPE.itemsize)
                indices = np.fromfile(order, ORDER_DTYPE, positions[-1] - positions[0] + 1)
                data = [
                    pread(rows.fileno(), dtype.itemsize, index * dtype.itemsize)
                    for index in indices[:: positions.step].tolist()
                ]
                yield np.frombuffer(b"".join(data), dtype)

    def _features(
        self, rows: np.ndarray, store: TokenStore, vocabulary: Vocabulary
    ) -> dict[str, np.ndarray]:
        """Returns the seven features of a batch; see `bert_keras.data.schema`."""
        lengths = np.stack([rows["length_a"], rows["length_b"]], axis=1)
        starts = np.stack([rows["start_a"], rows["start_b"]], axis=1)
        tokens = store.tokens_of_spans(starts.ravel(), lengths.ravel())
        offsets = (np.cumsum(lengths) - lengths.ravel()).reshape(lengths.shape)
        features = packed_texts(
            tokens, offsets, lengths, length=self.settings.max_length, vocabulary=vocabulary
        )
        # A token of A follows [CLS]; a token of B follows [CLS] and [SEP]. Empty slots sort last.
        chosen = rows["chosen"]
        is_filled = np.arange(chosen.shape[1]) < rows["num_chosen"][:, None]
        positions = 1 + chosen + (chosen >= lengths[:, :1])
        positions[~is_filled] = self.settings.max_length
        by_position = np.argsort(positions, axis=1)
        positions = np.take_along_axis(positions, by_position, axis=1)
        replacements = np.take_along_axis(rows["replacements"], by_position, axis=1)
        positions[~is_filled] = 0
        input_ids = features["input_ids"]
        original_ids = np.take_along_axis(input_ids, positions, axis=1)
        new_ids = np.where(replacements < 0, original_ids, replacements)
        input_ids[np.nonzero(is_filled)[0], positions[is_filled]] = new_ids[is_filled]
        return {
            **features,
            "masked_lm_positions": positions,
            "masked_lm_ids": np.where(is_filled, original_ids, 0),
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
    """Writes the records alternately to `outputs` and returns their summary for the manifest.

    The first two stages are one job each, because every draw depends on all preceding draws.

    Args:
        files: Text files with one sentence a line.
        vocabulary: The WordPiece vocabulary file.
        settings: The options of the original writer.
        outputs: The record files. Existing files are assumed to be complete.
        work: A folder for intermediate files: 2 bytes a token, 52 bytes a record and 16 more bytes
            a prediction. Existing files are assumed to be complete.
        workers: The processes that run the jobs.

    Raises:
        InputError: There are fewer records than outputs, or the files contain no text.
    """
    store, instances = work / "store", work / "instances"
    tokens = TokenizeFiles(store, tuple(files), vocabulary, settings.lowercase)
    workers.run([tokens], stage="tokenize", unit="B")
    draw = DrawInstances(instances, store, vocabulary, settings)
    workers.run([draw], stage="draw", unit="sentence")
    num_records = (instances / ORDER).stat().st_size // ORDER_DTYPE.itemsize
    if num_records < len(outputs):
        raise InputError(
            f"the corpus gives {counted(num_records, 'record')}; expected at least one for each of "
            f"{counted(len(outputs), 'shard')}: give more text, or fewer --shards"
        )
    jobs = [
        WriteRecords(
            output=output,
            counts=work / f"{output.name}.json",
            order_positions=range(number, num_records, len(outputs)),
            instances=instances,
            store=store,
            vocabulary=vocabulary,
            settings=settings,
        )
        for number, output in enumerate(outputs)
    ]
    workers.run(jobs, stage="write", unit="record")
    tokenized = TokenStore(store)
    return split_summary(
        [json_object(job.counts) for job in jobs],
        summed=("records", "tokens", "labels_one", "sequences"),
        documents=tokenized.num_documents,
        sentences=tokenized.num_sentences,
        pieces=tokenized.num_tokens,
    )
