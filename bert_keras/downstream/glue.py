"""The General Language Understanding Evaluation: nine tasks, a diagnostic set, the submission."""

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bert_keras.downstream.classification import ClassificationTask, TextExample
from bert_keras.downstream.table import table_rows
from bert_keras.downstream.task import fixed, needs_labels
from bert_keras.downstream.tfds import PREFIX, is_tfds
from bert_keras.errors import check, counted
from bert_keras.files import StrPath, atomic_file, text_lines, write_text
from bert_keras.kinds.classifier import LabelPrediction

# The file of each split in the folder of a task. The split of TFDS has the same name without
# ".tsv", with "validation" instead of "dev".
FILES = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
MNLI_FILES = {
    "train": "train.tsv",
    "dev": "dev_matched.tsv",
    "dev_mismatched": "dev_mismatched.tsv",
    "test": "test_matched.tsv",
    "test_mismatched": "test_mismatched.tsv",
}
# MNLI's model predicts the diagnostic set. These are its paths in the GLUE folder, as the archives
# of the GLUE site and download_glue_data.py create them.
DIAGNOSTIC_FILES = ("../AX/diagnostic.tsv", "../AX/AX.tsv", "../diagnostic/diagnostic.tsv")
DIAGNOSTIC_BUILDER = "glue/ax:test"

PAIR = {"sentence1": "sentence1", "sentence2": "sentence2"}
ENTAILED = ("entailment", "not_entailment")


@dataclass(frozen=True, kw_only=True, eq=False)
class GlueRow:
    """One task of GLUE, or of another benchmark of texts in official files."""

    folder: str  # the folder of the task in the folder of the benchmark
    # The names of the texts in TFDS and Hugging Face, mapped to their columns in the files.
    texts: Mapping[str, str]
    # The labels in data files and prediction files, in the order of the processors of
    # google-research/bert and Hugging Face. A regression task has its column as the only label.
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


# The scores are those of gluebenchmark.com/tasks. If a task has two, GLUE's average uses
# their mean.
ROWS: dict[str, GlueRow] = {
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
    """A task in the official files of a benchmark; its row names files, columns and labels.

    Texts of more than 128 tokens are cut, as run_classifier.py of google-research/bert does.
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
        is_builder, is_labelled = is_tfds(path), needs_labels(split)
        columns = [name if is_builder else file for name, file in self.row.texts.items()]
        label = "label" if is_builder else self.label_column
        rows = table_rows(
            path,
            columns=[*columns, *[label] * is_labelled, *["idx"] * is_builder],
            headerless=self.row.headerless,
            skips_broken=is_labelled and self.row.has_broken_rows,
        )
        if is_builder:
            rows = sorted(rows, key=lambda row: int(row[1]["idx"]))  # TFDS shuffles rows
        names = self.row.builder_labels or self.row.labels
        labels: dict[str | None, str | None] = dict(zip(names, self.row.labels, strict=True))
        if not is_labelled:
            labels |= dict.fromkeys(NO_LABELS)
        examples = []
        for location, values in rows:
            texts, text = [values[column] for column in columns], values.get(label)
            text = labels.get(text, text)
            examples.append(self.example(texts, text, location=location, split=split))
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


def tasks_of(rows: Mapping[str, GlueRow]) -> dict[str, GlueTask]:
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


GLUE_TASKS: dict[str, GlueTask] = tasks_of(ROWS)


def check_submission(folder: StrPath, *, new: str = "") -> None:
    """Raises InputError if a folder, with a file `new`, lacks files that GLUE's server expects."""
    files = [file for task in GLUE_TASKS.values() for file in task.row.num_test_rows]
    missing = [each for each in files if each != new and not (Path(folder) / each).is_file()]
    where = "MNLI-mm.tsv with --split test_mismatched, AX.tsv with --split ax"
    check(not missing, f"{folder} has no {', '.join(missing)}; write them with predict ({where})")


def submission_zip(folder: StrPath, path: StrPath) -> None:
    """Packs the eleven prediction files of a folder, CoLA.tsv to AX.tsv, for GLUE's server.

    Raises InputError if a file is missing or has another number of predictions than its test set.
    """
    check_submission(folder)
    files = {file: task for task in GLUE_TASKS.values() for file in task.row.num_test_rows}
    for file, task in files.items():
        found = counted(sum(1 for _ in text_lines(Path(folder) / file)) - 1, "prediction")
        expected = counted(task.row.num_test_rows[file], "prediction")
        check(found == expected, f"{Path(folder) / file} has {found}; expected {expected}")
    with atomic_file(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(Path(folder) / file, file)
