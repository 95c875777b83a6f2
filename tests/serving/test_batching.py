"""Queued requests share runs, and each gets its own rows or its own error."""

import contextlib
import threading

import numpy as np
import pytest

from bert_keras.serving import batching as batching_module
from bert_keras.serving.batching import Batcher
from bert_keras.serving.calls import Refusal
from bert_keras.serving.rows import RowModel, num_rows


class Model:
    """Doubles x or measures texts; records the rows of every run; can block a run."""

    def __init__(self):
        self.runs = []
        self.texts = []  # the lengths of the texts of every run
        self.go = threading.Event()
        self.go.set()
        self.started = threading.Event()

    def is_row_wise(self, signature_name, tensors):
        return signature_name != "whole"

    def predict(self, signature_name, tensors):
        x = tensors["x"]
        self.runs.append(len(x))
        self.started.set()
        assert self.go.wait(10)
        if signature_name == "faulty":
            raise TypeError("a fault")
        if x.dtype == object:
            self.texts.append([len(text) for text in x.flat])
            return {"y": np.array([len(text) for text in x.flat])}
        if (x < 0).any():
            raise Refusal(f"negative: {x.min():g}")
        if signature_name == "coupled":
            return {"y": x - x.mean()}
        if signature_name == "flat":
            return {"y": np.repeat(x, x.astype(int))}
        return {"y": 2 * x}


@pytest.fixture
def model():
    return Model()


@contextlib.contextmanager
def batching(model, *, num_threads=1, max_batch_size=4):
    shared = []
    ended = threading.Event()
    batcher = Batcher(
        RowModel(model),
        max_batch_size=max_batch_size,
        num_threads=num_threads,
        on_batch=shared.append,
        on_end=ended.set,
    )
    batcher.shared = shared
    try:
        yield batcher
    finally:
        model.go.set()
        batcher.close(seconds=10)
        assert ended.is_set()


@contextlib.contextmanager
def busy(model, batcher):
    """Keeps the model busy during the block, so that new requests are queued."""
    model.go.clear()
    model.started.clear()
    other = submit(batcher, "other", {"x": np.ones([1, 9, 9])})
    assert model.started.wait(10)
    model.runs.clear()
    batcher.shared.clear()
    yield
    model.go.set()
    other.result(10)


def submit(batcher, signature_name, tensors):
    return batcher.submit(batcher.prepare(signature_name, tensors))


def floats(*values):
    return {"x": np.float32(values)}


def test_a_single_request_runs_at_once_and_only_once(model):
    with batching(model) as batcher:
        assert submit(batcher, "f", floats(1, 2, 3)).result(10)["y"].tolist() == [2, 4, 6]
    assert model.runs == [3]


def test_queued_requests_are_joined_and_their_outputs_split(model):
    with batching(model) as batcher:
        submit(batcher, "f", floats(5, 6)).result(10)
        with busy(model, batcher):
            futures = [submit(batcher, "f", floats(*row)) for row in ([1], [2, 3], [4])]
        assert [future.result(10)["y"].tolist() for future in futures] == [[2], [4, 6], [8]]
        assert model.runs == [4, 2, 2]  # the first joined run is compared with its halves
        assert batcher.shared == [3]
        with busy(model, batcher):
            futures = [submit(batcher, "f", floats(*row)) for row in ([1], [7, 8, 9], [4])]
        assert [future.result(10)["y"].tolist() for future in futures] == [[2], [14, 16, 18], [8]]
        assert model.runs == [4, 1]


def test_only_equal_shapes_dtypes_signatures_and_lengths_are_joined(model):
    texts = [np.array([text], object) for text in (b"short", b"is short", b"long" * 50)]
    different = [
        ("f", np.float32([1])),
        ("f", np.float64([1])),
        ("f", np.float32([[1]])),
        ("f", np.float32([[1, 1]])),
        ("g", np.float32([1])),
        *(("f", text) for text in texts),
    ]
    with batching(model) as batcher:
        with busy(model, batcher):
            futures = [submit(batcher, name, {"x": array}) for name, array in different]
        lengths = [future.result(10)["y"].tolist() for future in futures[-3:]]
        assert lengths == [[5], [8], [200]]
        assert sorted(batcher.shared) == [1] * 6 + [2]


def test_an_error_is_returned_only_to_its_own_request(model):
    with batching(model) as batcher:
        with busy(model, batcher):
            futures = [submit(batcher, "f", floats(value)) for value in (1, -5, 3)]
        assert futures[0].result(10)["y"].tolist() == [2]
        assert futures[2].result(10)["y"].tolist() == [6]
        with pytest.raises(Refusal, match="negative: -5"):
            futures[1].result(10)


def test_a_large_request_runs_in_slices_and_other_requests_run_in_between(model):
    done = []
    with batching(model) as batcher:
        with busy(model, batcher):
            large = submit(batcher, "f", floats(*range(11)))
            small = submit(batcher, "f", {"x": np.float64([100])})
            large.add_done_callback(lambda _: done.append("large"))
            small.add_done_callback(lambda _: done.append("small"))
        assert large.result(10)["y"].tolist() == [2 * value for value in range(11)]
        assert small.result(10)["y"].tolist() == [200]
    assert done == ["small", "large"]
    assert max(model.runs) == 4


def test_the_texts_of_a_large_request_run_beside_those_of_their_length(model):
    lengths = [1000, 8, 9, 700, 10, 6, 7, 750, 11]
    with batching(model) as batcher:
        for _ in range(2):  # the second time, the rows are known not to depend on each other
            model.texts.clear()
            request = {"x": np.array([b"x" * length for length in lengths], object)}
            outputs = submit(batcher, "f", request).result(10)["y"]
            assert outputs.tolist() == lengths
    assert model.texts == [[1000], [750], [700], [8, 9, 10, 11], [6, 7]]


