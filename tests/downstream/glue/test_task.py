"""GLUE tasks: official files, scores of the official scorer, prediction files for the server."""

import numpy as np
import pytest

from bert_keras.downstream.classification import TextExample
from bert_keras.downstream.glue.task import GLUE_TASKS
from bert_keras.downstream.label_kinds import LabelPrediction
from bert_keras.errors import InputError
from bert_keras.runs.settings import with_changes

FIRST = {
    "cola": (('He said "it.',), "1"),
    "sst2": (('a " fine film ',), "1"),
    "mrpc": (("A man .", 'One " man .'), "1"),
    "stsb": (("One.", "Two."), 5.0),
    "qqp": (("How?", "Why?"), "1"),
    "mnli": (("One.", "Two."), "neutral"),
    "qnli": (("Who?", "He."), "entailment"),
    "rte": (("A.", "B."), "not_entailment"),
    "wnli": (("A.", "B."), "1"),
}


@pytest.mark.parametrize("name", GLUE_TASKS)
def test_every_split_of_the_official_layout_is_read(glue_folder, name):
    task = GLUE_TASKS[name]
    files = task.files(glue_folder)
    assert files == task.files(glue_folder / task.row.folder)
    assert {"train", "dev", "test"} <= set(files)
    train = task.read(files["train"], split="train")
    assert train[0][:2] == FIRST[name]
    for split in set(files) - {"train"}:
        (example, *_) = task.read(files[split], split=split)
        assert (example.label is None) == (not split.startswith("dev"))
        assert len(example.texts) == len(task.text_columns)


def test_mnli_has_two_dev_sets_and_the_diagnostic_set(glue_folder):
    task = GLUE_TASKS["mnli"]
    files = task.files(glue_folder)
    assert set(files) == {"train", "dev", "dev_mismatched", "test", "test_mismatched", "ax"}
    (mismatched,) = task.read(files["dev_mismatched"], split="dev_mismatched")
    assert mismatched[:2] == (("mismatched.", "Yes."), "contradiction")
    (diagnostic,) = task.read(files["ax"], split="ax")
    assert diagnostic[:2] == (("The cat sat.", "The cat stood."), None)
    (glue_folder / "MNLI" / "dev_mismatched.tsv").unlink()
    assert "dev_mismatched" not in task.files(glue_folder)


def test_rows_with_a_line_end_in_a_text_are_skipped_and_reported(glue_folder, capsys):
    task = GLUE_TASKS["qqp"]
    path = glue_folder / "QQP" / "train.tsv"
    assert [example.label for example in task.read(path)] == ["1", "0"]
    assert capsys.readouterr().err == (
        f"skipped 2 rows with a wrong number of columns; the first is {path}, line 3\n"
    )
    with pytest.raises(InputError, match=r"train.tsv, line 3 has 4 columns; expected 6, id, qid1"):
        task.read(path, split="test")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("sst2", "sentence\tlabel\nx\t2\n", r"a.tsv, line 2 has the label '2'; known: 0, 1"),
        ("sst2", "text\tlabel\nx\t1\n", r"line 2 has no column 'sentence'; it has 'text', 'label'"),
        (
            "sst2",
            "sentence\tlabel\n\t1\n",
            r"a.tsv, line 2 has no text; expected",
        ),
        ("sst2", "", r"a.tsv is empty; expected a header"),
        ("cola", "gj04\t1\tHe.\n", r"a.tsv, line 1 has 3 columns; expected 4, source, label, m"),
        ("cola", "gj04\t1\t\tA.\ngj04\n", r"a.tsv, line 2 has 1 column; expected 4, source"),
        ("cola", "gj04\tx\t\tHe.\n", r"a.tsv, line 1 has the label 'x'; known: 0, 1"),
        ("rte", "sentence1\tsentence2\tlabel\nA\tB\t1\n", r"label '1'; known: entailment, not_"),
        (
            "stsb",
            "sentence1\tsentence2\tscore\nA\tB\tnan\n",
            r"line 2 has the label 'nan'; exp",
        ),
    ],
)
def test_errors_name_the_file_and_line(tmp_path, name, text, message):
    (tmp_path / "a.tsv").write_text(text)
    with pytest.raises(InputError, match=message):
        GLUE_TASKS[name].read(tmp_path / "a.tsv")


@pytest.mark.parametrize("name", GLUE_TASKS)
def test_test_files_cannot_be_scored(glue_folder, name):
    task = GLUE_TASKS[name]
    for split in {"test", "ax"} & task.files(glue_folder).keys():
        rows = task.read(task.files(glue_folder)[split], split=split)
        predictions = [LabelPrediction(task.labels[0])] * len(rows)
        with pytest.raises(InputError, match=r"tsv, line 2 has no labels, so there is nothing to"):
            task.score(rows, predictions)


@pytest.mark.parametrize("name", GLUE_TASKS)
def test_labels_of_any_split_are_scored(glue_folder, name):
    task = GLUE_TASKS[name]
    path = task.files(glue_folder)["dev"]
    rows = task.read(path, split="test")
    assert rows == task.read(path, split="dev")
    if "accuracy" in task.scores:
        scores = task.score(rows, [LabelPrediction(row.label) for row in rows])
        assert scores["accuracy"] == 1.0


