from itertools import chain
from pathlib import Path

import pytest

from bert_keras.data.record_file import num_records, readable_records
from bert_keras.data.records import pretraining_dataset, record_files
from bert_keras.errors import InputError


@pytest.fixture
def files(write, make_example):
    """Three files of ten records; the second id of record n is n."""
    return [
        write(f"{file}.tfrecord", [make_example(file * 10 + row) for row in range(10)])
        for file in range(1, 4)
    ]


def record_numbers(dataset):
    return [inputs["input_ids"][:, 1].tolist() for inputs, _, _ in dataset.as_numpy_iterator()]


def flat(batches):
    return list(chain.from_iterable(batches))


def test_batches_exactly(files):
    dataset = pretraining_dataset(files, batch_size=2)
    inputs, targets, weights = next(dataset.as_numpy_iterator())
    assert {name: (x.dtype.name, x.tolist()) for name, x in inputs.items()} == {
        "input_ids": ("int32", [[2, 10, 4, 3, 6, 3, 0, 0], [2, 11, 4, 3, 6, 3, 0, 0]]),
        "input_mask": ("int32", [[1, 1, 1, 1, 1, 1, 0, 0]] * 2),
        "segment_ids": ("int32", [[0, 0, 0, 0, 1, 1, 0, 0]] * 2),
        "masked_lm_positions": ("int32", [[2, 0]] * 2),
    }
    assert {name: (y.dtype.name, y.tolist()) for name, y in targets.items()} == {
        "masked_lm": ("int32", [[5, 0]] * 2),
        "next_sentence": ("int32", [0, 1]),
    }
    assert {name: (w.dtype.name, w.tolist()) for name, w in weights.items()} == {
        "masked_lm": ("float32", [[1, 0]] * 2),
        "next_sentence": ("float32", [1, 1]),
    }


def test_without_a_seed_records_keep_the_order_of_the_files(files):
    batches = record_numbers(
        pretraining_dataset(reversed(files), batch_size=7, drop_remainder=False)
    )
    assert flat(batches) == list(range(10, 40))
    assert [len(batch) for batch in batches] == [7, 7, 7, 7, 2]
    assert len(record_numbers(pretraining_dataset(files, batch_size=7))) == 4


def test_a_limited_data_set_does_not_count_the_records(files, monkeypatch):
    monkeypatch.setattr("bert_keras.data.records.num_records", None)
    for most, last in ((12, 22), (30, 40), (999, 40)):
        batches = pretraining_dataset(files, batch_size=5, drop_remainder=False, most=most)
        assert flat(record_numbers(batches)) == list(range(10, last))


def test_same_seed_same_batches(files):
    first = record_numbers(pretraining_dataset(files, batch_size=5, seed=1))
    assert first == record_numbers(pretraining_dataset(files, batch_size=5, seed=1))
    assert first != record_numbers(pretraining_dataset(files, batch_size=5, seed=2))
    assert sorted(flat(first)) == list(range(10, 40))
    assert flat(first) != list(range(10, 40))


def test_epochs_differ_and_a_run_resumes_by_skipping(files):
    batches = record_numbers(pretraining_dataset(files, batch_size=6, seed=1, repeat=True).take(10))
    assert sorted(flat(batches[:5])) == sorted(flat(batches[5:])) == list(range(10, 40))
    assert batches[:5] != batches[5:]
    rest = pretraining_dataset(files, batch_size=6, seed=1, repeat=True).skip(3).take(7)
    assert record_numbers(rest) == batches[3:]


def test_record_files_of_a_folder_a_pattern_or_a_list(tmp_path, files):
    assert record_files(tmp_path) == files
    assert record_files(f"{tmp_path}/[12].tfrecord") == files[:2]
    assert record_files([files[2], files[0], files[0]]) == [files[0], files[2]]
    for name in ("train-0.tfrecord", "held-out-0.tfrecord", "notes.txt"):
        (tmp_path / name).touch()
    assert record_files(str(tmp_path)) == [f"{tmp_path}/train-0.tfrecord"]


