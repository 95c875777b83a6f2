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


@pytest.fixture
def bad(tmp_path, corpus, vocab, monkeypatch):
    """A folder with bad inputs beside good ones, and the working directory."""
    (tmp_path / "empty.txt").touch()
    (tmp_path / "one.jsonl").write_bytes(b'{"text": "ada sees cats"}\n' * 3)
    (tmp_path / "cut.tfrecord").write_bytes(b"\x10\0\0\0\0\0\0\0 some bytes of a record")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").write_text("ada sees cats\n\nada sees cats\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


BUILD = "build one.txt --vocab vocab.txt --output"
JSON = "build one.jsonl --vocab vocab.txt --output new"


@pytest.mark.parametrize(
    "command",
    [
        *(f"vocab {each}" for each in ("none.txt --output v", "one.txt --output one.txt/v")),
        *(f"vocab one.txt --output {name}" for name in ("vocab.txt", "v.json")),
        *(f"build {name} --vocab vocab.txt --output new" for name in ("none.txt", "empty.txt")),
        "build one.txt --vocab none.txt --output new",
        *(f"{BUILD} {name}" for name in ("full", ".", "gs://b/new")),
        *(f"{BUILD} new --max-length {10**11}", f"{BUILD} new --compat google --shards 999"),
        *(f"{JSON} --compat google", f"{JSON} --text-field b"),
        *("vocab full --output full/v.txt", "build full --vocab vocab.txt --output full/new"),
        *("check none --vocab vocab.txt", "check cut.tfrecord"),
        *("show none", "show full", "show empty.txt"),
    ],
)
def test_bad_input_is_reported_in_one_line_and_writes_nothing(bad, capsys, command):
    before = sorted(bad.rglob("*"))
    assert run(*command.split()) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("bert-tf")]
    assert len(errors) == 1 and sorted(bad.rglob("*")) == before
