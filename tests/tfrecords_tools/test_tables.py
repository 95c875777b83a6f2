"""Rows of parquet files and examples of TensorFlow Datasets as documents."""

from functools import partial

import pyarrow as pa
import pytest
from pyarrow import parquet

from bert_keras.errors import InputError
from tests.tensorflow_or_skip import tf, tfds
from tests.tfrecords_tools.test_corpus import read
from tfrecords_tools.corpus import divide_into_units, input_entry

TEXTS = ["a\n\nb", None, " ", "c\r\nd", "\u00e9"]
LINES = ["a", "b", "", "c", "d", "", "\u00e9", ""]


@pytest.fixture
def table(tmp_path):
    """table(columns) -> path of a file with a column of two numbers before the others"""

    def written(*, row_group_size=7, **columns):
        rows = len(next(iter(columns.values())))
        first = pa.array([{"a": 1, "b": 2}] * rows)
        path = tmp_path / "t.parquet"
        parquet.write_table(pa.table({"x": first} | columns), path, row_group_size=row_group_size)
        return path

    return written


@pytest.mark.parametrize("kind", ["string", "large_string", "string_view", "binary"])
def test_rows_are_documents_for_every_kind_of_text(table, kind):
    path = table(text=pa.array(TEXTS * 20).cast(kind))
    for unit_bytes in (1 << 20, 1, 100, 300):
        assert read(path, unit_bytes=unit_bytes) == LINES * 20
    assert len(divide_into_units([path], unit_bytes=1)) == 15  # row groups


def test_columns_without_text_and_damaged_files_are_refused(table):
    path = table(text=pa.array(["a"]), n=pa.array([1]))
    for name in ("body", "n"):
        with pytest.raises(InputError):
            read(path, text_field=name)
    assert read(path)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(InputError):
        read(path)
    texts = [pa.py_buffer(b"\0\0\0\0\3\0\0\0\6\0\0\0"), pa.py_buffer(b"abcd\xe9f")]
    path = table(text=pa.Array.from_buffers(pa.string(), 2, [None, *texts]))
    with pytest.raises(InputError, match="row 2 "):
        read(path)


def split(num_examples):
    texts = [f"document {n}\n\nsecond line" if n else "" for n in range(num_examples)]
    return tf.data.Dataset.from_tensor_slices({"text": texts, "number": list(range(num_examples))})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two datasets, written by TFDS itself: one with two splits, one with one."""
    folder = tmp_path_factory.mktemp("tfds")
    features = tfds.features.FeaturesDict({"text": tfds.features.Text(), "number": tf.int64})
    options = {"version": "1.2.0", "data_dir": folder, "features": features}
    store = partial(tfds.dataset_builders.store_as_tfds_dataset, disable_shuffling=True, **options)
    store(name="two_splits", split_datasets={"train": split(100), "test": split(7)})
    store(name="one_split", split_datasets={"train": split(3)})
    return folder


@pytest.fixture
def data_dir(folder, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(folder))
    return folder


def documents(*numbers):
    return [line for n in numbers if n for line in (f"document {n}", "second line", "")]


def test_examples_of_splits_are_documents(data_dir):
    assert read("tfds:one_split") == documents(1, 2)
    assert read("tfds:one_split:1.2.0?split=train") == documents(1, 2)
    assert read(f"tfds:{data_dir}/one_split/1.2.0") == documents(1, 2)
    assert read("tfds:two_splits?split=test") == documents(*range(7))
    assert read("tfds:two_splits?split=train[10:12]+test[-1:]") == documents(10, 11, 6)


def test_parts_do_not_change_the_examples(data_dir):
    path = "tfds:two_splits?split=train[5:]+test"
    all_units = divide_into_units([path], unit_bytes=60)
    assert len(all_units) > 5
    paths = dict.fromkeys(part.path for unit in all_units for part in unit)
    assert list(paths) == [f"tfds:two_splits?split={name}" for name in ("train", "test")]
    assert read(path, unit_bytes=60) == read(path) == documents(*range(5, 100), *range(7))


def test_invalid_names_are_refused(data_dir):
    for name in ("two_splits", "two_splits?split=dev", "wikipedia/20230601.en"):
        with pytest.raises(InputError):
            read(f"tfds:{name}")
    with pytest.raises(InputError):
        read("tfds:one_split", text_field="body")


def test_digests_of_splits(data_dir):
    path = "tfds:two_splits:1.2.0?split=test"
    entry = input_entry(path)
    assert entry["path"] == path and len(entry["sha256"]) == 64
    (shard,) = (data_dir / "two_splits/1.2.0").glob("*test*")
    assert entry["bytes"] == shard.stat().st_size