def test_missing_files_are_refused(tmp_path):
    for records, message in [
        (tmp_path, r"contains no \*.tfrecord files"),
        (f"{tmp_path}/*.record", "matches no file"),
        ([], "no record files were named"),
    ]:
        with pytest.raises(InputError, match=message):
            record_files(records)


def test_files_with_different_schemas_are_refused(files, write, make_example):
    other = write("9.tfrecord", [make_example(1, masked_lm_ids=[1], masked_lm_positions=[1])])
    with pytest.raises(InputError, match="masked_lm_weights has 2 float_list values; expected 1"):
        pretraining_dataset([*files, other], batch_size=2)
    changes = {"masked_lm_ids": [1], "masked_lm_positions": [1], "masked_lm_weights": [1.0]}
    other = write("9.tfrecord", [make_example(1, **changes)])
    with pytest.raises(InputError, match=r"9\.tfrecord contains records of 8 positions and 1 pre"):
        pretraining_dataset([*files, other], batch_size=2)


def test_a_truncated_file_is_named(files, tmp_path):
    content = (tmp_path / "1.tfrecord").read_bytes()
    (tmp_path / "1.tfrecord").write_bytes(content[: len(content) // 3])
    with pytest.raises(
        InputError, match=r"1\.tfrecord is truncated or corrupt; write the records again"
    ):
        pretraining_dataset(files, batch_size=3)
    endless = pretraining_dataset(files, batch_size=3, repeat=True)
    with (
        pytest.raises(InputError, match=r"a record file .* is truncated or corrupt"),
        readable_records(),
    ):
        record_numbers(endless)


def test_each_cut_of_the_last_record_is_found(write, make_example):
    """TensorFlow reports the end of the file for the first 12 bytes, an error for the others."""
    content = Path(write("a.tfrecord", [make_example(1)])).read_bytes()
    for size in (*range(1, 20), *range(20, len(content), 50), len(content) - 1):
        path = write("a.tfrecord", [])
        Path(path).write_bytes(content + content[:size])
        with pytest.raises(InputError, match="truncated or corrupt"):
            num_records(path)


def test_a_corrupt_file_is_named(files, tmp_path):
    content = bytearray((tmp_path / "1.tfrecord").read_bytes())
    content[-50] ^= 1
    (tmp_path / "1.tfrecord").write_bytes(content)
    with pytest.raises(InputError, match=r"1\.tfrecord is truncated or corrupt"):
        pretraining_dataset(files, batch_size=3)


@pytest.mark.parametrize("changes", [{"input_mask": None}, {"segment_ids": [0]}])
def test_a_record_with_other_features_is_refused(write, make_example, changes):
    path = write("a.tfrecord", [make_example(1), make_example(2, **changes)])
    with (
        pytest.raises(InputError, match="here contains a record without the features of"),
        readable_records("here"),
    ):
        record_numbers(pretraining_dataset(path, batch_size=2))
    path = write("b.tfrecord", [make_example(1), b"\xff\xff"])
    with pytest.raises(InputError, match="here contains a record"), readable_records("here"):
        record_numbers(pretraining_dataset(path, batch_size=2))


def test_a_finite_data_set_has_a_cardinality(files):
    total = len(list(pretraining_dataset(files, batch_size=1)))
    assert pretraining_dataset(files, batch_size=1).cardinality() == total
    for drop, count in ((True, total // 4), (False, -(-total // 4))):
        dataset = pretraining_dataset(files, batch_size=4, drop_remainder=drop)
        assert dataset.cardinality() == len(list(dataset)) == count


def test_the_end_of_an_iterator_does_not_wait_for_autotuning(files):
    dataset = pretraining_dataset(files, batch_size=2)
    assert dataset.options().autotune.enabled is False
    assert dataset.map(lambda *batch: batch).options().autotune.enabled is False


def test_a_file_that_is_deleted_during_reading_is_named(files, tmp_path):
    endless = pretraining_dataset(files, batch_size=3, repeat=True)
    (tmp_path / "3.tfrecord").unlink()
    with (
        pytest.raises(InputError, match=r"a record file is missing \(.*3\.tfrecord"),
        readable_records(),
    ):
        record_numbers(endless)
