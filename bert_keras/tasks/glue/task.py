"""GLUE: reads its official files or TFDS builders and writes predictions for its server."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bert_keras.options import fixed
from bert_keras.storage import StrPath
from bert_keras.tasks.classification import ClassificationTask, TextExample
from bert_keras.tasks.glue.rows import DIAGNOSTIC_BUILDER, DIAGNOSTIC_FILES, ROWS, GlueRow
from bert_keras.tasks.label_kinds import LabelKind, LabelPrediction, Similarity
from bert_keras.tasks.table import table_rows
from bert_keras.tasks.task import data_files, needs_labels
from bert_keras.tasks.tfds import PREFIX, is_tfds

NO_LABELS = ("-1", "-1.0")  # of test sets in builders, and in tables made of them


@dataclass(frozen=True, kw_only=True)
class GlueTask(ClassificationTask):
    """The task of a row of ROWS, whose columns, kind and labels cannot be changed.

    Texts over 128 tokens are cut, as run_classifier.py of google-research/bert does.
    """

    kind: str = fixed("one")
    text_columns: tuple[str, ...] = fixed()
    label_column: str = fixed()
    long_texts: str = "truncate"

    @property
    def row(self) -> GlueRow:
        return ROWS[self.name]

    @property
    def label_kind(self) -> LabelKind:
        return Similarity() if self.kind == "number" else super().label_kind

    @property
    def scores(self) -> tuple[str, ...]:
        return self.row.scores

    def files(self, data: StrPath) -> dict[str, str]:
        """`data` is the GLUE folder, the task's own, or its builder as `tfds:glue/mrpc`.

        Beside "train", "dev" and "test" MNLI has "dev_mismatched", "test_mismatched" and "ax", the
        diagnostic set. Files that are not there are left out, train and dev excepted.
        """
        if is_tfds(data):
            found = {
                split: f"{data}:{file.removesuffix('.tsv').replace('dev', 'validation')}"
                for split, file in self.row.files.items()
            }
            return found | ({"ax": PREFIX + DIAGNOSTIC_BUILDER} if self.name == "mnli" else {})
        folder = Path(data)
        if (folder / self.row.folder).is_dir():
            folder /= self.row.folder
        found = data_files(folder, names={name: [file] for name, file in self.row.files.items()})
        if self.name == "mnli":
            paths = [folder.parent / file for file in DIAGNOSTIC_FILES]
            existing = [str(path) for path in paths if path.is_file()]
            found |= {"ax": existing[0]} if existing else {}
        return found

    def read(self, path: StrPath, *, split: str = "train") -> list[TextExample]:
        """Read rows in the order of the prediction file.

        Broken rows of an official file are left out, and their number is printed on stderr.
        """
        is_builder = is_tfds(path)
        columns = [name if is_builder else file for name, file in self.row.texts.items()]
        label = "label" if is_builder else self.label_column
        is_labelled, broken = needs_labels(split), []
        rows = table_rows(
            path,
            columns=[*columns, label] if is_labelled else columns,
            headerless=self.row.headerless,
            broken=broken if is_labelled and self.row.has_broken_rows else None,
        )
        if is_builder:
            rows = sorted(rows, key=lambda row: int(row[1]["idx"]))  # builders shuffle
        names = self.row.builder_labels or self.row.labels
        labels: dict[str | None, str | None] = dict(zip(names, self.row.labels, strict=True))
        if not is_labelled:
            labels |= dict.fromkeys(NO_LABELS)
        examples = [
            self.example(
                [values[column] for column in columns],
                labels.get(values.get(label), values.get(label)),
                place=place,
                split=split,
            )
            for place, values in rows
        ]
        if broken:
            print(f"left out {len(broken)} broken rows, the first: {broken[0]}", file=sys.stderr)
        return examples

    def write_predictions(
        self, path: StrPath, examples: Sequence[TextExample], predictions: Sequence[LabelPrediction]
    ) -> None:
        """TSV: index from 0 and prediction, as the server reads it."""
        super().write_predictions(path, examples, [LabelPrediction(p.label) for p in predictions])

    def read_predictions(
        self, path: StrPath, examples: Sequence[TextExample]
    ) -> list[LabelPrediction]:
        predictions = super().read_predictions(path, examples)
        for number, prediction in enumerate(predictions, start=2):
            self.label_kind.check(prediction.label, self.labels, place=f"{path}, line {number}")
        return predictions


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
