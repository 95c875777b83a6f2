"""Tables of one's own: what is read, learnt from, predicted, written and refused."""

import dataclasses

import numpy as np
import pytest

from bert_keras.tasks.batches import ordered_batches, training_batches
from bert_keras.tasks.classification import OWN_TABLE_TASKS
from bert_keras.tasks.label_scores import majority_accuracy
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_PIECES, "good", "bad", "film", "very"))
TOKENIZER = WordPieceTokenizer(VOCABULARY)


def task(name="classification", **changes):
    return dataclasses.replace(OWN_TABLE_TASKS[name], **{"max_length": 8, **changes})


SINGLE = task(labels=("neg", "pos"))


@pytest.fixture
def rows(tmp_path):
    lines = ["text\tother\tlabel", "good film\tvery\tpos", "bad\tgood film\tneg", "film\tbad\tpos"]
    (tmp_path / "rows.tsv").write_text("\n".join(lines) + "\n")
    return tmp_path / "rows.tsv"


def test_ordered_batches_hold_every_row_packed(rows):
    encoded = SINGLE.encode(SINGLE.read(rows), TOKENIZER)
    batches = list(ordered_batches(encoded, batch_size=2).as_numpy_iterator())
    assert [labels.tolist() for _, labels in batches] == [[1, 0], [1]]
    assert batches[0][0]["input_ids"].tolist() == [[2, 5, 7, 3], [2, 6, 3, 0]]
    assert batches[0][0]["input_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    assert batches[1][0]["input_ids"].tolist() == [[2, 7, 3]]


def test_pairs_have_two_segments(rows):
    pair = dataclasses.replace(SINGLE, text_columns=("text", "other"))
    encoded = pair.encode(pair.read(rows), TOKENIZER)
    assert encoded.lengths.tolist() == [6, 6, 5]
    inputs, _ = encoded.batch(np.array([0]))
    assert inputs["input_ids"].tolist() == [[2, 5, 7, 3, 8, 3]]
    assert inputs["segment_ids"].tolist() == [[0, 0, 0, 0, 1, 1]]


def test_training_batches_repeat_and_are_the_same_for_a_seed(rows):
    encoded = SINGLE.encode(SINGLE.read(rows), TOKENIZER)

    def labels(seed):
        batches = training_batches(encoded, batch_size=2, seed=seed).take(20)
        return [each.tolist() for _, each in batches.as_numpy_iterator()]

    assert labels(1) == labels(1) != labels(2)
    assert sum(map(len, labels(1))) == 30


def test_majority_is_that_of_the_training_rows(rows):
    examples = SINGLE.read(rows)
    assert majority_accuracy(examples, examples) == pytest.approx(2 / 3)
