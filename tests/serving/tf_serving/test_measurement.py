"""An export is measured in a new process."""

import shutil

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.exporting.warmup import WARMUP
from bert_keras.serving.tf_serving import measurement
from bert_keras.serving.tf_serving.measurement import (
    first_best,
    measure,
    measure_version,
    pad_with_first,
)


@pytest.mark.slow
def test_an_export_is_measured_in_a_new_process(saved, capfd):
    result = measure_version(saved())
    assert result.num_words < result.num_longest <= 48
    assert list(result.seconds)[:2] == [1, 2]
    assert all(
        seconds > 0
        for seconds in (*result.seconds.values(), result.longest, result.warm_up_seconds)
    )
    assert 1 in result.rates and max(result.rates) <= result.num_cores
    assert 50 * 2**20 < result.initial_memory < result.peak_memory
    assert result.can_split and not result.can_pad
    assert "measure" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("kind", "can_split", "can_pad"),
    [({"has_mask": True}, True, True), ({"per_word": True}, False, False)],
)
def test_effects_of_batching_are_measured(saved, kind, can_split, can_pad, monkeypatch):
    monkeypatch.setattr(measurement, "_SECONDS", 0.0)  # three times each
    result = measure(saved(**kind))
    assert (result["can_split"], result["can_pad"]) == (can_split, can_pad)


def test_outputs_that_cannot_be_batched_are_an_error(saved):
    with pytest.raises(RuntimeError, match=r"count of .* has the shape \(1,\) for 2 input rows"):
        measure(saved(one_row=True))


def test_short_requests_are_padded_with_their_first_value():
    inputs = np.array([[7, 1], [2, 3]])
    np.testing.assert_array_equal(pad_with_first(inputs, (9, 4)), [[7, 1, 7, 7], [2, 3, 7, 7]])
    np.testing.assert_array_equal(pad_with_first(inputs[:, 0], (9,)), [7, 2])


def test_the_smallest_number_near_the_best_rate_is_chosen():
    assert first_best({1: 50.0, 2: 80.0, 4: 99.0, 8: 100.0, 16: 101.0}) == 4
    assert first_best({1: 50.0, 2: 40.0}) == 1


@pytest.mark.slow
def test_a_failing_process_is_an_error(saved, tmp_path):
    folder = shutil.copytree(saved(), tmp_path / "words" / "1")
    (folder / "saved_model.pb").write_bytes(b"no graph")
    with pytest.raises(RuntimeError, match=r"words/1 could not be measured: (?s:.*)saved_model"):
        measure_version(folder)


def test_an_export_without_warm_up_requests_is_refused(tmp_path):
    with pytest.raises(InputError, match=rf"has no {WARMUP} .*; export it again"):
        measure_version(tmp_path)
