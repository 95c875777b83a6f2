import pytest

from tfrecords_tools.sentences import sentences


@pytest.mark.parametrize(
    "expected",
    [
        ["One sentence without an end"],
        ["It ends.", "It begins!", "Does it?", "Yes…", "So it does."],
        ["He said “No.”", "“Why?” she asked.", "(Nobody knew.)", "[Sic.]", "1914 came."],
        ['"Stop!" he cried.', "'Now?'", "So."],
        ["Mr. Smith met Dr. Jones on Jan. 5 at St. Paul's, i.e. There.", "End."],
        ["J. R. R. Tolkien wrote.", "It was I.", "Then he slept."],
        ["It cost 3.50 dollars at a.m. rates, e.g. this.", "É was next."],
        ["A ... pause, and more."],
        ["日本です。", "東京！", "「はい。」", "終"],
    ],
    ids=lambda sentences: sentences[0],
)
def test_breaks(expected):
    joined = " ".join(expected)
    if "。" in joined:
        joined = "".join(expected)
    assert sentences(joined) == expected


def test_nothing_is_lost():
    line = "  A b.  C d?\u3000E   f. g. H.”  "
    assert "".join("".join(sentences(line)).split()) == "".join(line.split())


def test_blank():
    assert sentences("  ") == []
