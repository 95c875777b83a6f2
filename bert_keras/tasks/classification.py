"""Rows of texts and labels in, `tf.data` batches for a classifier out, and its score."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from bert_keras.data.buckets import length_grouped_batches
from bert_keras.errors import InputError
from bert_keras.tasks.table import read_table
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import WordPieceTokenizer

INPUTS = ("input_ids", "input_mask", "segment_ids")


@dataclass(frozen=True)
class LabeledTexts:
    """Tokenized examples: `texts` holds one or two lists of id lists; `label_ids` is int32 [N]."""

    texts: tuple[Sequence[Sequence[int]], ...]
    label_ids: np.ndarray

    def __len__(self) -> int:
        return len(self.label_ids)

    @property
    def lengths(self) -> np.ndarray:
        """int64 [N]: pieces of each example, [CLS] and [SEP]s counted."""
        counts = sum(np.array([len(ids) for ids in text]) for text in self.texts)
        return counts + 1 + len(self.texts)


@dataclass(frozen=True)
class ClassificationTask:
    """One label for one text or a pair: which columns hold them, which labels there are.

    `max_length` counts pieces, specials included; `long_texts` says what becomes of more: "error"
    or "truncate" (the ends are cut, the longer text of a pair first).
    """

    text_columns: tuple[str, ...]
    label_column: str
    labels: tuple[str, ...]
    max_length: int
    long_texts: str = "error"

    def __post_init__(self):
        if len(self.text_columns) not in (1, 2):
            raise InputError(f"{len(self.text_columns)} text columns came; expected one or two")
        least = 2 + len(self.text_columns)
        if self.max_length < least:
            raise InputError(f"max_length is {self.max_length}; expected at least {least}")

    def read(self, path: str | os.PathLike, tokenizer: WordPieceTokenizer) -> LabeledTexts:
        """Raises InputError for a label that is not among `labels` and for a text too long."""
        table = read_table(path, columns=(*self.text_columns, self.label_column))
        label_ids = {label: index for index, label in enumerate(self.labels)}
        for row, label in enumerate(table[self.label_column], start=1):
            if label not in label_ids:
                raise InputError(
                    f"{path}, row {row} has the label {label!r}; known: {', '.join(self.labels)}"
                )
        examples = LabeledTexts(
            tuple(tokenizer.ids_batch(table[column]) for column in self.text_columns),
            np.array([label_ids[label] for label in table[self.label_column]], np.int32),
        )
        longest = int(examples.lengths.argmax())
        if self.long_texts == "error" and examples.lengths[longest] > self.max_length:
            raise InputError(
                f"{path}, row {longest + 1} has {examples.lengths[longest]} pieces, over the limit "
                f"max_length={self.max_length}; raise it or cut with long_texts=truncate"
            )
        return examples

    def training_batches(
        self, examples: LabeledTexts, tokenizer: WordPieceTokenizer, *, batch_size: int, seed: int
    ) -> tf.data.Dataset:
        """Endless shuffled batches (inputs, label ids), each padded to its own longest example."""
        lengths = np.minimum(examples.lengths, self.max_length)
        return self._batches(
            examples,
            tokenizer,
            lambda: length_grouped_batches(lengths, batch_size=batch_size, seed=seed),
        )

    def ordered_batches(
        self, examples: LabeledTexts, tokenizer: WordPieceTokenizer, *, batch_size: int
    ) -> tf.data.Dataset:
        """Every example once, in order."""
        rows = np.arange(len(examples))
        starts = range(0, len(rows), batch_size)
        batches = self._batches(
            examples, tokenizer, lambda: (rows[at : at + batch_size] for at in starts)
        )
        return batches.apply(tf.data.experimental.assert_cardinality(len(starts)))

    def _batches(self, examples, tokenizer, row_batches) -> tf.data.Dataset:
        def generate():
            for rows in row_batches():
                texts = [[text[row] for row in rows] for text in examples.texts]
                inputs = pack(*texts, vocabulary=tokenizer.vocabulary, max_length=self.max_length)
                yield inputs, examples.label_ids[rows]

        ids_BT = tf.TensorSpec((None, None), tf.int32)
        signature = (dict.fromkeys(INPUTS, ids_BT), tf.TensorSpec((None,), tf.int32))
        dataset = tf.data.Dataset.from_generator(generate, output_signature=signature)
        return dataset.prefetch(tf.data.AUTOTUNE)


def labels_in(path: str | os.PathLike, *, label_column: str) -> tuple[str, ...]:
    """The distinct labels of a file, sorted; raises InputError where there is only one."""
    labels = sorted(set(read_table(path, columns=(label_column,))[label_column]))
    if len(labels) < 2:
        raise InputError(f"{path}: column {label_column!r} holds one label only, {labels[0]!r}")
    return tuple(labels)


def majority_accuracy(train: LabeledTexts, dev: LabeledTexts) -> float:
    """The score of always answering the most frequent label of the training rows."""
    majority, _ = Counter(train.label_ids.tolist()).most_common(1)[0]
    return float(np.mean(dev.label_ids == majority))
