"""The journey of each command of bert-tfrecords, and common mistakes."""

import pytest

from tfrecords_tools.cli import main


@pytest.fixture
def vocab(vocabulary, tmp_path):
    vocabulary.save(tmp_path / "vocab.txt")
    return str(tmp_path / "vocab.txt")


def run(*arguments, workers=1):
    """Runs a command in this process alone: others are slow to start."""
    verb, *others = map(str, arguments or [""])
    own = ["--workers", str(workers)] if verb in ("vocab", "build") else []
    return main([*filter(None, [verb]), *own, *others])


def test_from_text_to_records_and_back(corpus, tmp_path, capsys):
    assert run("vocab", *corpus, "--output", tmp_path / "v.txt", "--size", 5000) == 0
    assert "; the corpus provides no more" in capsys.readouterr().out
    assert run("vocab", *corpus, "--output", "-", "--size", 5000) == 0
    assert capsys.readouterr().out == (tmp_path / "v.txt").read_text()
    build = ["build", *corpus, "--vocab", tmp_path / "v.txt", "--output", tmp_path / "records"]
    options = ["--held-out", 0.3, "--max-length", 32, "--shards", 1, "--seed", 3]
    assert run(*build, *options, workers=2) == 0
    output = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in output] == ["train", "held-out"]
    assert "50.0% random next" in output[0]
    assert run("check", tmp_path / "records") == 0
    assert capsys.readouterr().out.startswith("no errors ")
    assert run("show", tmp_path / "records", "--count", 2) == 0
    assert capsys.readouterr().out.count("[CLS]") == 2
    assert run("show", tmp_path / "rec*" / "train*", "--count", 1, "--start", 3) == 0
    assert "record 3: " in capsys.readouterr().out
    picture = tmp_path / "new/folder/picture.svg"
    assert run("show", tmp_path / "records", "--plot", picture) == 0
    assert capsys.readouterr().out.split() == ["picture", str(picture)] and picture.is_file()


@pytest.fixture
def bad(tmp_path, corpus, vocab, monkeypatch):
    """A folder with bad inputs beside good ones, and the working directory."""
    (tmp_path / "empty.txt").touch()
    (tmp_path / "one.jsonl").write_bytes(b'{"text": "ada sees cats"}\n')
    (tmp_path / "cut.tfrecord").write_bytes(b"\x10\0\0\0\0\0\0\0 some bytes of a record")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


BUILD = "build one.txt --vocab vocab.txt --output new"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("vocab none.txt --output v", "none.txt does not exist"),
        ("vocab one.txt --output one.txt/v", "is not a folder"),
        ("vocab one.txt --output vocab.txt", "vocab.txt exists already"),
        ("vocab one.txt --output v.json", "v.json"),
        ("build empty.txt --vocab vocab.txt --output new", "no text"),
        ("build one.txt --vocab none.txt --output new", "none.txt does not exist"),
        ("build one.txt --vocab vocab.txt --output full", "full exists already"),
        ("build one.txt --vocab vocab.txt --output gs://b/new", "is not on this machine"),
        ("build one.txt --vocab vocab.txt --output .", "exists already"),
        (f"{BUILD} --max-length {10**11}", "max_length is 100000000000"),
        (f"{BUILD} --compat google --shards 999", "999 shards"),
        ("build one.jsonl --vocab vocab.txt --output new --compat google", "one.jsonl is jsonl"),
        ("build one.jsonl --vocab vocab.txt --output new --text-field b", "--text-field"),
        ("check none --vocab vocab.txt", "none"),
        ("check cut.tfrecord", "cut.tfrecord"),
        ("show none", "none is not a folder of records"),
        ("show full", "full is not a folder of records"),
        ("show cut.tfrecord --plot a.txt", "a.txt"),
        ("show empty.txt", "empty.txt"),
    ],
)
def test_bad_input_is_reported_in_one_line_and_writes_nothing(bad, capsys, command, message):
    before = sorted(bad.rglob("*"))
    assert run(*command.split()) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("bert-tf")]
    assert len(errors) == 1 and message in errors[0]
    assert sorted(bad.rglob("*")) == before
