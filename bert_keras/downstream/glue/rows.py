"""Lists the GLUE tasks with their files, columns, labels and scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
DIAGNOSTIC_FILES = ("AX/diagnostic.tsv", "AX/AX.tsv", "diagnostic/diagnostic.tsv")
DIAGNOSTIC_BUILDER = "glue/ax:test"

PAIR = {"sentence1": "sentence1", "sentence2": "sentence2"}
ENTAILED = ("entailment", "not_entailment")


@dataclass(frozen=True, kw_only=True)
class GlueRow:
    """One task of GLUE, or of another benchmark of texts in official files."""

    folder: str  # the folder of the task in the folder of the benchmark
    # The names of the texts in TFDS and Hugging Face, mapped to their columns in the files.
    texts: Mapping[str, str]
    # The labels in data files and prediction files, in the order of the processors of
    # google-research/bert and Hugging Face. A regression task has its column as the only label.
    labels: tuple[str, ...]
    scores: tuple[str, ...]  # names in SCORES; the first chooses the best checkpoint
    # The prediction files in the zip of GLUE's server, with the number of predictions in each.
    num_test_rows: Mapping[str, int] = field(default_factory=dict)
    label_column: str = "label"
    kind: str = "one"  # kind of label: a name in LABEL_KINDS
    builder_labels: tuple[str, ...] = ()  # TFDS' names of `labels`, if they differ
    files: Mapping[str, str] = field(default_factory=FILES.copy)  # the file of each split
    headerless: Sequence[str] = ()  # the columns of files without a header
    # Whether official files contain rows with a wrong number of columns, which are skipped.
    has_broken_rows: bool = False
    has_blank_texts: bool = False  # whether official files contain rows without a text


# The scores are those of gluebenchmark.com/tasks. If a task has two, GLUE's average uses
# their mean.
ROWS: dict[str, GlueRow] = {
    "cola": GlueRow(
        folder="CoLA",
        texts={"sentence": "sentence"},
        labels=("0", "1"),
        builder_labels=("unacceptable", "acceptable"),
        scores=("matthews", "accuracy"),
        headerless=("source", "label", "mark", "sentence"),
        num_test_rows={"CoLA.tsv": 1_063},
    ),
    "sst2": GlueRow(
        folder="SST-2",
        texts={"sentence": "sentence"},
        labels=("0", "1"),
        builder_labels=("negative", "positive"),
        scores=("accuracy",),
        num_test_rows={"SST-2.tsv": 1_821},
    ),
    "mrpc": GlueRow(
        folder="MRPC",
        texts={"sentence1": "#1 String", "sentence2": "#2 String"},
        label_column="Quality",
        labels=("0", "1"),
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
        scores=("pearson_and_spearman", "pearson", "spearman"),
        num_test_rows={"STS-B.tsv": 1_379},
    ),
    "qqp": GlueRow(
        folder="QQP",
        texts={"question1": "question1", "question2": "question2"},
        label_column="is_duplicate",
        labels=("0", "1"),
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
        scores=("accuracy",),
        files=MNLI_FILES,
        num_test_rows={"MNLI-m.tsv": 9_796, "MNLI-mm.tsv": 9_847, "AX.tsv": 1_104},
    ),
    "qnli": GlueRow(
        folder="QNLI",
        texts={"question": "question", "sentence": "sentence"},
        labels=ENTAILED,
        scores=("accuracy",),
        num_test_rows={"QNLI.tsv": 5_463},
    ),
    "rte": GlueRow(
        folder="RTE",
        texts=PAIR,
        labels=ENTAILED,
        scores=("accuracy",),
        num_test_rows={"RTE.tsv": 3_000},
    ),
    "wnli": GlueRow(
        folder="WNLI",
        texts=PAIR,
        labels=("0", "1"),
        builder_labels=("not_entailment", "entailment"),
        scores=("accuracy",),
        num_test_rows={"WNLI.tsv": 146},
    ),
}
