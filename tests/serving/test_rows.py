"""The functions that count, measure and compare rows before they are joined."""

import sys

import numpy as np
import pytest

from bert_keras.serving.rows import RowModel, batch_key, joined, num_rows, row_length, row_lengths


def texts(*values):
    return {"text": np.array(values, object)}


@pytest.mark.parametrize(
    ("arrays", "count"),
    [
        ({"a": np.zeros([3, 2]), "b": np.zeros(3)}, 3),
        ({"a": np.zeros(3), "b": np.zeros(2)}, None),
        ({"a": np.zeros(1), "b": np.array(1.0)}, None),
        ({"a": np.array(1.0)}, None),
        ({"a": np.zeros([0, 2])}, 0),
    ],
)
def test_the_number_of_rows(arrays, count):
    assert num_rows(arrays) == count


def test_the_length_of_rows():
    assert row_length({"ids": np.zeros([5, 128]), "flag": np.zeros(5)}) == 128
    assert row_length({"ids": np.zeros([2, 0])}) == 1
    assert row_length(texts(b"x" * 400, b"")) == 101
    assert row_length({"text": np.zeros([0], object)}) == 1
    assert row_lengths({"ids": np.zeros([2, 128]), "flag": np.zeros(2)}).tolist() == [128, 128]
    assert row_length({"scalar": np.array(1.0)}) == 1
    assert row_lengths(texts(b"x" * 400, b"")).tolist() == [101, 1]
    choices = {"choices": np.array([[b"", b"x" * 40], [b"x" * 8, b""]], object)}
    assert row_lengths(choices | texts(b"x" * 4, b"x" * 80)).tolist() == [11, 21]
    assert row_lengths(choices | {"ids": np.zeros([2, 15])}).tolist() == [15, 15]


def test_the_rows_of_a_large_request_are_measured_at_once():
    many, calls = texts(*[b"a text"] * 200_000), []
    sys.setprofile(lambda frame, event, argument: calls.append(event))
    try:
        lengths = row_lengths(many)
    finally:
        sys.setprofile(None)
    assert lengths.tolist() == [2] * 200_000
    assert len(calls) < 200


def test_short_texts_share_a_length_class_and_long_texts_do_not():
    keys = {length: batch_key(texts(b"x" * length)) for length in (0, 63, 64, 100, 127, 128)}
    assert keys[0] == keys[63] != keys[64] == keys[100] == keys[127] != keys[128]


def test_joined_rows_stay_in_order():
    whole = joined([texts(b"a", b"b"), texts(b"c")])
    assert whole["text"].tolist() == [b"a", b"b", b"c"]


def test_equal_rows_are_checked_more_often_than_different_rows():
    class Model:
        runs = 0

        def is_row_wise(self, name, tensors):
            return True

        def predict(self, name, tensors):
            self.runs += 1
            return {"y": tensors["x"] * 2}

    for x, num_checked in ((np.ones(4), 8), (np.ones(3), 8), (np.arange(4.0), 1)):
        rows = RowModel(model := Model())
        for _ in range(20):
            assert rows.run_batch("f", {"x": x})["y"].tolist() == (2 * x).tolist()
        assert model.runs == 20 + 2 * num_checked