def test_the_cost_of_a_slice_does_not_grow_with_the_number_of_slices(model, monkeypatch):
    counted = []
    monkeypatch.setattr(batching_module, "num_rows", lambda x: counted.append(1) or num_rows(x))
    with batching(model) as batcher:
        outputs = submit(batcher, "f", floats(*range(400))).result(10)
    assert len(outputs["y"]) == 400
    assert len(counted) <= 100  # slices


def test_slices_that_finish_out_of_order_are_sorted(model):
    with batching(model, num_threads=3) as batcher:
        futures = [submit(batcher, "f", floats(*range(size))) for size in range(1, 60)]
        for size, future in enumerate(futures, start=1):
            assert future.result(10)["y"].tolist() == [2 * value for value in range(size)]


def test_a_slow_request_leaves_a_thread_to_other_requests(model):
    with batching(model, num_threads=2) as batcher:
        model.go.clear()
        slow = submit(batcher, "f", {"x": np.ones([1, 9, 9])})
        assert model.started.wait(10)
        model.predict = lambda name, tensors: {"y": 3 * tensors["x"]}
        assert submit(batcher, "f", floats(1)).result(10)["y"].tolist() == [3]
        assert not slow.done()


def test_a_failing_slice_fails_its_request(model):
    with batching(model) as batcher:
        with pytest.raises(Refusal, match="negative: -1"):
            submit(batcher, "f", floats(*range(5), -1, *range(9))).result(10)
        assert submit(batcher, "f", floats(1)).result(10)["y"].tolist() == [2]


def test_long_rows_make_small_batches(model):
    with batching(model) as batcher:
        with busy(model, batcher):
            futures = [submit(batcher, "f", {"x": np.ones([1, 128])}) for _ in range(4)]
        assert all(future.result(10)["y"].shape == (1, 128) for future in futures)
        assert batcher.shared == [2, 2]


def test_equal_rows_do_not_hide_that_rows_depend_on_each_other(model):
    with batching(model) as batcher:
        for rows in ([7, 7, 7], [1, 3, 8]):
            with busy(model, batcher):
                futures = [submit(batcher, "coupled", floats(value)) for value in rows]
            assert [future.result(10)["y"].tolist() for future in futures] == [[0], [0], [0]]


@pytest.mark.parametrize("name", ["coupled", "flat"])
def test_a_signature_whose_rows_depend_on_each_other_is_detected(model, name, caplog):
    def alone(values):
        return model.predict(name, floats(*values))["y"].tolist()

    with batching(model) as batcher:
        for _ in range(2):
            with busy(model, batcher):
                rows = ([0], [2], [1, 3])
                futures = [submit(batcher, name, floats(*row)) for row in rows]
            assert [future.result(10)["y"].tolist() for future in futures] == list(map(alone, rows))
        assert batcher.shared == [1, 1, 1]
        values = [1.0, 5, 2, 7, 3, 1, 1]
        assert submit(batcher, name, floats(*values)).result(10)["y"].tolist() == alone(values)
    assert caplog.text.count(f"rows of signature {name} depend on each other") == 1


@pytest.mark.parametrize(("name", "runs"), [("coupled", [2, 1, 1, 3]), ("f", [2, 1, 1, 1, 1, 1])])
def test_rows_are_checked_in_pairs_before_they_run_one_by_one(model, name, runs):
    with batching(model, max_batch_size=1) as batcher:
        outputs = submit(batcher, name, floats(1, 2, 6)).result(10)["y"].tolist()
        submit(batcher, name, floats(1, 3)).result(10)
    assert model.runs[: len(runs)] == runs
    assert outputs == ([-2, -1, 3] if name == "coupled" else [2, 4, 12])


def test_a_request_that_cannot_be_split_has_a_row_limit(model):
    with batching(model) as batcher:
        assert len(submit(batcher, "whole", {"x": np.ones([64, 64])}).result(10)["y"]) == 64
        with pytest.raises(Refusal, match=r"has 65 rows; .* at most 64 of this length"):
            submit(batcher, "whole", {"x": np.ones([65, 64])})
        assert len(submit(batcher, "whole", {"x": np.ones([4, 9999])}).result(10)["y"]) == 4
        assert len(submit(batcher, "f", {"x": np.ones([65, 64])}).result(10)["y"]) == 65


def test_a_cancelled_request_is_not_run(model):
    with batching(model) as batcher:
        with busy(model, batcher):
            futures = [submit(batcher, "f", floats(value)) for value in range(3)]
            assert futures[1].cancel()
        assert [futures[0].result(10)["y"].tolist(), futures[2].result(10)["y"].tolist()] == [
            [0],
            [4],
        ]
        assert model.runs[0] == 2


def test_an_internal_error_does_not_stop_the_threads(model):
    with batching(model) as batcher:
        with pytest.raises(TypeError, match="a fault"):
            submit(batcher, "faulty", floats(1)).result(10)
        assert submit(batcher, "f", floats(1)).result(10)["y"].tolist() == [2]


def test_close_runs_queued_requests_and_refuses_new_ones(model):
    with batching(model) as batcher:
        with busy(model, batcher):
            waiting = submit(batcher, "f", floats(1))
            batcher.close(seconds=0)
            with pytest.raises(Refusal, match="shutting down"):
                submit(batcher, "f", floats(1))
        assert waiting.result(10)["y"].tolist() == [2]
