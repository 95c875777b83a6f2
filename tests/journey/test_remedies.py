"""What an error message of the demo tells the user to do succeeds."""

import sys
from itertools import islice, permutations

import pytest

from bert_keras.cli import main
from tests.journey.test_demo import short  # noqa: F401


def sentences(count):
    """Returns four documents with different sentences."""
    words = [f"{a}{b}" for a in ("ba", "de", "fi", "go") for b in ("lu", "mi", "no", "ra")]
    rows = [" ".join(row) for row in islice(permutations(words, 6), 0, count * 997, 997)]
    return "\n\n".join("\n".join(rows[i::4]) for i in range(4))


@pytest.mark.slow
@pytest.mark.usefixtures("short")
def test_the_demo_succeeds_with_a_large_corpus_of_the_user(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    monkeypatch.setattr("bert_keras.demo._export_and_predict", lambda *_: None)
    demo = ["demo", "--output", str(tmp_path / "demo")]
    assert main(demo) == 2
    assert "name text files with --corpus" in capsys.readouterr().err
    small, large = tmp_path / "small.txt", tmp_path / "large.txt"
    large.write_text(sentences(200))
    for count in (2, 4):  # no sentence to hold out, and one of a label without training sentences
        small.write_text(sentences(count) + "\n\none\n\ntwo\n")
        assert main([*demo, "--corpus", str(small)]) == 2
        assert "too few for a classifier; use a larger corpus" in capsys.readouterr().err
    assert not [*tmp_path.glob("demo/*/pretrain")]
    assert main([*demo, "--corpus", str(large)]) == 0
