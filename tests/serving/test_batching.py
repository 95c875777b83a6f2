"""Queued requests share runs, and each gets its own rows or its own error."""

import contextlib
import threading

import numpy as np
import pytest

from bert_keras.serving.batching import Batcher
from bert_keras.serving.limits import Limits
from bert_keras.serving.rest_api import Refusal


class Model:
    """Doubles x or measures texts; records the rows of every run; can block a run."""

    def __init__(self, num_threads=1):
        self.num_threads = num_threads
        self.runs = []  # the number of rows, or the lengths of the texts, of every run
        self.go, self.started, self.closed = threading.Event(), threading.Event(), threading.Event()
        self.go.set()
        self.close = self.closed.set

    def is_row_wise(self, signature_name, tensors):
        return signature_name != "whole"

    def predict(self, signature_name, tensors):
        x = tensors["x"]
        self.runs.append([*map(len, x)] if x.dtype == object else len(x))
        self.started.set()
        assert self.go.wait(10)
        if signature_name == "faulty":
            raise TypeError("a fault")
        if x.dtype == object:
            return {"y": np.array([*map(len, x)])}
        if (x < 0).any():
            raise Refusal(f"negative: {x.min():g}")
        return {"y": x[:1] if signature_name == "short" else 2 * x}


@pytest.fixture
def model():
    return Model()


@contextlib.contextmanager
def batching(model, **settings):
    """Starts a batcher; `shared` becomes the number of requests of every run."""
    shared, limits = [], Limits(max_batch_size=4, max_text_bytes=2000)
    settings = {"on_run": lambda num_requests, seconds: shared.append(num_requests), **settings}
    batcher = Batcher(model, limits=limits, **settings)
    batcher.shared = shared
    try:
        yield batcher
    finally:
        model.go.set()
        batcher.close()
        assert model.closed.is_set()


@contextlib.contextmanager
def busy(model, batcher):
    """Keeps the model busy during the block, so that new requests are queued."""
    model.go.clear()
    model.started.clear()
    other = submit(batcher, "other", np.ones([1, 9, 9]))
    assert model.started.wait(10)
    yield
    model.runs.clear()
    batcher.shared.clear()
    model.go.set()
    other.result(10)


def submit(batcher, signature_name, x):
    return batcher.submit(batcher.prepare(signature_name, {"x": x}))


def floats(*values):
    return np.float32(values)


def texts(*lengths):
    return np.array([b"x" * length for length in lengths], object)


def values(future):
    return future.result(10)["y"].tolist()


def test_queued_requests_are_joined_and_their_outputs_split(model):
    with batching(model) as batcher:
        assert values(submit(batcher, "f", floats(1, 2, 3))) == [2, 4, 6]
        assert model.runs == [3]  # at once and only once
        with busy(model, batcher):
            futures = [submit(batcher, "f", floats(*row)) for row in ([1], [7, 8, 9], [4])]
        assert [*map(values, futures)] == [[2], [14, 16, 18], [8]]
        assert (model.runs, batcher.shared[1:]) == ([4, 1], [2, 1])


def test_only_equal_shapes_dtypes_signatures_and_lengths_are_joined(model):
    different = [
        *[("f", np.float32(x)) for x in ([1], [[1]], [[1, 1]])],
        *[("f", np.float64([1])), ("g", np.float32([1]))],
        *[("f", texts(length)) for length in (5, 8, 300)],
    ]
    with batching(model) as batcher:
        with busy(model, batcher):
            futures = [submit(batcher, name, x) for name, x in different]
        assert [*map(values, futures[-3:])] == [[5], [8], [300]]
        assert sorted(batcher.shared[1:]) == [1] * 6 + [2]


@pytest.mark.parametrize("share, runs", [(0.0, [1, 1]), (1e6, [2])])
def test_queued_requests_wait_a_moment_for_the_clients_of_the_last_run(
    model, monkeypatch, share, runs
):
    monkeypatch.setattr("bert_keras.serving.batching.RETURN_SHARE", share)
    with batching(model) as batcher:
        with busy(model, batcher):
            queued = submit(batcher, "f", floats(2))
        if not share:
            assert values(queued) == [4]
        returned = submit(batcher, "f", floats(3))
        assert (values(queued), values(returned), model.runs) == ([4], [6], runs)


def test_errors_and_cancelled_requests_do_not_affect_other_requests(model):
    with batching(model) as batcher:
        with busy(model, batcher):
            futures = [submit(batcher, "f", floats(value)) for value in (1, -5, 3, 4)]
            assert futures[3].cancel()
        assert (values(futures[0]), values(futures[2])) == ([2], [6])
        with pytest.raises(Refusal):
            futures[1].result(10)
        with pytest.raises(Refusal):  # of one of several runs
            submit(batcher, "f", floats(*range(5), -1, *range(9))).result(10)
        for name, error in (("faulty", TypeError), ("short", IndexError)):  # stop no thread
            with pytest.raises(error):
                submit(batcher, name, floats(1, 2)).result(10)
        assert values(submit(batcher, "f", floats(1))) == [2]
    assert model.runs[:4] == [3, 1, 1, 1]


def test_a_large_request_runs_in_parts_and_other_requests_run_in_between(model):
    done = []
    with batching(model) as batcher:
        with busy(model, batcher):
            large, small = submit(batcher, "f", floats(*range(11))), submit(batcher, "g", floats(9))
            large.add_done_callback(lambda _: done.append("large"))
            small.add_done_callback(lambda _: done.append("small"))
        assert (values(large), values(small)) == ([*range(0, 22, 2)], [18])
        assert (done, max(model.runs)) == (["small", "large"], 4)
        model.runs.clear()
        lengths = [1000, 8, 9, 700, 10, 6, 7, 750, 11]  # a text runs beside those of its length
        assert values(submit(batcher, "f", texts(*lengths))) == lengths
        assert model.runs == [[1000], [750], [700], [8, 9, 10, 11], [6, 7]]


def test_parts_that_finish_out_of_order_are_sorted():
    with batching(Model(num_threads=3)) as batcher:
        futures = [submit(batcher, "f", floats(*range(size))) for size in range(1, 60)]
        for size, future in enumerate(futures, start=1):
            assert values(future) == [*range(0, 2 * size, 2)]


def test_a_slow_request_leaves_a_thread_to_other_requests():
    with batching(model := Model(num_threads=2)) as batcher:
        model.go.clear()
        slow = submit(batcher, "f", np.ones([1, 9, 9]))
        assert model.started.wait(10)
        model.predict = lambda name, tensors: {"y": 3 * tensors["x"]}
        assert values(submit(batcher, "f", floats(1))) == [3]
        assert not slow.done()


def test_a_request_that_cannot_be_split_runs_alone_and_has_a_row_limit(model):
    with batching(model) as batcher:
        with busy(model, batcher):
            futures = [submit(batcher, "whole", floats(*range(n))) for n in (1, 9)]
        assert [*map(values, futures)] == [[0], [*range(0, 18, 2)]]
        assert model.runs == [1, 9]
        for name, shape in (("whole", [64, 64]), ("whole", [4, 9999]), ("f", [65, 64])):
            assert len(submit(batcher, name, np.ones(shape)).result(10)["y"]) == shape[0]
        with pytest.raises(Refusal):
            submit(batcher, "whole", np.ones([65, 64]))
        assert values(submit(batcher, "f", texts(2000))) == [2000]
        for name in ("f", "whole"):
            with pytest.raises(Refusal) as refusal:
                submit(batcher, name, texts(5, 2004))
            assert refusal.value.status == 413
