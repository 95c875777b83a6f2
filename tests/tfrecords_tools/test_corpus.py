"""Files of a corpus, their units, formats and compression, and lines that are repaired."""

import bz2
import gzip
import json
import lzma
import os
import random
import zipfile

import fsspec
import pytest
from backports import zstd

from bert_keras.errors import InputError
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tfrecords_tools import google, readers
from tfrecords_tools.corpus import (
    corpus_files,
    divide_into_units,
    input_entry,
    lines_of,
    read_documents,
)
from tfrecords_tools.readers import file_format


def read(*paths, unit_bytes=1 << 20, text_field="text"):
    """Returns all lines of all units."""
    all_units = divide_into_units(paths, unit_bytes=unit_bytes, text_field=text_field)
    return [line for unit in all_units for line in lines_of(unit)]


@pytest.fixture
def file(tmp_path):
    """file(bytes or text, name) -> path"""

    def written(content, name="file"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(tmp_path / name)

    return written


TREE = {
    "b.txt": b"b\n\nc\n" * 100, "a.txt": b"a", "part[1].txt": b"p", "sub/d.txt": b"d",
    "sub/empty.txt": b"", "sub/_SUCCESS": b"", "_logs/e.txt": b"e", ".x/f.txt": b"f",
    "sub/deep/g.txt": b"g",
}  # fmt: skip
FOUND = {  # the names that a pattern finds
    "": ["a.txt", "b.txt", "part[1].txt", "sub/d.txt", "sub/deep/g.txt", "sub/empty.txt"],
    "sub": ["sub/d.txt", "sub/deep/g.txt", "sub/empty.txt"],
    "*.txt": ["a.txt", "b.txt", "part[1].txt"],
    "[ab].txt": ["a.txt", "b.txt"],
    "part[1].txt": ["part[1].txt"],
    "*/deep": ["sub/deep/g.txt"],
}


@pytest.fixture
def remote(file):
    """The same folder in fsspec's memory, which replaces gs:// and similar systems, and on disk."""
    system = fsspec.filesystem("memory")
    for name, data in TREE.items():
        system.pipe(f"/corpus/{name}", data)
        file(data, name)
    yield "memory:///corpus"
    system.rm("/corpus", recursive=True)


@pytest.mark.parametrize("pattern", FOUND)
def test_folders_and_globs_are_sorted_here_and_remotely(remote, tmp_path, pattern):
    for root in (remote, str(tmp_path)):
        found = corpus_files([f"{root}/{pattern}".rstrip("/")])
        assert [os.path.relpath(path, root) for path in found] == FOUND[pattern]


def test_paths_without_files_and_files_that_occur_twice_are_refused(remote, tmp_path):
    (tmp_path / "bare").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "b.txt")
    (tmp_path / "circle").mkdir()
    for name in ("one", "two"):
        (tmp_path / "circle" / name).symlink_to(tmp_path / "circle")
    (tmp_path / "circle" / "text").touch()
    (tmp_path / "pipes").mkdir()
    os.mkfifo(tmp_path / "pipes" / "pipe")
    with pytest.raises(InputError):
        read(tmp_path / "pipes")
    twice = ["sub/d.txt", "sub"], ["link", "b.txt"], ["circle"]
    here = [[tmp_path / n for n in names] for names in (["none.txt"], ["*.md"], ["bare"], *twice)]
    for paths in (*here, [f"{remote}/none"]):
        with pytest.raises(InputError):
            corpus_files(paths)


def test_remote_files_are_read_like_local_files(remote):
    all_units = divide_into_units([remote], unit_bytes=50)
    assert len(all_units) > 8
    lines = [line for unit in all_units for line in lines_of(unit)]
    assert lines == ["a", "", *["b", "", "c"], *["b", "", "c"] * 99, "", "p", "", "d", "", "g", ""]
    assert input_entry(f"{remote}/a.txt")["sha256"].startswith("ca978112ca1bbdca")
    fsspec.filesystem("memory").pipe("/corpus/c.txt", b"bb\n\n" * 20 + b"\xff\n")
    with pytest.raises(InputError, match=r"corpus/c\.txt, line 41 "):
        read(f"{remote}/c.txt", unit_bytes=9)


def test_blank_lines_and_file_ends_end_documents(file):
    one = file("\ufeff\n a \nb\n\n \t\n\nc\u2028d\x0ce\u0085f\rg", "one")
    two = file(b"d\r\n\r\ne\r\n", "two")
    lines = ["a", "b", "", "c\u2028d\x0ce\u0085f\rg", "", "d", "", "e", ""]
    assert read(one, two) == lines
    assert list(read_documents([one, two], stage="read")) == [["a", "b"], lines[3:4], ["d"], ["e"]]


