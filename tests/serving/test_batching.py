"""Waiting requests share runs, and each gets its own rows, its own error, and its turn."""

import contextlib
import threading

import numpy as np
import pytest

from bert_keras.serving.batching import Batcher
from bert_keras.serving.calls import Refused
from bert_keras.serving.rows import Rows


class Model:
    """Doubles x, or measures texts; notes the rows of every run; waits where it is told to."""

    def __init__(self):
        self.runs = []
        self.go = threading.Event()
        self.go.set()
        self.started = threading.Event()

    def declares_rows(self, signature_name, tensors):
        return signature_name != "whole"

    def predict(self, signature_name, tensors):
        x = tensors["x"]
        self.runs.append(len(x))
        self.started.set()
        assert self.go.wait(10)
        if signature_name == "faulty":
            raise TypeError("a fault")
        if x.dtype == object:
            return {"y": np.array([len(text) for text in x.flat])}
        if (x < 0).any():
            raise Refused(f"negative: {x.min():g}")
        if signature_name == "coupled":
            return {"y": x - x.mean()}
        if signature_name == "flat":
            return {"y": np.repeat(x, x.astype(int))}
        return {"y": 2 * x}


@pytest.fixture
def model():
    return Model()


@contextlib.contextmanager
def batching(model, *, num_threads=1):
    shared = []
    ended = threading.Event()
    batcher = Batcher(
        Rows(model),
        max_batch_size=4,
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
    """While the block lasts the model runs something else, so that what comes has to wait."""
    model.go.clear()
    model.started.clear()
    other = batcher.submit("other", {"x": np.ones([1, 9, 9])})
    assert model.started.wait(10)
    model.runs.clear()
    batcher.shared.clear()
    yield
    model.go.set()
    other.result(10)


def floats(*values):
    return {"x": np.float32(values)}


def test_a_request_alone_runs_at_once_and_once(model):
    with batching(model) as batcher:
        assert batcher.submit("f", floats(1, 2, 3)).result(10)["y"].tolist() == [2, 4, 6]
    assert model.runs == [3]


def test_what_waits_is_joined_and_cut_apart(model):
    with batching(model) as batcher:
        batcher.submit("f", floats(5, 6)).result(10)
        with busy(model, batcher):
            answers = [batcher.submit("f", floats(*row)) for row in ([1], [2, 3], [4])]
        assert [answer.result(10)["y"].tolist() for answer in answers] == [[2], [4, 6], [8]]
        assert model.runs == [4, 2, 2]  # the first joined run is compared with its halves
        assert batcher.shared == [3]
        with busy(model, batcher):
            answers = [batcher.submit("f", floats(*row)) for row in ([1], [7, 8, 9], [4])]
        assert [answer.result(10)["y"].tolist() for answer in answers] == [[2], [14, 16, 18], [8]]
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
            answers = [batcher.submit(name, {"x": array}) for name, array in different]
        lengths = [answer.result(10)["y"].tolist() for answer in answers[-3:]]
        assert lengths == [[5], [8], [200]]
        assert sorted(batcher.shared) == [1] * 6 + [2]


def test_nobody_gets_the_error_of_another(model):
    with batching(model) as batcher:
        with busy(model, batcher):
            answers = [batcher.submit("f", floats(value)) for value in (1, -5, 3)]
        assert answers[0].result(10)["y"].tolist() == [2]
        assert answers[2].result(10)["y"].tolist() == [6]
        with pytest.raises(Refused, match="negative: -5"):
            answers[1].result(10)


def test_a_large_request_runs_in_slices_and_lets_others_in(model):
    done = []
    with batching(model) as batcher:
        with busy(model, batcher):
            large = batcher.submit("f", floats(*range(11)))
            small = batcher.submit("f", {"x": np.float64([100])})
            large.add_done_callback(lambda _: done.append("large"))
            small.add_done_callback(lambda _: done.append("small"))
        assert large.result(10)["y"].tolist() == [2 * value for value in range(11)]
        assert small.result(10)["y"].tolist() == [200]
    assert done == ["small", "large"]
    assert max(model.runs) == 4


def test_slices_that_end_in_another_order_are_put_in_theirs(model):
    with batching(model, num_threads=3) as batcher:
        answers = [batcher.submit("f", floats(*range(size))) for size in range(1, 60)]
        for size, answer in enumerate(answers, start=1):
            assert answer.result(10)["y"].tolist() == [2 * value for value in range(size)]


def test_one_that_takes_long_leaves_a_thread_to_the_others(model):
    with batching(model, num_threads=2) as batcher:
        model.go.clear()
        slow = batcher.submit("f", {"x": np.ones([1, 9, 9])})
        assert model.started.wait(10)
        model.predict = lambda name, tensors: {"y": 3 * tensors["x"]}
        assert batcher.submit("f", floats(1)).result(10)["y"].tolist() == [3]
        assert not slow.done()


def test_a_failing_slice_ends_its_request(model):
    with batching(model) as batcher:
        with pytest.raises(Refused, match="negative: -1"):
            batcher.submit("f", floats(*range(5), -1, *range(9))).result(10)
        assert batcher.submit("f", floats(1)).result(10)["y"].tolist() == [2]


def test_long_rows_make_small_batches(model):
    with batching(model) as batcher:
        with busy(model, batcher):
            answers = [batcher.submit("f", {"x": np.ones([1, 128])}) for _ in range(4)]
        assert all(answer.result(10)["y"].shape == (1, 128) for answer in answers)
        assert batcher.shared == [2, 2]


@pytest.mark.parametrize("name", ["coupled", "flat"])
def test_a_signature_that_does_not_answer_row_by_row_is_found_out(model, name, caplog):
    def alone(values):
        return model.predict(name, floats(*values))["y"].tolist()

    with batching(model) as batcher:
        for _ in range(2):
            with busy(model, batcher):
                rows = ([0], [2], [1, 3])
                answers = [batcher.submit(name, floats(*row)) for row in rows]
            assert [answer.result(10)["y"].tolist() for answer in answers] == list(map(alone, rows))
        assert batcher.shared == [1, 1, 1]
        values = [1.0, 5, 2, 7, 3, 1, 1]
        assert batcher.submit(name, floats(*values)).result(10)["y"].tolist() == alone(values)
    assert caplog.text.count(f"signature {name} does not answer row by row") == 1


def test_rows_that_run_together_have_a_limit(model):
    with batching(model) as batcher:
        assert len(batcher.submit("whole", {"x": np.ones([64, 64])}).result(10)["y"]) == 64
        with pytest.raises(Refused, match=r"^65 rows came; .* it takes at most 64; send several"):
            batcher.submit("whole", {"x": np.ones([65, 64])})
        assert len(batcher.submit("whole", {"x": np.ones([4, 9999])}).result(10)["y"]) == 4
        assert len(batcher.submit("f", {"x": np.ones([65, 64])}).result(10)["y"]) == 65


def test_what_nobody_waits_for_is_not_run(model):
    with batching(model) as batcher:
        with busy(model, batcher):
            answers = [batcher.submit("f", floats(value)) for value in range(3)]
            assert answers[1].cancel()
        assert [answers[0].result(10)["y"].tolist(), answers[2].result(10)["y"].tolist()] == [
            [0],
            [4],
        ]
        assert model.runs[0] == 2


def test_a_fault_of_the_server_does_not_end_it(model):
    with batching(model) as batcher:
        with pytest.raises(TypeError, match="a fault"):
            batcher.submit("faulty", floats(1)).result(10)
        assert batcher.submit("f", floats(1)).result(10)["y"].tolist() == [2]


def test_closing_answers_what_waits_and_takes_nothing_new(model):
    with batching(model) as batcher:
        with busy(model, batcher):
            waiting = batcher.submit("f", floats(1))
            batcher.close(seconds=0)
            with pytest.raises(Refused, match="shutting down"):
                batcher.submit("f", floats(1))
        assert waiting.result(10)["y"].tolist() == [2]
