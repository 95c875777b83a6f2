import gzip
import json

import pytest

from bert_keras.errors import InputError
from tfrecords_tools.inputs import parts as input_parts
from tfrecords_tools.inputs import text_formats
from tfrecords_tools.inputs.corpus import lines_of, units
from tfrecords_tools.inputs.decoding import Repairs
from tfrecords_tools.inputs.formats import file_format


def read(path, *, errors="fail", text_field="text"):
    repairs = Repairs()
    all_units = units([path], unit_bytes=1 << 20, text_field=text_field)
    return [
        x for unit in all_units for x in lines_of(unit, repairs=repairs, errors=errors)
    ], repairs


@pytest.fixture
def file(tmp_path):
    """file(content, name) -> path"""

    def written(content, name="file"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return written


@pytest.mark.parametrize(
    ("content", "name", "kind"),
    [
        ("a text", "a.txt", "text"),
        ("", "empty.jsonl", "jsonl"),
        ("{a brace} opens this text\n", "a", "text"),
        ('{"half": \n', "a", "text"),
        ("\ufeff\n" + '{"text": "a"}\n', "wiki_00", "jsonl"),
        ('{"text": "' + "long " * 20_000 + '"}', "a", "jsonl"),
        ("not JSON", "a.jsonl", "jsonl"),
        ("<doc id=1>\n", "a", "wikiextractor"),
        (gzip.compress(b'{"text": "a"}', mtime=0), "a", "jsonl.gz"),
        (gzip.compress(b"not JSON", mtime=0), "a.json.gz", "jsonl.gz"),
        (gzip.compress(b"a text", mtime=0), "a.txt", "text.gz"),
        (b"PAR1...", "a", "parquet"),
        ("\x00\x01 a few control characters", "a", "text"),
    ],
)
def test_the_content_decides_the_format(file, content, name, kind):
    assert file_format(file(content, name)) == kind


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text".encode("utf-16"), r"is UTF-16 text; expected UTF-8 text: convert it .*UTF-16 -t"),
        ("text".encode("utf-32"), r"is UTF-32 text; .*iconv -f UTF-32 -t UTF-8"),
        ("a longer text".encode("utf-16-be"), r"is UTF-16 text or not text; .*iconv"),
        (b"%PDF-1.7\n", r"is a PDF; expected UTF-8 text: extract its text first \(pdftotext\)"),
        (b"{\\rtf1", r"is RTF; .*save it as text"),
        (b"PK\x03\x04....", r"is a ZIP archive or an office document; .*unpack it"),
        (b"\n<!DOCTYPE html>\n<html>", r"is a web page; .*extract its text"),
        (b"<html lang=en>", r"is a web page"),
        (b"<mediawiki xmlns", r"is a Wikipedia dump; .*\(wikiextractor\)"),
        (b"<?xml version", r"is XML"),
        (b"name\0" + b"\0" * 252 + b"ustar", r"is a tar archive; .*name the folder"),
        (b"ARROW1\0\0", r"is an Arrow file; .*parquet"),
        (b"7z\xbc\xaf", r"is compressed with 7z or LZ4; .*gz, bz2, xz or zst"),
        (b"version https://git-lfs.github.com/spec/v1\n", r"is a Git LFS pointer; .*git lfs pull"),
        (
            bytes(range(256)) * 4,
            r"is not text: 104 of its first 1,024 bytes are control characters",
        ),
    ],
)
def test_other_formats_are_refused_by_name(file, content, message):
    path = file(content)
    with pytest.raises(InputError, match=message) as caught:
        file_format(path)
    assert str(caught.value).startswith(path)
    with pytest.raises(InputError, match=message):
        file_format(file(gzip.compress(content)))


def test_names_that_do_not_match_the_content_are_refused(file):
    with pytest.raises(InputError, match=r"a\.parquet is not a parquet file despite its name"):
        file_format(file("text", "a.parquet"))
    with pytest.raises(InputError, match=r"a\.json is one JSON list; .*jq -c"):
        file_format(file('[{"text": "a"}]', "a.json"))


