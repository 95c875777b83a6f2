"""Defines tasks that predict one class, several classes or a number for the texts of a table."""

import dataclasses
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np

from bert_keras.architectures import CLASSIFIER
from bert_keras.downstream.label_kinds import LABEL_KINDS, Label, LabelKind, LabelPrediction
from bert_keras.downstream.label_scores import SCORES, majority_accuracy
from bert_keras.downstream.table import read_numbered, table_rows, write_numbered
from bert_keras.downstream.task import (
    Encoded,
    Outputs,
    Task,
    data_files,
    needs_labels,
    no_labels_error,
)
from bert_keras.downstream.texts import EncodedTexts, num_tokens, windows_of
from bert_keras.downstream.tfds import is_tfds, tfds_files
from bert_keras.errors import InputError, check_choice, check_least
from bert_keras.files import StrPath
from bert_keras.text.tokenizer import TextTokenizer

LONG_TEXTS = ("error", "truncate", "mean", "max")
# The possible file names of each split.
FILES = {
    split: [f"{split}{suffix}" for suffix in (".tsv", ".csv", ".jsonl")]
    for split in ("train", "dev", "test")
}


class TextExample(NamedTuple):
    """One row of a table: one or two texts and their label."""

    texts: tuple[str, ...]  # one or two
    label: Label | None  # None if the row has no label
    location: str  # where the row was read, as "FILE, line N"


