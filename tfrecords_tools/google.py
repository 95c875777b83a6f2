"""Writes the records of the original writer, in its order, from text with one sentence a line.

Each feature equals the output of google-research/bert `create_pretraining_data.py` for the same
files, vocabulary, seed and options, with its known errors. Random numbers are drawn in the same
order as there, so one process does all the work.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from tqdm import tqdm

from bert_keras.data.record_file import write_record_file
from bert_keras.errors import InputError
from bert_keras.text.packing import pack_texts
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools import readers
from tfrecords_tools.corpus import named_errors
from tfrecords_tools.instances import TRAIN, check_shards, shard_file
from tfrecords_tools.settings import NUM_SPECIALS, GoogleSettings, split_summary
from tfrecords_tools.store import TokenStore, TokenWriter, check_has_text, token_dtype

BATCH_CHARACTERS = 1 << 17  # characters that are tokenized at once
BATCH_RECORDS = 1024  # encoded at once; their arrays fit a processor's cache


def tokenize(files: Sequence[str], output: Path, *, tokenizer: WordPieceTokenizer) -> None:
    """Writes the token store of all files, without carriage returns, as TensorFlow's GFile."""
    # Only a blank line ends a document; the end of a file does not.
    lines = chain.from_iterable(map(_lines, files))
    batches = readers.group_items(lines, size_of=lambda text: len(text) + 1, most=BATCH_CHARACTERS)
    with TokenWriter(output, dtype=token_dtype(len(tokenizer.vocabulary))) as writer:
        for texts in tqdm(batches, desc="tokenize", unit=" batch"):
            # A blank line counts as an empty sentence that starts a document.
            writer.add(*tokenizer.flat_ids(texts), np.array([not text for text in texts]))
    check_has_text(writer.num_documents)


def _lines(path: str) -> Iterator[str]:
    with named_errors(path):
        name = readers.file_format(path)
        if name != "text":
            raise InputError(f"{path} is {name}; GoogleSettings (--compat google) need plain text")
        part, position = readers.FilePart(path, name, 0, 0, 0), 0
        with readers.open_text(path) as file:
            while line := file.readline(readers.MAX_LINE + 1):
                text = line.replace(b"\r", b"")
                if not text:
                    return  # carriage returns at the end of a file are not a line
                yield readers.decode_text(text, part, position).strip()
                position += len(line)


# The values of the fields in PAIR: for A and B, the first token in the store and the number of
# tokens, and whether B is a random text.
Pair = tuple[int, int, int, int, bool]
PAIR = [("start_a", "<i8"), ("length_a", "<i4"), ("start_b", "<i8"), ("length_b", "<i4")]
PAIR += [("is_random", "?")]


def write_records(
    folder: Path, *, vocabulary: Vocabulary, settings: GoogleSettings
) -> dict[str, Any]:
    """Writes the shards beside a token store, and returns the manifest's entries.

    Record 1 is in shard 1, record 2 in shard 2, and so on, in turn.
    """
    store = TokenStore(folder)
    drawing = _Drawing(store, vocabulary, settings, Random(settings.seed))
    lists = [(name, "<i4", settings.max_predictions) for name in ("chosen", "new_ids")]
    row = np.dtype([*PAIR, ("num_chosen", "<i4"), *lists])
    rows = np.fromiter(drawing.instances(), row)
    order = drawing.shuffled(len(rows))
    check_shards([len(rows) >= settings.shards], split=TRAIN, num_shards=settings.shards)
    shards = []
    for shard in tqdm(range(settings.shards), desc="write", unit=" file"):
        shard_order = order[shard :: settings.shards]
        batches = (
            drawing.features(rows[shard_order[start : start + BATCH_RECORDS]])
            for start in range(0, len(shard_order), BATCH_RECORDS)
        )
        output = folder.parent / shard_file(TRAIN, shard, settings.shards)
        shards.append(write_record_file(output, batches))
    summed = ("records", "tokens", "labels_one", "sequences")
    sizes = {"documents": store.num_documents, "sentences": store.num_sentences}
    split = split_summary(shards, summed=summed, **sizes, pieces=store.num_tokens)
    return {"splits": {TRAIN: split}}


