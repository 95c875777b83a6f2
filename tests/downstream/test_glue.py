"""GLUE: files, TFDS builders, scores of the official scorer, and the server's prediction files."""

import dataclasses

import numpy as np
import pytest
import tensorflow_datasets as tfds

from bert_keras.downstream.classification import TABLE_TASKS, TextExample
from bert_keras.downstream.glue import GLUE_TASKS
from bert_keras.errors import InputError
from bert_keras.kinds.classifier import LabelPrediction
from bert_keras.runs.settings import data_files

# Every official file format with two or three rows per file.
BOM = "\ufeff"
STS_B = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2"
MNLI = (
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse"
    "\tsentence1_parse\tsentence2_parse\tsentence1\tsentence2"
)
MRPC_IDS = "\t#1 ID\t#2 ID\t#1 String\t#2 String"
QQP = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"
FILES = {
    "CoLA/train.tsv": 'gj04\t1\t\tHe said "it.\ngj04\t0\t*\tThe drank they.\n',
    "CoLA/dev.tsv": "gj04\t0\t*\tThey drank the pub.\n",
    "CoLA/test.tsv": "index\tsentence\n0\tBill whistled.\n1\tThe car honked.\n",
    "SST-2/train.tsv": 'sentence\tlabel\na " fine film \t1\nno wit \t0\n',
    "SST-2/dev.tsv": "sentence\tlabel\nlovely \t1\n",
    "SST-2/test.tsv": "index\tsentence\n0\tuneasy\n",
    "MRPC/train.tsv": f'{BOM}Quality{MRPC_IDS}\n1\t7\t8\tA man .\tOne " man .\n0\t9\t3\tB\tC\n',
    "MRPC/dev.tsv": f"{BOM}Quality{MRPC_IDS}\n0\t2\t4\tD\tE\n",
    "MRPC/test.tsv": f"index{MRPC_IDS}\n0\t1\t6\tF\tG\n",
    "STS-B/train.tsv": f"{STS_B}\tscore\n0\tg\tf\ty\to\tn\tn\tOne.\tTwo.\t5.000\n",
    "STS-B/dev.tsv": f"{STS_B}\tscore\n7\tg\tf\ty\to\tn\tn\tA.\tB.\t0.600\n",
    "STS-B/test.tsv": f"{STS_B}\n0\tg\tf\ty\to\tn\tn\tC.\tD.\n",
    "QQP/train.tsv": f"{QQP}\n5\t1\t2\tHow?\tWhy?\t1\n6\t3\t4\tWhere\nis it?\tWhen?\t0\n"
    "7\t5\t6\tWho?\tWhat?\t0\n",
    "QQP/dev.tsv": f"{QQP}\n9\t8\t7\tWhich?\tWhose?\t1\n",
    "QQP/test.tsv": "id\tquestion1\tquestion2\n0\tIs it?\tIs it not?\n",
    "MNLI/train.tsv": f"{MNLI}\tlabel1\tgold_label\n"
    "0\tp\tq\tg\ta\tb\tc\td\tOne.\tTwo.\tneutral\tneutral\n"
    "1\tp\tq\tg\ta\tb\tc\td\tSix.\tTen.\tentailment\tentailment\n",
    **{
        f"MNLI/dev_{kind}.tsv": f"{MNLI}\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label\n"
        f"0\tp\tq\tg\ta\tb\tc\td\t{kind}.\tYes.\t-\t-\t-\t-\t-\tcontradiction\n"
        for kind in ("matched", "mismatched")
    },
    **{
        f"MNLI/test_{kind}.tsv": f"{MNLI}\n0\tp\tq\tg\ta\tb\tc\td\t{kind} test.\tNo.\n"
        for kind in ("matched", "mismatched")
    },
    "QNLI/train.tsv": "index\tquestion\tsentence\tlabel\n3\tWho?\tHe.\tentailment\n",
    "QNLI/dev.tsv": "index\tquestion\tsentence\tlabel\n5\tWho?\tRain.\tnot_entailment\n",
    "QNLI/test.tsv": "index\tquestion\tsentence\n0\tWhere?\tHere.\n",
    "RTE/train.tsv": "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tnot_entailment\n",
    "RTE/dev.tsv": "index\tsentence1\tsentence2\tlabel\n0\tC.\tD.\tentailment\n",
    "RTE/test.tsv": "index\tsentence1\tsentence2\n0\tE.\tF.\n",
    "WNLI/train.tsv": "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\t1\n",
    "WNLI/dev.tsv": "index\tsentence1\tsentence2\tlabel\n0\tC.\tD.\t0\n",
    "WNLI/test.tsv": "index\tsentence1\tsentence2\n0\tE.\tF.\n",
    "AX/diagnostic.tsv": "index\tsentence1\tsentence2\n0\tThe cat sat.\tThe cat stood.\n",
}


