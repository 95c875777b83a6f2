import tracemalloc

import pyarrow as pa
import pytest
from pyarrow import parquet

from bert_keras.errors import InputError
from tfrecords_tools.inputs.corpus import lines_of, units
from tfrecords_tools.inputs.decoding import Repairs

TEXTS = ["a\n\nb", None, " ", "c\r\nd", "\u00e9"]
LINES = ["a", "b", "", "c", "d", "", "\u00e9", ""]


def read(path, *, unit_bytes=1 << 20, errors="fail", text_field="text"):
    repairs, lines = Repairs(), []
    for unit in units([path], unit_bytes=unit_bytes, text_field=text_field):
        lines += lines_of(unit, repairs=repairs, errors=errors)
    return lines, repairs


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


@pytest.mark.parametrize("kind", ["string", "large_string", "string_view", "binary", "dictionary"])
def test_rows_are_documents_for_every_kind_of_text(table, kind):
    texts = pa.array(TEXTS * 20)
    path = table(text=texts.dictionary_encode() if kind == "dictionary" else texts.cast(kind))
    expected, repairs = read(path)
    assert expected == LINES * 20
    assert repairs.summary() == {"records_without_text": 40}
    for unit_bytes in (1, 100, 300):
        lines, same_repairs = read(path, unit_bytes=unit_bytes)
        assert (lines, same_repairs.remarks()) == (expected, repairs.remarks())
    assert len(units([path], unit_bytes=1)) == 15  # row groups
    assert "row 2;" in repairs.remarks()[0] and "row 12; ..." in repairs.remarks()[0]


def test_columns_without_text_are_refused(table):
    path = table(text=pa.array(["a"]), n=pa.array([1]), texts=pa.array([["a"]]))
    with pytest.raises(
        InputError, match=r't\.parquet has no column "body", only x, text, n, texts; '
    ):
        read(path, text_field="body")
    with pytest.raises(InputError, match=r'the column "n" contains int64, not text'):
        read(path, text_field="n")
    with pytest.raises(InputError, match=r'the column "texts" contains list<.*string>, not text'):
        read(path, text_field="texts")


def test_text_that_is_not_utf8(table):
    texts = [pa.py_buffer(b"\0\0\0\0\3\0\0\0\6\0\0\0"), pa.py_buffer(b"abcd\xe9f")]
    path = table(text=pa.Array.from_buffers(pa.string(), 2, [None, *texts]))
    with pytest.raises(InputError, match=r"row 2 is not UTF-8 \(byte 0xe9 at column 2\)"):
        read(path)
    assert read(path, errors="skip")[0] == ["abc", ""]
    assert read(path, errors="replace")[0] == ["abc", "", "d\ufffdf", ""]


def test_damaged_files_are_refused(table):
    path = table(text=pa.array(["a word of text"] * 500), row_group_size=500)
    content = path.read_bytes()
    path.write_bytes(content[:-50])
    with pytest.raises(
        InputError, match=r"t\.parquet is damaged or truncated .*; download it again"
    ):
        read(path)
    path.write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"t\.parquet is damaged or truncated"):
        read(path)


def test_a_table_without_rows_contains_no_text(table):
    lines, repairs = read(table(text=pa.array([], pa.string())))
    assert lines == []
    with pytest.raises(InputError, match=r"the corpus contains no text .*t\.parquet"):
        repairs.expect_text()


def test_a_large_row_group_is_read_in_batches(table):
    path = table(text=pa.array(["word " * 2000] * 5000), row_group_size=5000)  # 50 MB of text
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    (unit,) = units([path], unit_bytes=1 << 30)
    peak = 0
    for _ in lines_of(unit, repairs=Repairs()):
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert peak + tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()
