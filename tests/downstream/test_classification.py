"""Classification of user-provided tables: reading, training, predictions, files and errors."""

import dataclasses
from itertools import islice

import numpy as np
import pytest

from bert_keras.data.batches import training_batches
from bert_keras.downstream.classification import TABLE_TASKS
from bert_keras.errors import InputError
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, "good", "bad", "film", "very"))
TOKENIZER = WordPieceTokenizer(VOCABULARY)


def task(name="classification", **changes):
    return dataclasses.replace(TABLE_TASKS[name], **{"max_length": 8, **changes})


SINGLE = task(labels=("neg", "pos"))


def write(path, *rows):
    path.write_text("".join(f"{row}\n" for row in rows))
    return path


@pytest.fixture
def rows(tmp_path):
    lines = ["text\tother\tlabel", "good film\tvery\tpos", "bad\tgood film\tneg", "film\tbad\tpos"]
    return write(tmp_path / "rows.tsv", *lines)


def test_training_batches_repeat_and_are_the_same_for_a_seed(rows):
    encoded = SINGLE.encode(SINGLE.read(rows), TOKENIZER)

    def labels(seed):
        batches = training_batches(encoded, batch_size=2, seed=seed)
        return [each.tolist() for _, each in islice(batches, 20)]

    assert labels(1) == labels(1) != labels(2)
    assert sum(map(len, labels(1))) == 30
    dataset = training_batches(encoded, batch_size=2, seed=1).for_fit()
    assert dataset.options().autotune.enabled is False  # the end of an iterator would wait


def test_labels_are_those_of_the_training_rows(rows, tmp_path):
    examples = task().read(rows)
    labelled = task().with_labels_of(examples)
    assert labelled.labels == ("neg", "pos")
    assert labelled.baseline(examples, examples)["majority_accuracy"] == pytest.approx(2 / 3)
    dev = write(tmp_path / "dev.csv", "label,text", "neutral,fine")
    unknown = labelled.read(dev, split="test")
    labelled.encode(unknown, TOKENIZER)
    with pytest.raises(InputError):
        labelled.check_labels(unknown)


def test_a_column_of_distinct_values_does_not_give_labels(tmp_path):
    table = write(tmp_path / "a.csv", "text,label", *(f"good film,{n}" for n in range(20)))
    examples = task().read(table)
    with pytest.raises(InputError):
        task().with_labels_of(examples)
    tags = write(tmp_path / "tags.csv", "text,label", *(f'film,"new,{n}"' for n in range(20)))
    many = task("multi-label")
    assert len(many.with_labels_of(many.read(tags)).labels) == 21


@pytest.mark.parametrize(
    ("name", "label", "expected"),
    [("classification", "pos ", "pos"), ("multi-label", "b, a", ("b", "a")),
     ("regression", " 2.5", 2.5), ("classification", "", None), ("regression", "", None)],
)  # fmt: skip
def test_labels_of_a_test_file_are_read_if_present(tmp_path, name, label, expected):
    path = write(tmp_path / "rows.tsv", "text\tlabel", f"a\t{label}")
    (example,) = task(name).read(path, split="test")
    assert example.label == expected
    path = write(tmp_path / "rows.tsv", "text", "a")
    unlabelled = task(name).read(path, split="test")
    with pytest.raises(InputError):
        task(name).check_labels(unlabelled)