WIKIEXTRACTOR = """<doc id="1" url="u?curid=1" title="Salt &amp; Pepper">
Salt & Pepper

First paragraph.

Second paragraph.
Salt & Pepper



</doc>
<doc id="2" url="u?curid=2" title="Empty">
Empty

</doc>
<doc id="3" url="u?curid=3" title="Untitled">
Only text.
</doc>
"""


def test_wikiextractor_text(file):
    lines, repairs = read(file(WIKIEXTRACTOR))
    assert lines == [
        *("First paragraph.", "Second paragraph.", "Salt & Pepper", ""),
        *("Only text.", ""),
    ]
    assert repairs.summary() == {}


def test_wikiextractor_text_and_json_are_the_same(file, shared_data):
    path = shared_data / "corpus" / "wikiextractor" / "AA" / "wiki_00"
    records = []
    for article in path.read_text(encoding="utf-8").split("</doc>\n")[:-1]:
        _, title, text = article.split("\n", 2)
        records.append({"id": "1", "url": "u", "title": title, "text": text})
    as_json = file("\n".join(map(json.dumps, records)), "wiki_00")
    assert read(as_json)[0] == read(path)[0]


def test_json_lines(file):
    records = [{"text": " a\n\nb\r\n", "n": 1}, {"text": "c"}, {"text": None}, {"text": " \n"}]
    content = "\n\n".join(map(json.dumps, records)) + "\n \n"
    lines, repairs = read(file(content, "x.jsonl"))
    assert lines == ["a", "b", "", "c", ""]
    assert repairs.summary() == {"records_without_text": 2}
    assert "line 5" in repairs.remarks()[0] and "line 7" in repairs.remarks()[0]
    assert read(file('{"body": "x", "text": 3}\n', "y"), text_field="body")[0] == ["x", ""]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": ', r"x\.jsonl, line 2 is not a JSON object \(.*\); correct it; bert-tf"),
        ("[1]", r"line 2 is not a JSON object; correct it"),
        ("{}", r'line 2 has no field "text" \(fields: none; see --text-field\)'),
        ('{"a": 1, "b": 2}', r'line 2 has no field "text" \(fields: a, b; see'),
        ('{"text": ["a"]}', r'line 2 has a "text" of the type list, not a string'),
        ("[" * 100_000, r"line 2 is not a JSON object"),
        ('{"text": "' + "x" * 5000 + '"}', r"line 2 is longer than 4,096 bytes"),
    ],
)
def test_damaged_json_lines_are_refused_or_dropped(file, line, message, monkeypatch):
    if message.endswith("bytes"):
        monkeypatch.setattr(text_formats, "LONGEST_RECORD", 4096)
        monkeypatch.setattr(input_parts, "BLOCK", 1024)
    path = file(f'{{"text": "a"}}\n{line}\n{{"text": "b"}}\n', "x.jsonl")
    with pytest.raises(InputError, match=message):
        read(path)
    for errors in ("skip", "replace"):
        lines, repairs = read(path, errors=errors)
        assert lines == ["a", "", "b", ""]
        assert repairs.remarks() == [f"records that cannot be read, dropped: 1 ({path}, line 2)"]


def test_half_a_surrogate_pair_in_json_is_not_utf8(file):
    path = file('{"text": "fine\\nx\\ud800y"}\n')
    with pytest.raises(InputError, match=r"file, line 1 is not UTF-8 \(byte 0xed at column 2\)"):
        read(path)
    lines, repairs = read(path, errors="skip")
    assert lines == ["fine", ""] and repairs.summary() == {"lines_not_utf8_dropped": 1}
    assert read(path, errors="replace")[0][1].strip("xy") == "\ufffd" * 3


def test_json_that_is_not_utf8(file):
    path = file(b'{"text": "a"}\n{"text": "caf\xe9"}\n', "x.jsonl")
    with pytest.raises(InputError, match=r"x\.jsonl, line 2 is not UTF-8 \(byte 0xe9 at column 14"):
        read(path)
    assert read(path, errors="skip")[0] == ["a", ""]
    assert read(path, errors="replace")[0] == ["a", "", "caf\ufffd", ""]