@pytest.fixture
def glue_folder(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "glue" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "glue"


def test_mnli_has_two_dev_sets_and_the_diagnostic_set(glue_folder):
    task = GLUE_TASKS["mnli"]
    files = task.files(glue_folder)
    assert set(files) == {"train", "dev", "dev_mismatched", "test", "test_mismatched", "ax"}
    assert data_files(task, glue_folder) == data_files(task, files) == files
    (mismatched,) = task.read(files["dev_mismatched"], split="dev_mismatched")
    assert mismatched[:2] == (("mismatched.", "Yes."), "contradiction")
    (diagnostic,) = task.read(files["ax"], split="ax")
    assert diagnostic[:2] == (("The cat sat.", "The cat stood."), None)
    (glue_folder / "MNLI" / "dev_mismatched.tsv").unlink()
    assert "dev_mismatched" not in task.files(glue_folder)
    (glue_folder / "MNLI" / "dev_matched.tsv").unlink()
    with pytest.raises(InputError):
        task.files(glue_folder)


def test_rows_with_a_line_end_in_a_text_are_skipped_and_reported(glue_folder, capsys):
    task = GLUE_TASKS["qqp"]
    path = glue_folder / "QQP" / "train.tsv"
    assert [example.label for example in task.read(path)] == ["1", "0"]
    note = capsys.readouterr().err
    assert "2 rows" in note and f"{path}, line 3" in note
    with pytest.raises(InputError):
        task.read(path, split="test")


def test_errors_name_the_file_and_line(tmp_path):
    for name, text, line in (
        ("sst2", "sentence\tlabel\nx\t2\n", 2),
        ("cola", "gj04\t1\tHe.\n", 1),
        ("stsb", "sentence1\tsentence2\tscore\nA\tB\tnan\n", 2),
    ):
        (tmp_path / "a.tsv").write_text(text)
        with pytest.raises(InputError, match=f"a.tsv, line {line}"):
            GLUE_TASKS[name].read(tmp_path / "a.tsv")


@pytest.mark.parametrize(("name", "label"), [("sst2", "-1"), ("sst2", ""), ("rte", "-1")])
def test_unknown_labels_of_test_files_become_none(tmp_path, name, label):
    (tmp_path / "a.tsv").write_text(f"sentence\tsentence1\tsentence2\tlabel\na\tb\tc\t{label}")
    assert GLUE_TASKS[name].read(tmp_path / "a.tsv", split="test")[0].label is None


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
    ],
)  # fmt: skip
def test_scores_equal_those_of_the_official_scorer(name, gold, predicted, scores):
    task = GLUE_TASKS[name]
    computed = task.score(examples(gold), [LabelPrediction(label) for label in predicted])
    assert computed == pytest.approx(scores)
    assert next(iter(computed)) == task.metric


