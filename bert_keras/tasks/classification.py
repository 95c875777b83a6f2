"""Predicts a class, several classes or a number for texts or pairs of texts of any table."""

import dataclasses
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np

from bert_keras.architectures import CLASSIFIER
from bert_keras.errors import InputError
from bert_keras.options import check_choice, check_least
from bert_keras.storage import StrPath
from bert_keras.tasks.label_kinds import LABEL_KINDS, Label, LabelKind, LabelPrediction
from bert_keras.tasks.label_scores import SCORES, majority_accuracy
from bert_keras.tasks.table import read_numbered, table_rows, write_numbered
from bert_keras.tasks.task import Encoded, Outputs, Task, data_files, needs_labels, nothing_to_score
from bert_keras.tasks.texts import EncodedTexts, num_tokens, windows_of
from bert_keras.tasks.tfds import is_tfds, tfds_splits
from bert_keras.text.tokenizer import TextTokenizer

LONG_TEXTS = ("error", "truncate", "mean", "max")


class TextExample(NamedTuple):
    """One or two `texts`, their label or None, and where they stand, as "FILE, line N"."""

    texts: tuple[str, ...]
    label: Label | None
    place: str


@dataclass(frozen=True, kw_only=True)
class ClassificationTask(Task[TextExample, Encoded, LabelPrediction]):
    """Classification or regression of texts.

    `long_texts` says what happens to a text of more than `max_length` pieces: "error", "truncate"
    (the ends are cut, the longer text of a pair first), or windows of the only, or second, text
    whose logits are pooled: "mean", "max".
    """

    kind: str = "one"  # a name in LABEL_KINDS
    max_length: int = 128  # in pieces, special pieces included
    text_columns: tuple[str, ...] = ("text",)
    label_column: str = "label"
    long_texts: str = "error"
    stride: int = 64  # pieces between the starts of two windows

    model: ClassVar[str] = CLASSIFIER.name

    def __post_init__(self):
        if len(self.text_columns) not in (1, 2):
            raise InputError(f"{len(self.text_columns)} text columns came; expected one or two")
        check_choice(self, "kind", LABEL_KINDS)
        check_choice(self, "long_texts", LONG_TEXTS)
        check_least(self, 2 + len(self.text_columns), "max_length")
        check_least(self, 1, "stride")

    @property
    def label_kind(self) -> LabelKind:
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

    def files(self, data: StrPath) -> dict[str, str]:
        """`train`, `dev` and, where it is there, `test` as .tsv, .csv or .jsonl; of a builder its
        splits `train`, `validation` and `test`."""
        if is_tfds(data):
            splits = {"train": "train", "dev": "validation", "test": "test"}
            found = tfds_splits(os.fspath(data))
            return {name: f"{data}:{split}" for name, split in splits.items() if split in found}
        endings = (".tsv", ".csv", ".jsonl")
        splits = ("train", "dev", "test")
        return data_files(data, names={s: [f"{s}{ending}" for ending in endings] for s in splits})

    def read(self, path: StrPath, *, split: str = "train") -> list[TextExample]:
        """Labels are read where the file has them; in "train" and "dev" each row must have one, of
        `labels` where these are settled. Raises InputError for any other and for a row without
        text."""
        columns = (*self.text_columns, *([self.label_column] if needs_labels(split) else []))
        lists = (self.label_column,) if self.kind == "many" else ()
        rows = table_rows(path, columns=columns, lists=lists)
        return [
            self.example(
                [values[column] for column in self.text_columns],
                values.get(self.label_column),
                place=place,
                split=split,
            )
            for place, values in rows
        ]

    def example(
        self, texts: Iterable[str], label: str | None, *, place: str, split: str
    ) -> TextExample:
        """The example of a row, checked."""
        texts = tuple(texts)
        if not any(text.strip() for text in texts):
            raise InputError(f"{place} has no text in {', '.join(self.text_columns)}")
        is_blank = not (label or "").strip() and self.kind != "many"
        if label is None or (is_blank and not needs_labels(split)):
            return TextExample(texts, None, place)
        found = self.label_kind.read(label, place=place)
        if self.labels and needs_labels(split):
            self.label_kind.check(found, self.labels, place=place)
        return TextExample(texts, found, place)

    def with_labels_of(self, examples: Sequence[TextExample]) -> Self:
        if self.labels:
            return self
        labels = [example.label for example in examples]
        file = examples[0].place.rpartition(", ")[0]
        classes = self.label_kind.classes(labels, file=file, column=self.label_column)
        return dataclasses.replace(self, labels=classes)

    def encode(self, examples: Sequence[TextExample], tokenizer: TextTokenizer) -> Encoded:
        """Raises InputError for a text too long where `long_texts` is "error"."""
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
                places=[example.place for example in examples],
            )
        lengths = num_tokens(texts, tokenizer.vocabulary)
        longest = int(lengths.argmax())
        if self.long_texts == "error" and lengths[longest] > self.max_length:
            raise InputError(
                f"{examples[longest].place} has {lengths[longest]} pieces, over the limit "
                f"max_length={self.max_length}; raise it, cut with long_texts=truncate or read "
                "windows with long_texts=mean"
            )
        return EncodedTexts(
            texts,
            targets,
            self.max_length,
            tokenizer.vocabulary,
            np.minimum(lengths, self.max_length),
        )

    def compile_arguments(self) -> dict:
        return self.label_kind.compile_arguments()

    def predictions(
        self, examples: Sequence[TextExample], encoded: Encoded, outputs: Outputs
    ) -> list[LabelPrediction]:
        return [self.label_kind.prediction(logits, self.labels) for logits in outputs]

    def check_labels(self, examples: Sequence[TextExample]) -> None:
        for example in examples:
            if example.label is None:
                raise nothing_to_score(example.place)
            self.label_kind.check(example.label, self.labels, place=example.place)

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
        """TSV: index from 0, prediction, the probability of each label."""
        header = ("index", "prediction", *self.labels)
        rows = [
            [self.label_kind.written(label), *(f"{p:.6f}" for p in probabilities)]
            for label, probabilities in predictions
        ]
        write_numbered(path, rows, header=header[: 1 + len(rows[0])])

    def read_predictions(
        self, path: StrPath, examples: Sequence[TextExample]
    ) -> list[LabelPrediction]:
        """Of each example in order, without probabilities."""
        rows = read_numbered(path, header=("index", "prediction"), num_rows=len(examples))
        return [
            LabelPrediction(self.label_kind.read(columns[0], place=place))
            for place, columns in rows
        ]


OWN_TABLE_TASKS: dict[str, ClassificationTask] = {
    name: ClassificationTask(name=name, kind=kind)
    for name, kind in (("classification", "one"), ("multi-label", "many"), ("regression", "number"))
}
