import bz2
import gzip
import json
import lzma
import pickle
import random
import tracemalloc

import pytest
from backports import zstd

from bert_keras.errors import InputError
from tfrecords_tools.inputs import parts as input_parts
from tfrecords_tools.inputs import text_formats
from tfrecords_tools.inputs.corpus import (
    digest,
    documents,
    fingerprint,
    lines_of,
    units,
)
from tfrecords_tools.inputs.decoding import Repairs


def read(*paths, unit_bytes=1 << 20, errors="fail", text_field="text"):
    """Returns all lines of all units, and the repairs."""
    repairs, lines = Repairs(), []
    for unit in units(paths, unit_bytes=unit_bytes, text_field=text_field):
        unit_repairs = Repairs()  # as in the job of the unit
        lines += lines_of(unit, repairs=unit_repairs, errors=errors)
        repairs += unit_repairs
    return lines, repairs


@pytest.fixture
def file(tmp_path):
    """file(bytes or text) -> path"""

    def written(content, name="file"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return written


def test_blank_lines_and_file_ends_end_documents(file):
    one = file("\ufeff\n a \nb\n\n \t\n\nc", "one")
    two = file(b"d\r\n\r\ne\r\n", "two")
    assert read(one, two)[0] == ["a", "b", "", "c", "", "d", "", "e", ""]
    assert list(documents([one, two], stage="read")) == [["a", "b"], ["c"], ["d"], ["e"]]


def test_only_line_feeds_end_lines(file):
    path = file("a\u2028b\x0cc\u0085d\re\n")
    assert read(path)[0] == ["a\u2028b\x0cc\u0085d\re", ""]


def text_of(generator, *, blank="\n"):
    """Lines and blank lines of all kinds, some of more than a block or the longest line."""
    words = [
        "a",
        "bc",
        "d\u00e9f",
        "\u4e2d\u6587",
        "<doc",
        "<doc id=",
        "\U0001f600",
        "x" * 30,
        " ",
        "\t",
        "\r",
    ]
    parts = []
    for _ in range(generator.randrange(1, 40)):
        parts.append("".join(generator.choices(words, k=generator.randrange(0, 9))))
        parts.append(generator.choice(["\n", "\r\n", blank, " \n \t\r\n", "\n" * 4]))
    return "".join(parts)


def articles_of(generator):
    parts = []
    for number in range(generator.randrange(1, 6)):
        parts += [f'<doc id="{number}" url="u" title="T">\nT\n\n', text_of(generator), "\n</doc>\n"]
    return "".join(parts)


def json_of(generator):
    records = [{"text": text_of(generator)} for _ in range(generator.randrange(1, 6))]
    return "\n".join(json.dumps(record, ensure_ascii=False) for record in records)


@pytest.mark.parametrize("make", [text_of, articles_of, json_of])
@pytest.mark.parametrize(
    ("block", "seeds"),
    [
        (64, range(2)),
        pytest.param(5, range(12), marks=pytest.mark.slow),
        pytest.param(64, range(2, 12), marks=pytest.mark.slow),
    ],
)
def test_the_unit_size_does_not_change_the_lines(file, monkeypatch, make, block, seeds):
    monkeypatch.setattr(input_parts, "BLOCK", block)
    monkeypatch.setattr(text_formats, "LONGEST_LINE", 64)
    for seed in seeds:
        content = make(random.Random(seed)).encode()
        path = file(content)
        expected, repairs = read(path, unit_bytes=len(content) + 1)
        for unit_bytes in {1, 2, 3, 7, 50, *range(1, len(content), len(content) // 9 + 1)}:
            lines, same_repairs = read(path, unit_bytes=unit_bytes)
            assert lines == expected
            assert same_repairs.summary() == repairs.summary()


def test_a_document_of_many_units_is_read_by_the_first_unit_only(file):
    path = file("a line without a blank line\n" * 1000)
    lines_of_units = [
        list(lines_of(unit, repairs=Repairs())) for unit in units([path], unit_bytes=100)
    ]
    assert len(lines_of_units) == 280
    assert [len(lines) for lines in lines_of_units] == [1001, *[0] * 279]


def test_a_unit_without_a_document_start_reads_no_lines(tmp_path, monkeypatch):
    """All units of a long document except the first one contain no document start."""
    path = tmp_path / "endless"
    path.write_bytes(b"words and words\n" * 500_000)
    calls = []
    original = input_parts._reads
    monkeypatch.setattr(input_parts, "_reads", lambda *args: calls.append(1) or original(*args))
    unit = units([path], unit_bytes=1 << 20)[3]
    tracemalloc.start()
    assert list(lines_of(unit, repairs=Repairs())) == []
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert not calls
    assert peak < 8 * input_parts.BLOCK


def test_small_files_share_units_in_their_order(tmp_path):
    for number in range(10):
        (tmp_path / f"{number}.txt").write_text(f"document {number}\n")  # 11 bytes
    all_units = units([tmp_path], unit_bytes=35)
    assert [len(unit) for unit in all_units] == [3, 3, 3, 1]
    assert read(tmp_path, unit_bytes=35)[0][::2] == [f"document {number}" for number in range(10)]
    assert [part.path for unit in all_units for part in unit] == [
        str(tmp_path / f"{number}.txt") for number in range(10)
    ]


def test_units_and_repairs_can_be_pickled(file):
    path = file(b"a\xe9\n\nb")
    all_units = units([path], unit_bytes=2)
    repairs = Repairs()
    lines = [x for unit in all_units for x in lines_of(unit, repairs=repairs, errors="skip")]
    assert pickle.loads(pickle.dumps(all_units)) == all_units
    assert pickle.loads(pickle.dumps(repairs)) == repairs
    assert lines == ["b", ""]


COMPRESSED = {
    "gz": lambda content: gzip.compress(content[:40]) + gzip.compress(content[40:]),
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda content: zstd.compress(content[:40]) + zstd.compress(content[40:]),
}


@pytest.mark.parametrize("kind", COMPRESSED)
@pytest.mark.parametrize("make", [text_of, articles_of, json_of])
def test_compressed_files_give_the_same_lines(file, kind, make):
    content = make(random.Random(5)).encode()
    packed = file(COMPRESSED[kind](content), "packed")
    assert read(packed, unit_bytes=3)[0] == read(file(content))[0] != []


@pytest.mark.parametrize("kind", COMPRESSED)
def test_truncated_compressed_files_are_refused(file, kind):
    draw = random.Random(0)
    content = b"".join(b"%d words\n" % draw.randrange(10**9) for _ in range(30_000))
    packed = COMPRESSED[kind](content)
    with pytest.raises(InputError, match=r"packed is damaged or truncated .*download or compress"):
        read(file(packed[: len(packed) * 3 // 4], "packed"))


@pytest.mark.parametrize(
    "content",
    ["", "\n \n\t\n", "\ufeff", '{"text": null}\n', '<doc id="1" title="T">\nT\n\n</doc>'],
)
def test_a_corpus_without_text_is_refused(file, content):
    path = file(content)
    lines, repairs = read(path)
    assert lines == []
    with pytest.raises(InputError, match=r"contains no text \(.*file.*\); expected one paragraph"):
        repairs.expect_text()
    with pytest.raises(InputError, match=r"the corpus contains no text"):
        list(documents([path], stage="read"))


def test_files_without_text_are_named(file):
    paths = [file("", "empty"), file(" \n\n", "blank"), file("text", "full")]
    lines, repairs = read(*paths, unit_bytes=1)
    assert lines == ["text", ""]
    assert repairs.summary() == {"empty_files": 1, "files_without_text": 1}
    assert repairs.remarks() == [
        f"empty files: 1 ({paths[0]})",
        f"files without text: 1 ({paths[1]})",
    ]
    repairs.expect_text()


@pytest.mark.parametrize("unit_bytes", [1 << 20, 7])
def test_lines_that_are_not_utf8_are_refused_dropped_or_repaired(file, unit_bytes):
    path = file(b"fine\n\n\ncaf\xe9 au lait\nmore\n\n\xff\n")
    with pytest.raises(
        InputError, match=r"file, line 4 is not UTF-8 \(byte 0xe9 at column 4\); .* --errors skip"
    ):
        read(path, unit_bytes=unit_bytes)
    lines, repairs = read(path, unit_bytes=unit_bytes, errors="skip")
    assert lines == ["fine", "", "more", ""]
    assert repairs.remarks() == [
        f"lines that are not UTF-8, dropped: 2 ({path}, line 4; {path}, line 7)"
    ]
    lines, repairs = read(path, unit_bytes=unit_bytes, errors="replace")
    assert lines == ["fine", "", "caf\ufffd au lait", "more", "", "\ufffd", ""]
    assert repairs.summary() == {"lines_not_utf8_replaced": 2}
    with pytest.raises(InputError, match=r'errors="ignore" is unknown; expected one of fail, skip'):
        read(path, errors="ignore")


def test_all_repairs_are_counted_and_the_first_are_located(file):
    path = file(b"\xff\n" * 99)
    remarks = read(path, unit_bytes=9, errors="skip")[1].remarks()
    assert remarks[1].startswith("lines that are not UTF-8, dropped: 99 (")
    assert remarks[1].endswith("line 5; ...)")


def test_control_characters_and_lone_returns_are_counted(file):
    path = file("a\x00b\x0c\n\n\nc\td\r\ne\rf\n")
    lines, repairs = read(path)
    assert lines == ["a\x00b", "", "c\td", "e\rf", ""]
    assert repairs.remarks() == [
        f"control characters, which the tokenizer removes: 2 ({path}, line 1)",
        f"carriage returns inside lines, read as white space: 1 ({path}, line 5)",
    ]


def test_a_long_line_is_read_in_parts(tmp_path):
    path = tmp_path / "endless"
    with path.open("wb") as file:
        for _ in range(24):
            file.write(b"word " * (1 << 18))  # 31 MB in one line
    repairs = Repairs()
    lengths = []
    tracemalloc.start()
    for unit in units([path], unit_bytes=1 << 22):
        lengths += [len(line) for line in lines_of(unit, repairs=repairs)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * input_parts.LONGEST_LINE
    assert max(lengths) < input_parts.LONGEST_LINE
    assert sum(lengths) == 24 * 5 * (1 << 18) - (
        len(lengths) - 1
    )  # the blanks at the cuts are lost
    assert repairs.remarks() == [
        f"lines too long for memory, cut at white space: 1 ({path}, line 1)"
    ]


def test_long_lines_are_cut_between_characters(file, monkeypatch):
    monkeypatch.setattr(text_formats, "LONGEST_LINE", 32)
    monkeypatch.setattr(input_parts, "BLOCK", 8)
    text = "\u4e2d\u6587" * 20
    lines, repairs = read(file(f"short\n{text}\nnext{' ' * 100}blank\n"))
    assert "".join(lines) == f"short{text}nextblank"
    assert lines[-1] == "" and "" not in lines[:-1]
    assert repairs.summary() == {"long_lines_cut": 2}


def test_a_file_that_became_shorter_is_refused(file):
    all_units = units([file("a\n\n" * 100)], unit_bytes=100)
    file("a\n\n" * 60)
    with pytest.raises(InputError, match="file became shorter while it was read"):
        [list(lines_of(unit, repairs=Repairs())) for unit in all_units]


def test_digest_and_fingerprint(file):
    path = str(file("abc"))
    assert digest(path) == {
        "path": path,
        "bytes": 3,
        "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    }
    before = fingerprint(path)
    assert before["bytes"] == 3 and fingerprint(path) == before
    file("abcd")
    assert fingerprint(path) != before


def test_real_text(shared_data):
    corpus = shared_data / "corpus"
    for name, num_documents in {"wiki.txt": 599, "books.txt": 25, "wikiextractor": 37}.items():
        lines, repairs = read(corpus / name)
        assert lines.count("") == num_documents
        assert repairs.summary() == {}
        assert read(corpus / name, unit_bytes=30_000)[0] == lines
