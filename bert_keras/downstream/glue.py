"""The General Language Understanding Evaluation: nine tasks, a diagnostic set, the submission."""

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bert_keras.downstream.classification import ClassificationTask, TextExample
from bert_keras.downstream.table import table_rows
from bert_keras.downstream.task import fixed, needs_labels
from bert_keras.downstream.tfds import PREFIX, is_tfds
from bert_keras.errors import InputError, counted
from bert_keras.files import StrPath, atomic_file, text_lines, write_text
from bert_keras.kinds.classifier import LabelPrediction

# The file of each split in the folder of a task. The split of TFDS has the same name without
# ".tsv", except that "dev" is "validation" there.
FILES = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
MNLI_FILES = {
    "train": "train.tsv",
    "dev": "dev_matched.tsv",
    "dev_mismatched": "dev_mismatched.tsv",
    "test": "test_matched.tsv",
    "test_mismatched": "test_mismatched.tsv",
}
# MNLI's model predicts the diagnostic set. The archives of the GLUE site and download_glue_data.py
# create one of these files.
DIAGNOSTIC_FILES = ("../AX/diagnostic.tsv", "../AX/AX.tsv", "../diagnostic/diagnostic.tsv")
DIAGNOSTIC_BUILDER = "glue/ax:test"

PAIR = {"sentence1": "sentence1", "sentence2": "sentence2"}
ENTAILED = ("entailment", "not_entailment")


@dataclass(frozen=True, kw_only=True, eq=False)
class GlueRow:
    """What is particular to one task of GLUE or of another benchmark with official files."""

    folder: str  # the folder of the task in the folder of the benchmark
    # The names of the texts in TFDS and Hugging Face, mapped to their columns in the files.
    texts: Mapping[str, str]
    # The labels in data files and prediction files, in the order of google-research/bert. The only
    # label of a regression task is its column.
    labels: tuple[str, ...] = ("0", "1")
    # Names in SCORES; the first chooses the best checkpoint.
    scores: tuple[str, ...] = ("accuracy",)
    # The prediction files in the zip of GLUE's server, with the number of predictions in each.
    num_test_rows: Mapping[str, int] = field(default_factory=dict)
    label_column: str = "label"
    kind: str = "one"  # kind of label: a name in LABEL_KINDS
    max_score: float = 0.0  # GLUE's server expects numbers up to it, with three decimals
    builder_labels: tuple[str, ...] = ()  # TFDS' names of `labels`, if they differ
    files: Mapping[str, str] = field(default_factory=FILES.copy)  # the file of each split
    headerless: Sequence[str] = ()  # the columns of files without a header
    # Whether official files contain rows with a wrong number of columns, which are skipped.
    has_broken_rows: bool = False


# gluebenchmark.com/tasks lists the scores. GLUE averages the two scores of a task.
GLUE_ROWS: dict[str, GlueRow] = {
    "cola": GlueRow(
        folder="CoLA",
        texts={"sentence": "sentence"},
        builder_labels=("unacceptable", "acceptable"),
        scores=("matthews", "accuracy"),
        headerless=("source", "label", "mark", "sentence"),
        num_test_rows={"CoLA.tsv": 1_063},
    ),
    "sst2": GlueRow(
        folder="SST-2",
        texts={"sentence": "sentence"},
        builder_labels=("negative", "positive"),
        num_test_rows={"SST-2.tsv": 1_821},
    ),
    "mrpc": GlueRow(
        folder="MRPC",
        texts={"sentence1": "#1 String", "sentence2": "#2 String"},
        label_column="Quality",
        builder_labels=("not_equivalent", "equivalent"),
        scores=("accuracy_and_f1", "accuracy", "f1"),
        num_test_rows={"MRPC.tsv": 1_725},
    ),
    "stsb": GlueRow(
        folder="STS-B",
        texts=PAIR,
        label_column="score",
        kind="number",
        labels=("score",),
        max_score=5.0,
        scores=("pearson_and_spearman", "pearson", "spearman"),
        num_test_rows={"STS-B.tsv": 1_379},
    ),
    "qqp": GlueRow(
        folder="QQP",
        texts={"question1": "question1", "question2": "question2"},
        label_column="is_duplicate",
        builder_labels=("not_duplicate", "duplicate"),
        scores=("accuracy_and_f1", "accuracy", "f1"),
        num_test_rows={"QQP.tsv": 390_965},
        has_broken_rows=True,  # some questions contain a line end
    ),
    "mnli": GlueRow(
        folder="MNLI",
        texts={"premise": "sentence1", "hypothesis": "sentence2"},
        label_column="gold_label",
        labels=("contradiction", "entailment", "neutral"),
        files=MNLI_FILES,
        num_test_rows={"MNLI-m.tsv": 9_796, "MNLI-mm.tsv": 9_847, "AX.tsv": 1_104},
    ),
    "qnli": GlueRow(
        folder="QNLI",
        texts={"question": "question", "sentence": "sentence"},
        labels=ENTAILED,
        num_test_rows={"QNLI.tsv": 5_463},
    ),
    "rte": GlueRow(folder="RTE", texts=PAIR, labels=ENTAILED, num_test_rows={"RTE.tsv": 3_000}),
    "wnli": GlueRow(
        folder="WNLI",
        texts=PAIR,
        builder_labels=("not_entailment", "entailment"),
        num_test_rows={"WNLI.tsv": 146},
    ),
}