def test_several_labels_are_learnt_predicted_and_scored(tmp_path):
    rows = ['{"text": "good", "label": ["b", "a"]}', '{"text": "bad", "label": []}']
    path = write(tmp_path / "rows.jsonl", *rows, '{"text": "film", "label": "c"}')
    many = task("multi-label")
    examples = many.read(path)
    assert [example.label for example in examples] == [("b", "a"), (), ("c",)]
    many = many.with_labels_of(examples)
    assert (many.labels, many.problem_type) == (("a", "b", "c"), "multi_label_classification")
    _, targets = many.encode(examples, TOKENIZER).batch(np.arange(3))
    assert targets.tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 1]]

    outputs = np.array([[2.0, 1.0, -1.0], [-1.0, -3.0, 0.0], [-1.0, -1.0, -1.0]], np.float32)
    predictions = many.predictions(examples, None, outputs)
    assert [prediction.label for prediction in predictions] == [("a", "b"), ("c",), ()]
    assert predictions[1].probabilities[2] == 0.5
    # 2 of 3 labels are predicted and 1 is wrong; a and b are always right, and c never.
    scores = {"micro_f1_of_labels": 2 / 3, "macro_f1_of_labels": 2 / 3, "subset_accuracy": 1 / 3}
    assert many.score(examples, predictions) == pytest.approx(scores)
    many.write_predictions(tmp_path / "p.tsv", examples, predictions)
    header, first, *_ = (tmp_path / "p.tsv").read_text().splitlines()
    assert header == "index\tprediction\ta\tb\tc\ttext"
    assert first.startswith("0\ta,b\t0.880797\t0.7310")
    many.write_predictions(tmp_path / "p.csv", examples, predictions)
    assert (tmp_path / "p.csv").read_text().splitlines()[1].startswith('0,"a,b",0.880797,0.7310')


def test_numbers_are_learnt_predicted_and_scored(tmp_path):
    path = write(tmp_path / "rows.csv", 'text,label\n"good, very",1.5\nbad,-2\nfilm,0')
    number = task("regression")
    examples = number.read(path)
    number = number.with_labels_of(examples)
    assert (number.labels, number.problem_type) == (("label",), "regression")
    _, targets = number.encode(examples, TOKENIZER).batch(np.arange(3))
    assert targets.tolist() == [[1.5], [-2.0], [0.0]]
    outputs = np.array([[0.1], [-3.0], [0.7]], np.float32)
    predictions = number.predictions(examples, None, outputs)
    scores = number.score(examples, predictions)
    assert scores["spearman"] == pytest.approx(0.5)
    assert scores["mean_squared_error"] == pytest.approx((1.4**2 + 1 + 0.7**2) / 3)
    number.write_predictions(tmp_path / "p.tsv", examples, predictions)
    lines = (tmp_path / "p.tsv").read_text().splitlines()
    assert [float(line.split("\t")[1]) for line in lines[1:]] == outputs[:, 0].tolist()


@pytest.mark.parametrize("name", ["a.txt", "a.tsv", "a.csv"])
def test_each_row_of_a_file_to_predict_is_an_example(tmp_path, name):
    path = write(tmp_path / name, *["text"] * (name != "a.txt"), "good", "", "bad", "")
    texts = [each.texts for each in task().read(path, split="test")]
    assert texts == [("good",), ("",), ("bad",), ("",)]
    pairs = task(text_columns=("a", "b"))
    rows = "a\tb", "good\tfilm", "\t", "bad\tfilm", ""
    assert len(pairs.read(write(tmp_path / "b.tsv", *rows), split="test")) == 3
    with pytest.raises(InputError, match="line 5"):
        pairs.read(write(tmp_path / "b.tsv", *rows, "bad\tfilm"), split="test")


def test_long_texts_are_cut(tmp_path):
    path = write(tmp_path / "long.tsv", "text\tlabel", "good\tpos", "very " * 9 + "bad\tneg")
    encoded = SINGLE.encode(SINGLE.read(path), TOKENIZER)
    assert encoded.lengths.tolist() == [3, 8]
    inputs, labels = encoded.batch(np.array([1, 0]))
    assert labels.tolist() == [0, 1]
    assert inputs["input_ids"].tolist() == [[2, 8, 8, 8, 8, 8, 8, 3], [2, 5, 3, 0, 0, 0, 0, 0]]
    assert encoded.batch(np.array([0]))[0]["input_mask"].tolist() == [[1, 1, 1]]
