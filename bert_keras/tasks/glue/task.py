"""GLUE: reads its official files or TFDS builders and writes predictions for its server."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bert_keras.errors import InputError
from bert_keras.tasks.classification import ClassificationTask, TextExample, needs_labels
from bert_keras.tasks.glue.rows import DIAGNOSTIC_BUILDER, DIAGNOSTIC_FILES, ROWS, GlueRow
from bert_keras.tasks.label_kinds import LabelPrediction
from bert_keras.tasks.table import table_rows
from bert_keras.tasks.task import data_files
from bert_keras.tasks.tfds import PREFIX, is_tfds

UNTOLD = ("-1", "-1.0")  # labels of test sets in builders, and in tables made of them
LEAST_SIMILAR, MOST_SIMILAR = 0.0, 5.0  # STS-B


@dataclass(frozen=True, kw_only=True)
class GlueTask(ClassificationTask):
    """The row of ROWS that `name` says; its columns, kind and labels are not for others to set.

    Texts over 128 pieces are cut, as run_classifier.py of google-research/bert does.
    """

    long_texts: str = "truncate"

    def __post_init__(self):
        super().__post_init__()
        row = self.row
        for field, own in (
            ("kind", (row.kind,)),
            ("text_columns", tuple(row.texts)),
            ("label_column", (row.label_column,)),
        ):
            if getattr(self, field) not in (own, *own):
                raise InputError(
                    f"{self.name} has its own {field}, {', '.join(own)}; leave it as it is"
                )

    @property
    def row(self) -> GlueRow:
        return ROWS[self.name]

    @property
    def scores(self) -> tuple[str, ...]:
        return self.row.scores

    def files(self, data: str | os.PathLike) -> dict[str, str]:
        """`data` is the GLUE folder, the task's own, or its builder as `tfds:glue/mrpc`.

        Beside "train", "dev" and "test" MNLI has "dev_mismatched", "test_mismatched" and "ax", the
        diagnostic set. Files that are not there are left out, train and dev excepted.
        """
        if is_tfds(data):
            found = {name: f"{data}:{split}" for name, split in self.row.builder_splits.items()}
            return found | ({"ax": PREFIX + DIAGNOSTIC_BUILDER} if self.name == "mnli" else {})
        folder = Path(data)
        if (folder / self.row.folder).is_dir():
            folder /= self.row.folder
        found = data_files(folder, names={name: [file] for name, file in self.row.files.items()})
        if self.name == "mnli":
            places = [folder.parent / file for file in DIAGNOSTIC_FILES]
            there = [str(place) for place in places if place.is_file()]
            found |= {"ax": there[0]} if there else {}
        return found

    def read(self, path: str | os.PathLike, *, split: str = "train") -> list[TextExample]:
        """Rows in the order of the prediction file. What an official file has of broken rows is
        left out and told on stderr."""
        columns = {name: name if is_tfds(path) else file for name, file in self.row.texts.items()}
        label = self.label_column_of(path)
        labelled, broken = needs_labels(split), []
        rows = table_rows(
            path,
            columns=(*columns.values(), *([label] if labelled else [])),
            headerless=self.row.headerless,
            broken=broken if labelled and self.row.has_broken_rows else None,
        )
        if is_tfds(path):
            rows = sorted(rows, key=lambda row: int(row[1]["idx"]))  # builders shuffle
        names = self.row.builder_labels or self.row.labels
        words: dict[str | None, str | None] = dict(zip(names, self.row.labels, strict=True))
        if not labelled:
            words |= dict.fromkeys(UNTOLD)
        examples = [
            self.example(
                [values[column] for column in columns.values()],
                words.get(values.get(label), values.get(label)),
                place=place,
                split=split,
            )
            for place, values in rows
        ]
        if broken:
            print(f"left out {len(broken)} broken rows, the first: {broken[0]}", file=sys.stderr)
        return examples

    def label_column_of(self, path: str | os.PathLike) -> str:
        return "label" if is_tfds(path) else self.label_column

    def predictions(self, examples, encoded, outputs) -> list[LabelPrediction]:
        """A similarity is what the server is given: within 0 and 5, with three decimals."""
        found = super().predictions(examples, encoded, outputs)
        if self.kind != "number":
            return found
        values = np.clip([each.label for each in found], LEAST_SIMILAR, MOST_SIMILAR)
        return [LabelPrediction(round(value, 3)) for value in values.tolist()]

    def write_predictions(
        self,
        path: str | os.PathLike,
        examples: Sequence[TextExample],
        predictions: Sequence[LabelPrediction],
    ) -> None:
        """TSV: index from 0 and prediction, as the server reads it."""
        super().write_predictions(path, examples, [LabelPrediction(p.label) for p in predictions])

    def written(self, label) -> str:
        return f"{label:.3f}" if self.kind == "number" else super().written(label)

    def read_prediction(self, text: str, place: str) -> LabelPrediction:
        prediction = super().read_prediction(text, place)
        self.label_kind.check(prediction.label, self.labels, place=place)
        return prediction


GLUE_TASKS: dict[str, GlueTask] = {
    name: GlueTask(
        name=name,
        labels=row.labels,
        kind=row.kind,
        text_columns=tuple(row.texts),
        label_column=row.label_column,
    )
    for name, row in ROWS.items()
}
