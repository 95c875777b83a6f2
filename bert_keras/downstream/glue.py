"""Defines the nine tasks of GLUE (General Language Understanding Evaluation)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bert_keras.downstream.classification import ClassificationTask, TextExample
from bert_keras.downstream.table import PREFIX, is_tfds, table_rows
from bert_keras.downstream.task import FileNames, fixed, needs_labels
from bert_keras.files import StrPath, write_text
from bert_keras.kinds.classifier import LabelPrediction

# The file of each split in the folder of a task. The split of TFDS has the same name without
# ".tsv", except that "dev" is "validation" there.
FILES: FileNames = {"train": ("train.tsv",), "dev": ("dev.tsv",), "test": ("test.tsv",)}
MNLI_FILES: FileNames = {
    "train": ("train.tsv",),
    "dev": ("dev_matched.tsv",),
    "dev_mismatched": ("dev_mismatched.tsv",),
    "test": ("test_matched.tsv",),
    "test_mismatched": ("test_mismatched.tsv",),
    # The diagnostic set; its place differs between archives of GLUE.
    "ax": ("../AX/diagnostic.tsv", "../AX/AX.tsv", "../diagnostic/diagnostic.tsv"),
}
PAIR = ("sentence1", "sentence2")
ENTAILMENT = ("entailment", "not_entailment")
# The label of every row of a test set, in TFDS builders and in tables that come from them.
UNKNOWN_LABELS = ("-1", "-1.0")


@dataclass(frozen=True, kw_only=True)
class GlueTask(ClassificationTask):
    """A task of GLUE or another benchmark of texts, with the length of BERT's run_classifier.py."""

    folder: str = fixed()
    file_names: FileNames = field(default_factory=lambda: FILES, metadata={"is_fixed": True})
    kind: str = fixed("one")
    text_columns: tuple[str, ...] = fixed(PAIR)  # the names in TFDS and Hugging Face
    file_columns: tuple[str, ...] = fixed(())  # the names in the files, if they differ
    label_column: str = fixed("label")
    # The names in the files, in the order of google-research/bert. A regression has one label, the
    # column of the numbers.
    labels: tuple[str, ...] = fixed(("0", "1"))
    builder_labels: tuple[str, ...] = fixed(())  # the names of `labels` in TFDS, if they differ
    scores: tuple[str, ...] = fixed(("accuracy",))
    headerless: tuple[str, ...] = fixed(())  # the columns of files without a header
    # Whether official files contain rows with a wrong number of columns, which are skipped.
    has_broken_rows: bool = fixed(False)
    max_score: float = fixed(0.0)  # for a regression, the largest number that GLUE's server reads

    def settings(self) -> dict[str, object]:
        stored = ("name", "max_length", "kind", "text_columns", "label_column")
        return {name: value for name, value in super().settings().items() if name in stored}

    def files(self, data: StrPath) -> dict[str, str]:
        """Same as `Task.files`; MNLI also has "dev_mismatched", "test_mismatched" and "ax"."""
        if not is_tfds(data):
            return super().files(data)
        paths = {
            split: f"{data}:{names[0].removesuffix('.tsv').replace('dev', 'validation')}"
            for split, names in self.file_names.items()
        }
        return paths | ({"ax": f"{PREFIX}glue/ax:test"} if "ax" in paths else {})

    def read(self, path: StrPath, *, split: str = "train") -> list[TextExample]:
        """Reads rows in the order of the prediction file."""
        is_labelled = needs_labels(split)
        text_columns, label_column = self.file_columns or self.text_columns, self.label_column
        if is_tfds(path):
            text_columns, label_column = self.text_columns, "label"
        columns = [*text_columns, label_column] if is_labelled else [*text_columns]
        if is_tfds(path):
            rows = list(table_rows(path, columns=[*columns, "idx"]))
            rows.sort(key=lambda row: int(row.values["idx"]))  # TFDS shuffles rows
        else:
            rows = table_rows(
                path,
                columns=columns,
                headerless=self.headerless,
                skips_broken=is_labelled and self.has_broken_rows,
                keeps_blank=not is_labelled,
            )
        label_names = dict(zip(self.builder_labels or self.labels, self.labels, strict=True))
        examples = []
        for location, values in rows:
            label = values.get(label_column)
            if not is_labelled and label in UNKNOWN_LABELS:
                label = None
            label = label_names.get(label or "", label)
            texts = [values[column] for column in text_columns]
            examples.append(self.example(texts, label, location=location, split=split))
        return examples

    def write_predictions(
        self, path: StrPath, examples: Sequence, predictions: Sequence[LabelPrediction]
    ) -> None:
        """Writes the file that GLUE's server reads."""
        labels = [each.label for each in predictions]
        if self.max_score:
            labels = [f"{min(max(0.0, label), self.max_score):.3f}" for label in labels]
        rows = (f"{index}\t{label}\n" for index, label in enumerate(labels))
        write_text(path, "index\tprediction\n" + "".join(rows))


# gluebenchmark.com/tasks lists the scores. GLUE averages the two scores of a task.
GLUE_TASKS: dict[str, GlueTask] = {
    task.name: task
    for task in (
        GlueTask(
            name="cola",
            folder="CoLA",
            text_columns=("sentence",),
            builder_labels=("unacceptable", "acceptable"),
            scores=("matthews", "accuracy"),
            headerless=("source", "label", "mark", "sentence"),
        ),
        GlueTask(
            name="sst2",
            folder="SST-2",
            text_columns=("sentence",),
            builder_labels=("negative", "positive"),
        ),
        GlueTask(
            name="mrpc",
            folder="MRPC",
            file_columns=("#1 String", "#2 String"),
            label_column="Quality",
            builder_labels=("not_equivalent", "equivalent"),
            scores=("accuracy_and_f1", "accuracy", "f1"),
        ),
        GlueTask(
            name="stsb",
            folder="STS-B",
            label_column="score",
            kind="number",
            labels=("score",),
            max_score=5.0,
            scores=("pearson_and_spearman", "pearson", "spearman"),
        ),
        GlueTask(
            name="qqp",
            folder="QQP",
            text_columns=("question1", "question2"),
            label_column="is_duplicate",
            builder_labels=("not_duplicate", "duplicate"),
            scores=("accuracy_and_f1", "accuracy", "f1"),
            has_broken_rows=True,  # some questions contain a line end
        ),
        GlueTask(
            name="mnli",
            folder="MNLI",
            text_columns=("premise", "hypothesis"),
            file_columns=PAIR,
            label_column="gold_label",
            labels=("contradiction", "entailment", "neutral"),
            file_names=MNLI_FILES,
        ),
        GlueTask(
            name="qnli", folder="QNLI", text_columns=("question", "sentence"), labels=ENTAILMENT
        ),
        GlueTask(name="rte", folder="RTE", labels=ENTAILMENT),
        GlueTask(name="wnli", folder="WNLI", builder_labels=("not_entailment", "entailment")),
    )
}
