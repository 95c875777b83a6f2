"""Reads record files in an order that depends on a seed, as batches for `model.fit`."""

from collections import deque
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, count, islice, repeat

import keras
import numpy as np

from bert_keras.data.batches import Batches
from bert_keras.data.objectives import MASKED_AND_LABELLED, DynamicMasking, PretrainingExamples
from bert_keras.data.record_file import RecordParser, common_schema, read_records, record_files
from bert_keras.errors import InputError, suggest_keyword_names
from bert_keras.files import StrPath

SHUFFLE_BUFFER = 50_000  # records; about 1 KB each at 128 positions
PLAIN_IDS = "plain ids, which bert-tfrecords build --max-predictions 0 writes"
FILES_AT_ONCE = 16  # the number of files from which records are read in turn
BLOCK = 16  # the number of records to read before the next file has its turn
PARSED_AT_ONCE = 1024  # the number of records to parse together


@suggest_keyword_names
def pretraining_dataset(
    files: StrPath | Sequence[StrPath],
    *,
    batch_size: int,
    seed: int | None = None,
    repeat: bool = False,
    drop_remainder: bool = True,
    masking: DynamicMasking | None = None,
    objective: PretrainingExamples = MASKED_AND_LABELLED,
):
    """Reads record files as batches of (inputs, targets, weights), which `fit` takes.

    With TensorFlow, the batches are a `tf.data.Dataset`. With another backend of Keras, they are a
    `keras.utils.PyDataset` of NumPy arrays with the method `skip`; call `fit` with `shuffle=False`.

    `inputs` holds int32 `input_ids`, `input_mask` and `segment_ids` [B, L] and
    `masked_lm_positions` [B, P]; `targets` holds int32 `masked_lm` [B, P] and `next_sentence` [B];
    `weights` holds float32 arrays with the names and shapes of `targets`. If several sequences
    share a record, `inputs` also holds `position_ids` and `sequence_ids` [B, L] and
    `next_sentence_positions` [B, S], and `next_sentence` is [B, S]. Records without labels give no
    `next_sentence`.

    The order depends only on the seed and on the index of the epoch, so a run can resume with
    `.skip(n)`. Without `repeat`, all files are read once to count the batches. A file that is
    damaged later raises an InputError, which TensorFlow turns into one of its own errors.

    Args:
        files: A folder with training records, or file names or glob patterns.
        batch_size: Records per batch.
        seed: Shuffles files and records, differently in each epoch; None keeps their order.
        repeat: Whether the batches are endless.
        drop_remainder: Whether to drop a last batch with fewer records.
        masking: Masks records of plain ids while they are read, differently in each epoch. Without
            `repeat`, each pass over the batches gives the same masks.
        objective: A kind of examples in bert_keras/data/objectives.py. `MASKED` gives no
            `next_sentence`; `NEXT_TOKENS` needs plain ids and has a target at each of P = L - 1
            positions.

    Raises:
        InputError: A file is missing or not a record file, files differ in their features, or
            `masking` and `objective` do not fit the records.

    Example:

    ```python
    records = pretraining_dataset("records", batch_size=32, seed=1, repeat=True)
    inputs, targets, weights = next(iter(records))
    ```
    """
    batches = Records(record_files(files)).batches(
        batch_size=batch_size,
        seed=seed,
        repeat=repeat,
        drop_remainder=drop_remainder,
        masking=masking,
        objective=objective,
    )
    return batches.for_fit()


class Records:
    """Record files of one schema.

    Raises InputError if the files differ in their features, or while they are read, if a token id
    is not below `vocab_size`.
    """

    def __init__(self, files: Sequence[str], *, vocab_size: int | None = None):
        self.files, self.schema, self._vocab_size = list(files), common_schema(files), vocab_size

    @cached_property
    def num_records(self) -> int:
        """The number of records; reads all files and raises InputError if one is damaged."""
        return sum(1 for file in self.files for _ in read_records(file))

    def batches(
        self,
        *,
        batch_size: int,
        seed: int | None = None,
        repeat: bool = False,
        drop_remainder: bool = True,
        masking: DynamicMasking | None = None,
        objective: PretrainingExamples = MASKED_AND_LABELLED,
    ) -> Batches:
        """Returns batches of NumPy arrays; see `pretraining_dataset` for the arguments."""
        file, schema, vocab_size = self.files[0], self.schema, self._vocab_size
        has_masks, is_masking = schema.max_predictions > 0, masking is not None
        needs_masking = objective.reads_masks and not has_masks
        if (has_masks and objective.needs_plain_ids) or needs_masking != is_masking:
            raise InputError(
                f"{file} has records of {schema}; pass `masking` if they have 0 predictions, and "
                f"only then; some objectives need {PLAIN_IDS}, or read no masks"
            )
        if masking and vocab_size is None:
            vocab_size = len(masking.masker.vocabulary)
        parse = RecordParser(schema, limits=schema.limits(vocab_size))
        max_dropped = batch_size - 1 if drop_remainder else 0  # records at the end

        def make_batch(index: int, features: dict[str, np.ndarray]):
            return objective.from_features(masking.masked(index, features) if masking else features)

        def read(first_batch: int) -> Iterator:
            epoch, first_record = 0, first_batch * batch_size
            if repeat and first_record:
                epoch, first_record = divmod(first_record, self.num_records)
            epochs = count(epoch) if repeat else [0]
            records = chain.from_iterable(self._read_epoch(seed, each) for each in epochs)
            records = islice(records, first_record, None)
            index, at_once = first_batch, batch_size * max(1, PARSED_AT_ONCE // batch_size)
            while chunk := list(islice(records, at_once)):
                features = parse(chunk)
                for start in range(0, len(chunk) - max_dropped, batch_size):
                    rows = slice(start, start + batch_size)
                    yield make_batch(index, {name: each[rows] for name, each in features.items()})
                    index += 1

        num_batches = None if repeat else len(range(0, self.num_records - max_dropped, batch_size))
        rows = batch_size if drop_remainder else None
        one_record = make_batch(0, parse(list(islice(_read(file), 1))))
        spec = keras.tree.map_structure(
            lambda each: keras.KerasTensor((rows, *each.shape[1:]), each.dtype.name), one_record
        )
        return Batches(read, spec=spec, num_batches=num_batches)

    def _read_epoch(self, seed: int | None, epoch: int) -> Iterator[tuple[str, bytes]]:
        """Yields the file and the bytes of each record, shuffled unless the seed is None."""
        if seed is None:
            yield from chain.from_iterable(map(_read, self.files))
            return
        generator = np.random.default_rng((seed, epoch))
        files = [self.files[index] for index in generator.permutation(len(self.files))]
        records = _interleave(files)
        buffer = list(islice(records, SHUFFLE_BUFFER))
        # Draws places in the buffer without end, 1,024 at once.
        draws = iter(lambda: generator.integers(len(buffer), size=1024).tolist(), None)
        for record, place in zip(records, chain.from_iterable(draws), strict=False):
            yield buffer[place]
            buffer[place] = record
        generator.shuffle(buffer)
        yield from buffer


def _read(file: str) -> Iterator[tuple[str, bytes]]:
    """Yields each record of a file with the name of the file, which errors state."""
    return zip(repeat(file), read_records(file), strict=False)


def _interleave(files: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yields blocks of records of several files in turn."""
    readers = map(_read, files)
    in_turn = deque(islice(readers, FILES_AT_ONCE))
    while in_turn:
        reader = in_turn.popleft()
        block = list(islice(reader, BLOCK))
        yield from block
        in_turn.extend([reader] if len(block) == BLOCK else islice(readers, 1))