# The labels of test sets in TFDS builders, and in tables that were exported from them.
NO_LABELS = ("-1", "-1.0")


@dataclass(frozen=True, kw_only=True)
class GlueTask(ClassificationTask):
    """A task with official files; its row names files, columns and labels.

    Texts are cut to 128 tokens, as in run_classifier.py of google-research/bert.
    """

    row: GlueRow = field(metadata={"is_fixed": True})
    kind: str = fixed("one")
    text_columns: tuple[str, ...] = fixed()
    label_column: str = fixed()

    @property
    def scores(self) -> tuple[str, ...]:
        return self.row.scores

    @property
    def folder(self) -> str:
        return self.row.folder

    @property
    def file_names(self) -> dict[str, Sequence[str]]:
        files: dict[str, Sequence[str]] = {name: [file] for name, file in self.row.files.items()}
        return files | ({"ax": DIAGNOSTIC_FILES} if self.name == "mnli" else {})

    def settings(self) -> dict[str, object]:
        settings = super().settings()
        del settings["row"]
        return settings

    def files(self, data: StrPath) -> dict[str, str]:
        """Same as `Task.files`; MNLI also has "dev_mismatched", "test_mismatched" and "ax"."""
        if not is_tfds(data):
            return super().files(data)
        paths = {
            split: f"{data}:{file.removesuffix('.tsv').replace('dev', 'validation')}"
            for split, file in self.row.files.items()
        }
        return paths | ({"ax": PREFIX + DIAGNOSTIC_BUILDER} if self.name == "mnli" else {})

    def read(self, path: StrPath, *, split: str = "train") -> list[TextExample]:
        """Reads rows in the order of the prediction file."""
        is_labelled = needs_labels(split)
        columns, label_column, more = [*self.row.texts.values()], self.label_column, []
        if is_tfds(path):
            columns, label_column, more = [*self.row.texts], "label", ["idx"]
        if is_labelled:
            more.append(label_column)
        rows = table_rows(
            path,
            columns=columns + more,
            headerless=self.row.headerless,
            skips_broken=is_labelled and self.row.has_broken_rows,
        )
        if is_tfds(path):
            rows = sorted(rows, key=lambda row: int(row[1]["idx"]))  # TFDS shuffles rows
        names = self.row.builder_labels or self.row.labels
        labels: dict[str | None, str | None] = dict(zip(names, self.row.labels, strict=True))
        if not is_labelled:
            labels |= dict.fromkeys(NO_LABELS)
        examples = []
        for location, values in rows:
            texts, label = [values[column] for column in columns], values.get(label_column)
            label = labels.get(label, label)
            examples.append(self.example(texts, label, location=location, split=split))
        return examples

    def write_predictions(
        self, path: StrPath, examples: Sequence, predictions: Sequence[LabelPrediction]
    ) -> None:
        """Writes the file that GLUE's server reads."""
        most = self.row.max_score
        labels = (each.label for each in predictions)
        texts = (f"{min(max(0.0, each), most):.3f}" if most else str(each) for each in labels)
        rows = (f"{number}\t{text}\n" for number, text in enumerate(texts))
        write_text(path, "index\tprediction\n" + "".join(rows))


def make_tasks(rows: Mapping[str, GlueRow]) -> dict[str, GlueTask]:
    """Returns the task of each row, by its name."""
    return {
        name: GlueTask(
            name=name,
            row=row,
            labels=row.labels,
            kind=row.kind,
            text_columns=tuple(row.texts),
            label_column=row.label_column,
        )
        for name, row in rows.items()
    }


GLUE_TASKS: dict[str, GlueTask] = make_tasks(GLUE_ROWS)


# Name of each file for GLUE's server -> its number of predictions
SUBMISSION = {
    name: number for task in GLUE_TASKS.values() for name, number in task.row.num_test_rows.items()
}


def check_submission(folder: StrPath, *, new: str = "") -> None:
    """Raises InputError if a folder, with a file `new`, lacks files that GLUE's server expects."""
    missing = [each for each in SUBMISSION if each != new and not (Path(folder) / each).is_file()]
    if missing:
        raise InputError(
            f"{folder} has no {', '.join(missing)}; write them with predict (MNLI-mm.tsv with "
            "--split test_mismatched, AX.tsv with --split ax)"
        )


def write_submission(folder: StrPath, path: StrPath) -> None:
    """Packs the eleven prediction files of a folder, CoLA.tsv to AX.tsv, for GLUE's server.

    Raises InputError if a file is missing or has another number of predictions than its test set.
    """
    check_submission(folder)
    for name, expected in SUBMISSION.items():
        number = sum(1 for _ in text_lines(Path(folder) / name)) - 1  # without the header
        if number != expected:
            raise InputError(
                f"{Path(folder) / name} has {counted(number, 'prediction')}; expected {expected:,}"
            )
    with atomic_file(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in SUBMISSION:
            archive.write(Path(folder) / name, name)
