"""Defines the GLUE tasks: reads official files or TFDS builders, writes predictions."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from bert_keras.downstream.classification import ClassificationTask, TextExample
from bert_keras.downstream.glue.rows import DIAGNOSTIC_BUILDER, DIAGNOSTIC_FILES, ROWS, GlueRow
from bert_keras.downstream.label_kinds import LabelKind, LabelPrediction, Similarity
from bert_keras.downstream.table import table_rows
from bert_keras.downstream.task import data_files, needs_labels, task_folder
from bert_keras.downstream.tfds import PREFIX, is_tfds
from bert_keras.errors import counted
from bert_keras.files import StrPath
from bert_keras.options import fixed

# The labels of test sets in TFDS builders, and in tables that were exported from them.
NO_LABELS = ("-1", "-1.0")


@dataclass(frozen=True, kw_only=True)
class GlueTask(ClassificationTask):
    """A GLUE task; its row in ROWS determines its columns, kind and labels.

    Texts of more than 128 tokens are cut, as run_classifier.py of google-research/bert does.
    """

    kind: str = fixed("one")
    text_columns: tuple[str, ...] = fixed()
    label_column: str = fixed()
    long_texts: str = "truncate"

    @classmethod
    def of_rows(cls, rows: Mapping[str, GlueRow]) -> dict[str, Self]:
        """Returns the task of each row, by its name."""
        return {
            name: cls(
                name=name,
                labels=row.labels,
                kind=row.kind,
                text_columns=tuple(row.texts),
                label_column=row.label_column,
            )
            for name, row in rows.items()
        }

    @property
    def row(self) -> GlueRow:
        """The files, columns, labels and scores of the task."""
        return ROWS[self.name]

    @property
    def label_kind(self) -> LabelKind:
        return Similarity() if self.kind == "number" else super().label_kind

    @property
    def scores(self) -> tuple[str, ...]:
        return self.row.scores

    def files(self, data: StrPath) -> dict[str, str]:
        """Returns the file or TFDS split of each split of the task.

        MNLI also has the splits "dev_mismatched", "test_mismatched" and "ax" (the diagnostic set).

        Args:
            data: The GLUE folder, the folder of the task in it, or a builder such as
                `tfds:glue/mrpc`.

        Raises:
            InputError: The folder, or its file for "train" or "dev", is missing.
        """
        if is_tfds(data):
            paths = {
                split: f"{data}:{file.removesuffix('.tsv').replace('dev', 'validation')}"
                for split, file in self.row.files.items()
            }
            return paths | ({"ax": PREFIX + DIAGNOSTIC_BUILDER} if self.name == "mnli" else {})
        folder = task_folder(data, self.row.folder)
        paths = data_files(folder, names={split: [file] for split, file in self.row.files.items()})
        if self.name == "mnli":
            candidates = [folder.parent / file for file in DIAGNOSTIC_FILES]
            if existing := [str(path) for path in candidates if path.is_file()]:
                paths["ax"] = existing[0]
        return paths

    def read(self, path: StrPath, *, split: str = "train") -> list[TextExample]:
        """Reads rows in the order of the prediction file.

        In a split with labels, rows with a wrong number of columns are skipped if the task has
        `has_broken_rows`; their number is printed on stderr.
        """
        is_builder = is_tfds(path)
        columns = [name if is_builder else file for name, file in self.row.texts.items()]
        label = "label" if is_builder else self.label_column
        is_labelled, broken = needs_labels(split), []
        rows = table_rows(
            path,
            columns=[*columns, *[label] * is_labelled, *["idx"] * is_builder],
            headerless=self.row.headerless,
            broken=broken if is_labelled and self.row.has_broken_rows else None,
        )
        if is_builder:
            rows = sorted(rows, key=lambda row: int(row[1]["idx"]))  # TFDS shuffles rows
        names = self.row.builder_labels or self.row.labels
        labels: dict[str | None, str | None] = dict(zip(names, self.row.labels, strict=True))
        if not is_labelled:
            labels |= dict.fromkeys(NO_LABELS)
        examples = [
            self.example(
                [values[column] for column in columns],
                labels.get(values.get(label), values.get(label)),
                location=location,
                split=split,
            )
            for location, values in rows
        ]
        if broken:
            reason = "with a wrong number of columns; the first is"
            print(f"skipped {counted(len(broken), 'row')} {reason} {broken[0]}", file=sys.stderr)
        self.remark_on_labels(examples, split=split)
        return examples

    def write_predictions(
        self, path: StrPath, examples: Sequence[TextExample], predictions: Sequence[LabelPrediction]
    ) -> None:
        """Writes a TSV with the columns index (from 0) and prediction, as the server expects it."""
        super().write_predictions(path, examples, [LabelPrediction(p.label) for p in predictions])

    def read_predictions(
        self, path: StrPath, examples: Sequence[TextExample]
    ) -> list[LabelPrediction]:
        predictions = super().read_predictions(path, examples)
        for number, prediction in enumerate(predictions, start=2):
            self.label_kind.check(prediction.label, self.labels, location=f"{path}, line {number}")
        return predictions


GLUE_TASKS: dict[str, GlueTask] = GlueTask.of_rows(ROWS)
