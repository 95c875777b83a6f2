"""Rows of parquet files as documents."""

import pyarrow as pa
import pytest
from pyarrow import parquet

from bert_keras.errors import InputError
from tests.tfrecords_tools.test_corpus import read
from tfrecords_tools.corpus import divide_into_units

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
