"""What sets one GLUE task apart from another: its files, columns, labels and scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

# The file of each split in the task's folder; TFDS' split is its stem, "validation" for "dev".
FILES = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
MNLI_FILES = {
    "train": "train.tsv",
    "dev": "dev_matched.tsv",
    "dev_mismatched": "dev_mismatched.tsv",
    "test": "test_matched.tsv",
    "test_mismatched": "test_mismatched.tsv",
}
# The diagnostic set is read with MNLI's model; from the GLUE folder, as its site and as
# download_glue_data.py lay it down.
DIAGNOSTIC_FILES = ("AX/diagnostic.tsv", "AX/AX.tsv", "diagnostic/diagnostic.tsv")
DIAGNOSTIC_BUILDER = "glue/ax:test"

PAIR = {"sentence1": "sentence1", "sentence2": "sentence2"}
ENTAILED = ("entailment", "not_entailment")


@dataclass(frozen=True, kw_only=True)
class GlueRow:
    """`texts` are the texts' names, those of TFDS and Hugging Face, and their columns in the files.

    `labels` are the words of the files and of the prediction files, in the order of the processors
    of google-research/bert and Hugging Face; the one of a number is its column. `builder_labels`
    are TFDS' names for them where it has its own. `submission` are the files of the server's zip
    and `num_test_rows` how many predictions it expects in each. `headerless` are the columns of
    files without a header. Rows of another width are left out where `has_broken_rows` says that the
    official files hold such.
    """

    folder: str
    texts: Mapping[str, str]
    labels: tuple[str, ...]
    scores: tuple[str, ...]  # the first chooses the best checkpoint
    num_test_rows: Mapping[str, int]
    label_column: str = "label"
    kind: str = "one"
    builder_labels: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=FILES.copy)
    headerless: Sequence[str] = ()
    has_broken_rows: bool = False


# Scores: gluebenchmark.com/tasks. Where there are two, GLUE's average counts their mean.
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
        has_broken_rows=True,  # questions with a line end inside
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
