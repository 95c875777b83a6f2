import io

import pytest

from tfrecords_tools.inputs import parts as input_parts
from tfrecords_tools.inputs.parts import (
    DOCUMENT_STARTS,
    FilePart,
    blocks,
    document_bytes,
    first_start,
)


def document_start(content, kind, start, end):
    return first_start(io.BytesIO(content), start, end, pattern=DOCUMENT_STARTS[kind])


@pytest.mark.parametrize("block", [1, 7, 1 << 18])
def test_document_starts(monkeypatch, block):
    monkeypatch.setattr(input_parts, "BLOCK", block)
    text = b"a\nb\n\nc\n \t\r\n\n\nd"
    assert [document_start(text, "text", start, 15) for start in range(15)] == [
        *[5] * 6, *[11] * 6, 12, 13, 15,
    ]  # fmt: skip
    assert document_start(text, "text", 0, 5) == 5  # none before the end
    assert (
        document_start(b"a\n" + b" " * 65 + b"\nb", "text", 0, 69) == 69
    )  # too long for the pattern
    articles = b"<doc id=1>\nx <doc id=9>\n</doc>\n<doc id=2>"
    assert document_start(articles, "wikiextractor", 1, len(articles)) == 31
    assert document_start(b'{"a": 1}\n{"b": 2}\n', "jsonl", 3, 18) == 9


def test_adjacent_parts_contain_every_byte_once(tmp_path):
    path, content = tmp_path / "text", b"".join(b"%d\n\n" % 10**n for n in range(12))
    path.write_bytes(content)
    for step in range(1, len(content)):
        parts = [
            FilePart(str(path), "text", start, min(len(content), start + step), step)
            for start in range(0, len(content), step)
        ]
        ranges = map(document_bytes, parts)
        assert [byte for bytes_ in ranges for byte in bytes_] == list(range(len(content)))


@pytest.mark.parametrize("block", [1, 3, 10])
def test_blocks_are_complete_lines_or_parts_of_long_lines(monkeypatch, block):
    monkeypatch.setattr(input_parts, "BLOCK", block)
    content = b"ab\ncd\n" + b"long line of words\n" + "\u4e2d\u6587\u5b57\u5178".encode() + b"\n\nz"
    results = list(blocks(io.BytesIO(content), longest=10))
    assert b"".join(data for data, _ in results) == content
    parts = [(data.decode(), part) for data, part in results if part]
    assert parts == [
        ("long line", 1), (" of words\n", 2), ("\u4e2d\u6587\u5b57", 1), ("\u5178\n", 2),
    ]  # fmt: skip
    assert all(data.endswith(b"\n") for data, part in results[:-1] if not part)