@dataclass(frozen=True, kw_only=True)
class ClassificationTask(Task[TextExample, Encoded, LabelPrediction]):
    """Classification or regression of texts or pairs of texts.

    Raises:
        InputError: A field has an impossible value; the message names it.
    """

    kind: str = "one"  # kind of label: a name in LABEL_KINDS
    max_length: int = 128  # maximum number of tokens of a row, special tokens included
    text_columns: tuple[str, ...] = ("text",)  # the columns of one text or of two
    label_column: str = "label"
    # What happens to texts of more than `max_length` tokens: "error" raises InputError. "truncate"
    # cuts the end of the longer text. "mean" and "max" divide the only text, or the second of two,
    # into windows and pool their logits.
    long_texts: str = "error"
    stride: int = 64  # tokens between the starts of two windows

    model: ClassVar[str] = CLASSIFIER.name

    def __post_init__(self):
        if len(self.text_columns) not in (1, 2):
            raise InputError(f"text_columns has {len(self.text_columns)} names; expected 1 or 2")
        check_choice(self, "kind", LABEL_KINDS)
        check_choice(self, "long_texts", LONG_TEXTS)
        check_least(self, 2 + len(self.text_columns), "max_length")
        check_least(self, 1, "stride")

    @property
    def label_kind(self) -> LabelKind:
        """The rules for reading, predicting and scoring the labels."""
        return LABEL_KINDS[self.kind]

    @property
    def problem_type(self) -> str:
        return self.label_kind.problem_type

    @property
    def input_names(self) -> tuple[str, ...]:
        return self.text_columns

    @property
    def scores(self) -> tuple[str, ...]:
        return self.label_kind.scores

    @property
    def metric(self) -> str:
        return self.scores[0]

    @property
    def has_blank_texts(self) -> bool:
        """Whether the files contain rows without a text, which are read like others."""
        return False

    def files(self, data: StrPath) -> dict[str, str]:
        """Returns the files of the splits "train", "dev" and, if it exists, "test".

        Files end in .tsv, .csv or .jsonl. For a data set of TFDS, see `tfds_files`.
        """
        if is_tfds(data):
            return tfds_files(data)
        return data_files(data, names=FILES)

    def read(self, path: StrPath, *, split: str = "train") -> list[TextExample]:
        """Reads the rows of a file; in "train" and "dev" each row must have a label.

        Raises:
            InputError: A row has no text, a label is missing or invalid, or it is not one of
                `labels` (if these are set).
        """
        columns = (*self.text_columns, *([self.label_column] if needs_labels(split) else []))
        lists = (self.label_column,) if self.kind == "many" else ()
        rows = table_rows(path, columns=columns, lists=lists)
        examples = [
            self.example(
                [values[column] for column in self.text_columns],
                values.get(self.label_column),
                location=location,
                split=split,
            )
            for location, values in rows
        ]
        self.remark_on_labels(examples, split=split)
        return examples

    def remark_on_labels(self, examples: Sequence[TextExample], *, split: str) -> None:
        """Prints a remark on stderr if all examples of the split "dev" have the same label."""
        labels = {example.label for example in examples}
        if split == "dev" and len(labels) == 1:
            file, label = examples[0].location.rpartition(", ")[0], labels.pop()
            print(
                f"{file} has only the label {label!r}, so scores on it do not show how well the "
                "model distinguishes the labels",
                file=sys.stderr,
            )

    def example(
        self, texts: Iterable[str], label: str | None, *, location: str, split: str
    ) -> TextExample:
        """Checks the texts and the label of a row, and returns them as an example.

        Args:
            texts: The texts of the row.
            label: The label as the file has it; None if it has none.
            location: Where the row was read, for error messages.
            split: The split of the row. Only "train" and "dev" require a label.

        Raises:
            InputError: The same as for `read`.
        """
        texts = tuple(texts)
        if not (self.has_blank_texts or any(text.strip() for text in texts)):
            columns = " or ".join(self.text_columns)
            raise InputError(f"{location} has no text; expected one in the column {columns}")
        is_blank = not (label or "").strip() and self.kind != "many"
        if label is None or (is_blank and not needs_labels(split)):
            return TextExample(texts, None, location)
        value = self.label_kind.read(label, location=location)
        if self.labels and needs_labels(split):
            self.label_kind.check(value, self.labels, location=location)
        return TextExample(texts, value, location)

    def with_labels_of(self, examples: Sequence[TextExample]) -> Self:
        if self.labels:
            return self
        labels = [example.label for example in examples]
        file = examples[0].location.rpartition(", ")[0]
        classes = self.label_kind.classes(labels, file=file, column=self.label_column)
        return dataclasses.replace(self, labels=classes)

    def encode(self, examples: Sequence[TextExample], tokenizer: TextTokenizer) -> Encoded:
        """Encodes the texts.

        Raises:
            InputError: Texts are longer than `max_length` and `long_texts` is "error".
        """
        texts = tuple(
            tokenizer.ids_batch(list(column))
            for column in zip(*(example.texts for example in examples), strict=True)
        )
        targets = self.label_kind.targets([example.label for example in examples], self.labels)
        if self.long_texts in ("mean", "max"):
            return windows_of(
                texts,
                targets,
                max_length=self.max_length,
                stride=self.stride,
                vocabulary=tokenizer.vocabulary,
                locations=[example.location for example in examples],
            )
        lengths = num_tokens(texts, tokenizer.vocabulary)
        longest = int(lengths.argmax())
        if self.long_texts == "error" and lengths[longest] > self.max_length:
            raise InputError(
                f"{examples[longest].location} has {lengths[longest]} tokens, more than "
                f"max_length={self.max_length}; raise max_length, cut long texts with "
                "long_texts=truncate, or read them in windows with long_texts=mean"
            )
        lengths = np.minimum(lengths, self.max_length)
        return EncodedTexts(texts, targets, self.max_length, tokenizer.vocabulary, lengths)

    def compile_arguments(self) -> dict:
        return self.label_kind.compile_arguments()

    def predictions(
        self, examples: Sequence[TextExample], encoded: Encoded, outputs: Outputs
    ) -> list[LabelPrediction]:
        return [self.label_kind.prediction(logits, self.labels) for logits in outputs]

    def check_labels(self, examples: Sequence[TextExample]) -> None:
        for example in examples:
            if example.label is None:
                raise no_labels_error(example.location)
            self.label_kind.check(example.label, self.labels, location=example.location)

    def score(
        self, examples: Sequence[TextExample], predictions: Sequence[LabelPrediction]
    ) -> dict[str, float]:
        self.check_labels(examples)
        gold = [example.label for example in examples]
        predicted = [prediction.label for prediction in predictions]
        return {name: SCORES[name](gold, predicted) for name in self.scores}

    def baseline(
        self, train: Sequence[TextExample], dev: Sequence[TextExample]
    ) -> dict[str, float]:
        return {"majority_accuracy": majority_accuracy(train, dev)} if self.kind == "one" else {}

    def write_predictions(
        self, path: StrPath, examples: Sequence[TextExample], predictions: Sequence[LabelPrediction]
    ) -> None:
        """Writes a TSV with the columns index (from 0), prediction, and a probability per label."""
        header = ("index", "prediction", *self.labels)
        rows = [
            [
                self.label_kind.to_text(label),
                *(f"{p:.6f}" for p in probabilities),
            ]
            for label, probabilities in predictions
        ]
        write_numbered(path, rows, header=header[: 1 + len(rows[0])])

    def read_predictions(
        self, path: StrPath, examples: Sequence[TextExample]
    ) -> list[LabelPrediction]:
        """Reads the predictions of a file, in the order of the examples, without probabilities."""
        rows = read_numbered(path, header=("index", "prediction"), num_rows=len(examples))
        return [
            LabelPrediction(self.label_kind.read(columns[0], location=location))
            for location, columns in rows
        ]


TABLE_TASKS: dict[str, ClassificationTask] = {
    name: ClassificationTask(name=name, kind=kind)
    for name, kind in (("classification", "one"), ("multi-label", "many"), ("regression", "number"))
}