def test_similarities_are_scored_as_predicted_and_rounded_only_in_the_file(tmp_path):
    """Rounding would tie numbers that differ by less than 0.001, or that exceed 5."""
    task, gold = GLUE_TASKS["stsb"], [5.0, 4.0, 0.0, 3.0]
    outputs = [np.array([value], np.float32) for value in (5.3, 5.2, -0.1, 2.71828)]
    predictions = task.predictions(examples(gold), None, outputs)
    pearson = np.corrcoef(gold, [5.3, 5.2, -0.1, 2.71828])[0, 1]
    expected = {"pearson_and_spearman": (pearson + 1) / 2, "pearson": pearson, "spearman": 1.0}
    assert task.score(examples(gold), predictions) == pytest.approx(expected)
    path = tmp_path / "STS-B.tsv"
    task.write_predictions(path, examples(gold), predictions)
    assert path.read_text() == "index\tprediction\n0\t5.000\n1\t5.000\n2\t0.000\n3\t2.718\n"


def test_prediction_files_contain_label_names(tmp_path):
    task, rows = GLUE_TASKS["mnli"], examples([None] * 2)
    outputs = [np.array([3.0, 1.0, 2.0]), np.array([0.0, 1.0, 0.5])]
    task.write_predictions(tmp_path / "p.tsv", rows, task.predictions(rows, None, outputs))
    expected = "index\tprediction\n0\tcontradiction\n1\tentailment\n"
    assert (tmp_path / "p.tsv").read_text() == expected


@pytest.fixture
def builders(glue_folder, tmp_path, monkeypatch):
    """Makes the GLUE builders read the small folder instead of downloaded files."""

    def downloaded(manager, urls):
        if isinstance(urls, str):
            return glue_folder / "AX" / "diagnostic.tsv"
        # MRPC comes from Microsoft's files: train and dev are one file, and ids separate them.
        train, dev = ((glue_folder / "MRPC" / f"{n}.tsv").read_text() for n in ("train", "dev"))
        paths = {name: tmp_path / f"{name}.txt" for name in urls}
        paths["train"].write_text(train + "".join(dev.splitlines(keepends=True)[1:]))
        paths["dev_ids"].write_text("2\t4\n")
        paths["test"] = glue_folder / "MRPC" / "test.tsv"
        return paths

    manager = tfds.download.DownloadManager
    monkeypatch.setattr(manager, "download_and_extract", lambda *_: glue_folder)
    monkeypatch.setattr(manager, "download", downloaded)
    monkeypatch.setattr(tfds.core.constants, "DATA_DIR", str(tmp_path / "tfds"))


@pytest.mark.parametrize("name", GLUE_TASKS)
def test_official_files_and_builders_give_the_same_examples(glue_folder, builders, name):
    task = GLUE_TASKS[name]
    splits, files = task.files(f"tfds:glue/{name}"), task.files(glue_folder)
    assert files == task.files(glue_folder / task.folder)
    assert splits.keys() == files.keys() >= {"train", "dev", "test"}
    for split, path in splits.items():
        examples = task.read(files[split], split=split)
        found = [example[:2] for example in task.read(path, split=split)]
        assert [label for _, label in found] == pytest.approx([each.label for each in examples])
        assert [texts for texts, _ in found] == [each.texts for each in examples]
        assert {each.label is None for each in examples} == {not split.startswith(("train", "dev"))}
        if split == "test":
            with pytest.raises(InputError):
                task.check_labels(examples)


def test_the_classification_task_reads_builders(builders):
    task = dataclasses.replace(TABLE_TASKS["classification"], text_columns=("sentence",))
    files = task.files("tfds:glue/sst2")
    names = {"train": "train", "dev": "validation", "test": "test"}
    assert files == {split: f"tfds:glue/sst2:{name}" for split, name in names.items()}
    rows = task.read(files["train"])
    assert sorted(example.label for example in rows) == ["negative", "positive"]
    assert len(task.read(files["test"], split="test")) == 1