def text_of(generator, *, blank="\n"):
    """Lines and blank lines of all kinds, some of more than a block or the longest line."""
    words = ["a", "bc", "d\u00e9f", "\u4e2d\u6587", "<doc", "<doc id=", "\U0001f600", "x" * 30]
    words += [" ", "\t", "\r"]
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
    ("block", "seeds"), [(96, range(2)), pytest.param(5, range(12), marks=pytest.mark.slow)]
)
def test_the_unit_size_does_not_change_the_lines(file, monkeypatch, make, block, seeds):
    monkeypatch.setattr(readers, "READ_BYTES", block)
    for seed in seeds:
        content = make(random.Random(seed)).encode()
        path = file(content)
        expected = read(path, unit_bytes=len(content) + 1)
        for unit_bytes in {1, 2, 3, 7, 50, *range(1, len(content), len(content) // 9 + 1)}:
            assert read(path, unit_bytes=unit_bytes) == expected


@pytest.mark.parametrize(
    ("content", "name", "kind"),
    [
        ("", "empty.jsonl", "jsonl"),
        ("{a brace} opens this text\n", "a", "text"),
        ("\ufeff\n" + '{"text": "a"}\n', "wiki_00", "jsonl"),
        ("not JSON", "a.jsonl", "jsonl"),
        ("<doc id=1>\n", "a", "wikiextractor"),
        (gzip.compress(b'{"text": "a"}', mtime=0), "a.gz", "jsonl"),
        (gzip.compress(b"not JSON", mtime=0), "a.json.gz", "jsonl"),
        (b"PAR1...", "a", "parquet"),
    ],
)
def test_formats_are_recognized_by_the_first_bytes_and_the_name(file, content, name, kind):
    assert file_format(file(content, name)) == kind


CHECKED = {zstd.CompressionParameter.checksum_flag: 1}  # as the program zstd writes them
COMPRESSED = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda content: zstd.compress(content, options=CHECKED),
}


@pytest.mark.parametrize("kind", COMPRESSED)
def test_a_damaged_file_is_refused_or_changes_nothing(file, kind):
    packed = COMPRESSED[kind](b"first\nsecond\n")

    def lines(content):
        try:
            return read(file(content, f"packed.{kind}"))
        except InputError:
            return None

    whole = ["first", "second", ""]
    assert lines(packed) == whole
    for place in range(len(packed)):
        flipped = packed[:place] + bytes([packed[place] ^ 1 << place % 8]) + packed[place + 1 :]
        assert lines(flipped) in (None, whole)
        assert lines(packed[:place]) is None or not place  # an empty .gz file is an empty text


@pytest.mark.parametrize("kind", COMPRESSED)
def test_compressed_files_give_the_same_lines(file, kind):
    for make in (text_of, articles_of, json_of):
        content = make(random.Random(5)).encode()
        packed = COMPRESSED[kind](content[:40]) + COMPRESSED[kind](content[40:])
        packed = file(packed, f"packed.{kind}")
        assert read(packed, unit_bytes=3) == read(file(content)) != []


def test_archives_of_several_files_and_very_long_lines_are_refused(file, tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "MAX_LINE", 100)
    assert read(file(100 * "a")) == [100 * "a", ""]
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in ("one.txt", "two.txt"):
            archive.writestr(name, "a")
    tokenizer = WordPieceTokenizer(Vocabulary(SPECIAL_TOKENS))
    for path in (tmp_path / "a.zip", file(gzip.compress(b"a\n" + 101 * b"b"), "long.gz")):
        with pytest.raises(InputError):
            read(path)
        with pytest.raises(InputError):
            google.tokenize([str(path)], tmp_path / "store", tokenizer=tokenizer)


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


def test_articles_of_wikiextractor(file):
    expected = ["First paragraph.", "Second paragraph.", "Salt & Pepper", "", "Only text.", ""]
    assert read(file(WIKIEXTRACTOR)) == expected


def test_json_lines(file):
    records = [{"text": " a\n\nb\r\n", "n": 1}, {"text": "c"}, {"text": None}, {"text": " \n"}]
    content = "\n\n".join(map(json.dumps, records)) + "\n \n"
    assert read(file(content, "x.jsonl")) == ["a", "b", "", "c", ""]
    assert read(file('{"body": "x", "text": 3}\n', "y"), text_field="body") == ["x", ""]


@pytest.mark.parametrize("unit_bytes", [1 << 20, 7, 4])
def test_text_that_is_not_utf8_is_refused(file, unit_bytes):
    content = b"fine\n\n\ncaf\xe9 au lait\nmore\n\n\xff\n"
    with pytest.raises(InputError, match=r"file, line 4 "):
        read(file(content), unit_bytes=unit_bytes)
    with pytest.raises(InputError, match=r"packed.gz, line 4 "):
        read(file(gzip.compress(content), "packed.gz"))
    texts = ['{"text": "fine\\nx\\ud800y"}', '{"text": ', "[" * 100_000, '{"a": 1, "b": 2}']
    for text in (*texts, '{"text": ["a"]}'):
        with pytest.raises(InputError):
            read(file(f'{{"text": "a"}}\n{text}\n', "x.jsonl"))
