import pytest

from tfrecords_tools.inspect.shards import has_records
from tfrecords_tools.records.writer import framed


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "part-0").write_bytes(framed([b"some record"]))
    (tmp_path / "text").write_text("Some text that is no record.")
    (tmp_path / "short").write_text("Text")
    (tmp_path / "cut.tfrecord").write_bytes(b"")
    for name in ("records", "texts"):
        (tmp_path / name).mkdir()
    (tmp_path / "records" / "vocab.txt").write_text("[PAD]")
    (tmp_path / "records" / "a.tfrecord").touch()
    (tmp_path / "texts" / "a.txt").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("part-0", True),
        ("part-*", True),
        ("cut.tfrecord", True),
        ("missing.tfrecord", True),  # reported as missing records
        ("records", True),
        ("text", False),
        ("short", False),
        ("texts", False),
        ("te*", False),
        ("missing", False),
    ],
)
def test_records_are_distinguished_from_text(folder, name, expected):
    assert has_records(folder / name) is expected