@pytest.mark.parametrize(("name", "label"), [("sst2", "-1"), ("sst2", ""), ("rte", "-1")])
def test_unknown_labels_of_test_files_become_none(tmp_path, name, label):
    task = GLUE_TASKS[name]
    lines = ["sentence\tsentence1\tsentence2\tlabel", f"a\tb\tc\t{label}"]
    (tmp_path / "a.tsv").write_text("\n".join(lines))
    assert task.read(tmp_path / "a.tsv", split="test")[0].label is None
    with pytest.raises(InputError, match=r"line 2 has (the|an empty) label"):
        task.read(tmp_path / "a.tsv", split="dev")


def test_missing_files_are_named(tmp_path):
    (tmp_path / "CoLA").mkdir()
    (tmp_path / "CoLA" / "train.tsv").touch()
    with pytest.raises(InputError, match=r"CoLA has no dev.tsv; it contains train.tsv"):
        GLUE_TASKS["cola"].files(tmp_path)


def test_columns_of_glue_tasks_cannot_be_changed():
    with pytest.raises(InputError, match="no setting is called 'text_columns'"):
        with_changes(GLUE_TASKS["cola"], changes=["text_columns=text"])


def examples(labels):
    return [TextExample(("a",), label, f"x.tsv, line {n}") for n, label in enumerate(labels, 2)]


@pytest.mark.parametrize(
    ("name", "gold", "predicted", "scores"),
    [
        # Counted by hand: 3 true positives, 1 false positive, 1 false negative, 1 true negative.
        ("cola", "111100", "111010", {"matthews": 0.25, "accuracy": 4 / 6}),
        ("mrpc", "111100", "111010",
         {"accuracy_and_f1": (4 / 6 + 0.75) / 2, "accuracy": 4 / 6, "f1": 0.75}),
        ("sst2", "10", "11", {"accuracy": 0.5}),
        ("cola", "10", "11", {"matthews": 0.0, "accuracy": 0.5}),
    ],
)  # fmt: skip
def test_scores_equal_those_of_the_official_scorer(name, gold, predicted, scores):
    task = GLUE_TASKS[name]
    computed = task.score(examples(gold), [LabelPrediction(label) for label in predicted])
    assert computed == pytest.approx(scores)
    assert next(iter(computed)) == task.metric


def test_similarities_are_scored_by_their_correlations():
    task = GLUE_TASKS["stsb"]
    predicted = [LabelPrediction(value) for value in (1.0, 2.0, 4.0)]
    scores = task.score(examples([0.0, 3.0, 2.0]), predicted)
    pearson = np.corrcoef([1, 2, 4], [0, 3, 2])[0, 1]
    assert scores == pytest.approx(
        {"pearson_and_spearman": (pearson + 0.5) / 2, "pearson": pearson, "spearman": 0.5}
    )


def test_similarities_are_limited_and_rounded_in_prediction_files(tmp_path):
    task = GLUE_TASKS["stsb"]
    rows = examples([None] * 3)
    outputs = [np.array([value], np.float32) for value in (5.3, -0.1, 2.71828)]
    predictions = task.predictions(rows, None, outputs)
    path = tmp_path / "STS-B.tsv"
    task.write_predictions(path, rows, predictions)
    assert path.read_text() == "index\tprediction\n0\t5.000\n1\t0.000\n2\t2.718\n"
    assert task.read_predictions(path, rows) == predictions


def test_prediction_files_contain_label_names(tmp_path):
    task = GLUE_TASKS["mnli"]
    rows = examples([None] * 2)
    outputs = [np.array([3.0, 1.0, 2.0]), np.array([0.0, 1.0, 0.5])]
    task.write_predictions(tmp_path / "p.tsv", rows, task.predictions(rows, None, outputs))
    assert (tmp_path / "p.tsv").read_text() == (
        "index\tprediction\n0\tcontradiction\n1\tentailment\n"
    )
    (tmp_path / "p.tsv").write_text("index\tprediction\n0\tcontradiction\n1\tyes\n")
    with pytest.raises(InputError, match=r"p.tsv, line 3 has the label 'yes'; known: contradictio"):
        task.read_predictions(tmp_path / "p.tsv", rows)


def test_all_rows_of_the_shared_files_are_read(shared_data):
    rows = {"cola": (7_551, 1_000), "sst2": (61_786, 872), "mrpc": (3_260, 408),
            "stsb": (4_999, 750), "qqp": (9_319, 500), "mnli": (10_444, 2_815),
            "qnli": (10_265, 2_000), "rte": (2_213, 277), "wnli": (564, 71)}  # fmt: skip
    for name, task in GLUE_TASKS.items():
        files = task.files(shared_data / "glue")
        assert rows[name] == tuple(len(task.read(files[s], split=s)) for s in ("train", "dev"))
        for split in set(files) & {"test", "ax"}:
            test_rows = task.read(files[split], split=split)
            assert len(test_rows) in task.row.num_test_rows.values()
