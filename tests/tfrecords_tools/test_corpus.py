import pytest

from bert_keras.errors import InputError
from tfrecords_tools.corpus import documents


def read(*paths):
    return list(documents(paths, stage="read"))


def test_blank_lines_and_file_ends_end_documents(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("\ufeff\n a \nb\n\n \t\n\nc", encoding="utf-8")
    two.write_bytes(b"d\r\n\r\ne\r\n")
    assert read(one, two) == [["a", "b"], ["c"], ["d"], ["e"]]


def test_only_line_feeds_end_lines(tmp_path):
    (tmp_path / "one").write_text("a\u2028b\x0cc\u0085d\n", encoding="utf-8", newline="")
    assert read(tmp_path / "one") == [["a\u2028b\x0cc\u0085d"]]


@pytest.mark.parametrize("content", ["", "\n \n\t\n", "\ufeff"])
def test_corpus_without_text(tmp_path, content):
    (tmp_path / "empty.txt").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"the corpus holds no text .*empty\.txt"):
        read(tmp_path / "empty.txt")


def test_invalid_utf8_names_the_line(tmp_path):
    (tmp_path / "latin1.txt").write_bytes(b"fine\ncaf\xe9 au lait\n")
    with pytest.raises(
        InputError, match=r"latin1\.txt, line 2 is not UTF-8 .byte 0xe9 at column 4"
    ):
        read(tmp_path / "latin1.txt")


def test_a_missing_file_is_told_before_anything_is_read(tmp_path):
    (tmp_path / "one").write_text("a")
    with pytest.raises(InputError, match="none does not exist"):
        next(documents([tmp_path / "one", tmp_path / "none"], stage="read"))
