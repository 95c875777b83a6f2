import io

import pytest

from tfrecords_tools.inputs import parts as input_parts
from tfrecords_tools.inputs.parts import CUTS, blocks, first_cut, snapped


def found(content, kind, start, end):
    return first_cut(io.BytesIO(content), start, end, cuts=CUTS[kind])


@pytest.mark.parametrize("block", [1, 7, 1 << 18])
def test_cuts_stand_where_documents_begin(monkeypatch, block):
    monkeypatch.setattr(input_parts, "BLOCK", block)
    text = b"a\nb\n\nc\n \t\r\n\n\nd"
    assert [found(text, "text", start, 15) for start in range(15)] == [
        *[5] * 6, *[11] * 6, 12, 13, 15,
    ]  # fmt: skip
    assert found(text, "text", 0, 5) == 5  # none before the end
    assert found(b"a\n" + b" " * 65 + b"\nb", "text", 0, 69) == 69  # a blank line too long to see
    articles = b"<doc id=1>\nx <doc id=9>\n</doc>\n<doc id=2>"
    assert found(articles, "wikiextractor", 1, len(articles)) == 31
    assert found(b'{"a": 1}\n{"b": 2}\n', "jsonl", 3, 18) == 9


def test_ranges_that_meet_hold_every_byte_once():
    content = b"".join(b"%d\n\n" % (10**number) for number in range(12))
    for step in range(1, len(content)):
        starts = range(0, len(content), step)
        held = [
            snapped(io.BytesIO(content), start, min(len(content), start + step),
                    size=len(content), cuts=CUTS["text"])
            for start in starts
        ]  # fmt: skip
        assert [byte for bytes_ in held for byte in bytes_] == list(range(len(content)))


@pytest.mark.parametrize("block", [1, 3, 10])
def test_blocks_are_whole_lines_or_parts_of_long_ones(monkeypatch, block):
    monkeypatch.setattr(input_parts, "BLOCK", block)
    content = b"ab\ncd\n" + b"long line of words\n" + "\u4e2d\u6587\u5b57\u5178".encode() + b"\n\nz"
    handed_out = list(blocks(io.BytesIO(content), longest=10))
    assert b"".join(data for data, _ in handed_out) == content
    parts = [(data.decode(), part) for data, part in handed_out if part]
    assert parts == [
        ("long line", 1), (" of words\n", 2), ("\u4e2d\u6587\u5b57", 1), ("\u5178\n", 2),
    ]  # fmt: skip
    assert all(data.endswith(b"\n") for data, part in handed_out[:-1] if not part)
