"""An export is asked in a fresh process, and its figures are those of that export."""

import shutil

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.export.warmup import WARMUP
from bert_keras.serving.tf_serving import measurement
from bert_keras.serving.tf_serving.measurement import filled_up, first_best, measure, measured


@pytest.mark.slow
def test_an_export_is_measured_in_a_process_of_its_own(saved, capfd):
    found = measured(saved())
    assert found.num_words < found.num_longest <= 48
    assert list(found.seconds)[:2] == [1, 2]
    assert all(seconds > 0 for seconds in (*found.seconds.values(), found.longest, found.warm))
    assert 1 in found.rates and max(found.rates) <= found.num_cores
    assert 50 * 2**20 < found.before < found.peak
    assert found.splits and not found.pads
    assert "measure" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("kind", "splits", "pads"),
    [({"knows_padding": True}, True, True), ({"per_word": True}, False, False)],
)
def test_what_batching_would_do_to_the_answers(saved, kind, splits, pads, monkeypatch):
    monkeypatch.setattr(measurement, "_SECONDS", 0.0)  # three times each
    found = measure(saved(**kind))
    assert (found["splits"], found["pads"]) == (splits, pads)


def test_an_answer_that_cannot_be_batched(saved):
    with pytest.raises(RuntimeError, match=r"answers 2 rows with count of the shape \(1,\)"):
        measure(saved(one_row=True))


def test_short_requests_are_filled_up_with_their_first_value():
    given = np.array([[7, 1], [2, 3]])
    np.testing.assert_array_equal(filled_up(given, (9, 4)), [[7, 1, 7, 7], [2, 3, 7, 7]])
    np.testing.assert_array_equal(filled_up(given[:, 0], (9,)), [7, 2])


def test_growth_ends_where_little_is_won():
    assert first_best({1: 50.0, 2: 80.0, 4: 99.0, 8: 100.0, 16: 101.0}) == 4
    assert first_best({1: 50.0, 2: 40.0}) == 1


@pytest.mark.slow
def test_a_process_that_fails(saved, tmp_path):
    folder = shutil.copytree(saved(), tmp_path / "words" / "1")
    (folder / "saved_model.pb").write_bytes(b"no graph")
    with pytest.raises(RuntimeError, match=r"words/1 could not be measured: (?s:.*)saved_model"):
        measured(folder)


def test_an_export_without_warm_up_requests(tmp_path):
    with pytest.raises(InputError, match=rf"holds no {WARMUP}, .* export it anew"):
        measured(tmp_path)