@dataclass(frozen=True)
class _Drawing:
    """Draws the instances of a token store and makes their features."""

    store: TokenStore
    vocabulary: Vocabulary
    settings: GoogleSettings
    generator: Random

    def shuffled(self, count: int) -> array:
        """Returns the indices below `count` in random order, uint32."""
        indices = array("I", range(count))
        self.generator.shuffle(indices)
        return indices

    def instances(self) -> Iterator[tuple]:
        """Draws all instances; yields a pair, its chosen tokens, and the ids that replace them."""
        vocabulary, settings, generator = self.vocabulary, self.settings, self.generator
        is_word_start = None
        if settings.mask_unit == "word":
            is_word_start = np.array([not token.startswith("##") for token in vocabulary.tokens])
        order, size = self.shuffled(self.store.num_documents), len(vocabulary)
        for _ in range(settings.duplicates):
            for pair in self._pairs(order):
                num_tokens = pair[1] + pair[3] + NUM_SPECIALS
                num_predictions = max(1, round(num_tokens * settings.mask_rate))
                num_predictions = min(settings.max_predictions, num_predictions)
                chosen = self._choose_tokens(pair, num_predictions, is_word_start)
                new_ids = []  # -1 keeps the token
                for _ in chosen:
                    new_id = vocabulary.mask_id
                    if generator.random() >= 0.8:
                        new_id = -1 if generator.random() < 0.5 else generator.randrange(size)
                    new_ids.append(new_id)
                empty = [0] * (settings.max_predictions - len(chosen))
                yield (*pair, len(chosen), chosen + empty, new_ids + empty)

    def _pairs(self, order: Sequence[int]) -> Iterator[Pair]:
        """Yields the pairs of the documents in `order`, each cut to the length of a record."""
        # The caller draws the masks of a pair before it takes the next pair: both use `generator`.
        store, generator = self.store, self.generator
        limit = self.settings.max_length - NUM_SPECIALS
        for index in tqdm(range(len(order)), desc="draw", unit=" document", unit_scale=True):
            target = limit
            if generator.random() < self.settings.short_sequence_rate:
                target = 2 + generator.randrange(limit - 1)
            starts = store.sentences(*store.documents(order[index], order[index] + 1)).tolist()
            first, last = 0, len(starts) - 1
            while first < last:
                after = min(bisect_left(starts, starts[first] + target, first + 1), last)
                end_a = first + 1
                if after - first > 1:
                    end_a += generator.randrange(after - first - 1)
                start_a, length_a = starts[first], starts[end_a] - starts[first]
                if after - first == 1 or generator.random() < 0.5:
                    is_random, after = True, end_a  # unused sentences are used again
                    start_b, end_b = self._random_next(order, index, target - length_a)
                else:
                    is_random, start_b, end_b = False, starts[end_a], starts[after]
                length_b, first = end_b - start_b, after
                while length_a + length_b > limit:  # the longer text, or B, loses a token at an end
                    is_front = generator.random() < 0.5
                    if length_a > length_b:
                        length_a -= 1
                        start_a += is_front
                    else:
                        length_b -= 1
                        start_b += is_front
                yield start_a, length_a, start_b, length_b, is_random

    def _random_next(self, order: Sequence[int], index: int, max_tokens: int) -> tuple[int, int]:
        """Returns a random span that fills `max_tokens`, of another document if possible."""
        for _ in range(10):
            other = self.generator.randrange(len(order))
            if other != index:
                break
        first, end = self.store.documents(order[other], order[other] + 1)
        first += self.generator.randrange(end - first)
        max_tokens = max(max_tokens, 1)
        starts = self.store.sentences(first, min(end, first + max_tokens))
        after = min(bisect_left(starts, starts[0] + max_tokens, 1), len(starts) - 1)
        return starts[0], starts[after]

    def _choose_tokens(
        self, pair: Pair, num_predictions: int, is_word_start: np.ndarray | None
    ) -> list[int]:
        """Chooses the tokens to predict; returns indices into A and B laid end to end."""
        # With `is_word_start`, bool [V], whole words are chosen; it is False for "##" tokens. If B
        # was shortened inside a word, the rest of this word belongs to the last word of A.
        start_a, length_a, start_b, length_b, _ = pair
        if is_word_start is None:
            tokens = list(range(length_a + length_b))
            self.generator.shuffle(tokens)
            return tokens[:num_predictions]
        store = self.store
        ids = store.tokens(start_a, start_a + length_a)
        ids += store.tokens(start_b, start_b + length_b)
        is_start = is_word_start[np.frombuffer(ids, store.dtype)]
        is_start[0] = True
        starts = [*np.flatnonzero(is_start).tolist(), len(is_start)]
        words = list(range(len(starts) - 1))
        self.generator.shuffle(words)
        chosen: list[int] = []
        for word in words:
            if len(chosen) >= num_predictions:
                break
            start, end = starts[word], starts[word + 1]
            if len(chosen) + end - start <= num_predictions:
                chosen += range(start, end)
        return chosen

    def features(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the seven features of a batch; see `bert_keras.data.record_file`."""
        length = self.settings.max_length
        lengths = np.stack([rows["length_a"], rows["length_b"]], axis=1)
        starts = np.stack([rows["start_a"], rows["start_b"]], axis=1)
        tokens = self.store.tokens_of_spans(starts.ravel(), lengths.ravel())
        offsets = (np.cumsum(lengths) - lengths.ravel()).reshape(lengths.shape)
        features = pack_texts(tokens, offsets, lengths, length=length, vocabulary=self.vocabulary)
        # All arrays below are int [B,P]. Token n of A is at the position n + 1, after [CLS]; the
        # tokens of B follow A and [SEP]. Slots that are not filled sort last.
        chosen = rows["chosen"]
        is_filled = np.arange(chosen.shape[1]) < rows["num_chosen"][:, None]
        is_in_b = chosen >= lengths[:, :1]
        positions = np.where(is_filled, 1 + chosen + is_in_b, length)
        by_position = np.argsort(positions, axis=1)
        positions = np.where(is_filled, np.take_along_axis(positions, by_position, axis=1), 0)
        new_ids = np.take_along_axis(rows["new_ids"], by_position, axis=1)
        input_ids = features["input_ids"]
        original_ids = np.take_along_axis(input_ids, positions, axis=1)
        new_ids = np.where(new_ids < 0, original_ids, new_ids)
        input_ids[np.nonzero(is_filled)[0], positions[is_filled]] = new_ids[is_filled]
        return {
            **features,
            "masked_lm_positions": positions,
            "masked_lm_ids": np.where(is_filled, original_ids, 0),
            "masked_lm_weights": is_filled.astype(np.float32),
            "next_sentence_labels": rows["is_random"][:, None],
        }
