import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.tasks.classification import ClassificationTask, labels_in, majority_accuracy
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_PIECES, "good", "bad", "film", "very"))
TOKENIZER = WordPieceTokenizer(VOCABULARY)
SINGLE = ClassificationTask(("text",), "label", ("neg", "pos"), max_length=8)


@pytest.fixture
def rows(tmp_path):
    lines = ["text\tother\tlabel", "good film\tvery\tpos", "bad\tgood film\tneg", "film\tbad\tpos"]
    (tmp_path / "rows.tsv").write_text("\n".join(lines) + "\n")
    return tmp_path / "rows.tsv"


def test_ordered_batches_hold_every_row_packed(rows):
    examples = SINGLE.read(rows, TOKENIZER)
    batches = list(SINGLE.ordered_batches(examples, TOKENIZER, batch_size=2).as_numpy_iterator())
    assert [labels.tolist() for _, labels in batches] == [[1, 0], [1]]
    assert batches[0][0]["input_ids"].tolist() == [[2, 5, 7, 3], [2, 6, 3, 0]]
    assert batches[0][0]["input_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    assert batches[1][0]["input_ids"].tolist() == [[2, 7, 3]]


def test_pairs_have_two_segments(rows):
    task = ClassificationTask(("text", "other"), "label", ("neg", "pos"), max_length=8)
    examples = task.read(rows, TOKENIZER)
    assert examples.lengths.tolist() == [6, 6, 5]
    inputs, _ = next(task.ordered_batches(examples, TOKENIZER, batch_size=1).as_numpy_iterator())
    assert inputs["input_ids"].tolist() == [[2, 5, 7, 3, 8, 3]]
    assert inputs["segment_ids"].tolist() == [[0, 0, 0, 0, 1, 1]]


def test_training_batches_repeat_and_are_the_same_for_a_seed(rows):
    examples = SINGLE.read(rows, TOKENIZER)

    def labels(seed):
        batches = SINGLE.training_batches(examples, TOKENIZER, batch_size=2, seed=seed).take(20)
        return [each.tolist() for _, each in batches.as_numpy_iterator()]

    assert labels(1) == labels(1) != labels(2)
    assert sum(map(len, labels(1))) == 30


def test_unknown_labels_are_refused(rows):
    task = ClassificationTask(("text",), "label", ("neg", "neutral"), max_length=8)
    with pytest.raises(InputError, match=r"row 1 has the label 'pos'; known: neg, neutral"):
        task.read(rows, TOKENIZER)


def test_long_texts_are_refused_or_cut(tmp_path):
    (tmp_path / "long.tsv").write_text("text\tlabel\ngood\tpos\n" + "very " * 9 + "bad\tneg\n")
    with pytest.raises(InputError, match=r"row 2 has 12 pieces, over the limit max_length=8"):
        SINGLE.read(tmp_path / "long.tsv", TOKENIZER)
    cutting = ClassificationTask(("text",), "label", ("neg", "pos"), 8, long_texts="truncate")
    examples = cutting.read(tmp_path / "long.tsv", TOKENIZER)
    inputs, _ = next(cutting.ordered_batches(examples, TOKENIZER, batch_size=2).as_numpy_iterator())
    assert inputs["input_ids"][1].tolist() == [2, 8, 8, 8, 8, 8, 8, 3]


def test_labels_are_found_sorted(rows, tmp_path):
    assert labels_in(rows, label_column="label") == ("neg", "pos")
    (tmp_path / "one.tsv").write_text("label\nx\nx\n")
    with pytest.raises(InputError, match="column 'label' holds one label only, 'x'"):
        labels_in(tmp_path / "one.tsv", label_column="label")


def test_majority_is_that_of_the_training_rows(rows):
    examples = SINGLE.read(rows, TOKENIZER)
    assert majority_accuracy(examples, examples) == pytest.approx(2 / 3)
    assert np.array_equal(examples.label_ids, [1, 0, 1])
