"""The journey of each command of bert-tfrecords, and common mistakes."""

import subprocess
import sys
from textwrap import indent

import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

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
    assert "of 5,000 tokens; the corpus provides no more" in capsys.readouterr().out
    build = ["build", *corpus, "--vocab", tmp_path / "v.txt", "--output", tmp_path / "records"]
    options = ["--held-out", 0.3, "--max-length", 32, "--shards", 1, "--seed", 3]
    assert run(*build, *options, workers=2) == 0
    captured = capsys.readouterr()
    output = captured.out.splitlines()
    assert [line.split(":")[0] for line in output] == ["train", "held-out"]
    assert "50.0% random next" in output[0]
    assert run("check", tmp_path / "records") == 0
    assert "masked" in capsys.readouterr().out
    assert run("show", tmp_path / "records", "--count", 2) == 0
    assert capsys.readouterr().out.count("[CLS]") == 2
    assert run("show", tmp_path / "rec*" / "train*", "--count", 1, "--start", 3) == 0
    assert "record 3: " in capsys.readouterr().out
    picture = tmp_path / "new/folder/picture.svg"
    assert run("show", tmp_path / "records", "--stats", "--plot", picture) == 0
    output = capsys.readouterr().out
    assert "tokens in a record" in output and output.endswith(f"{picture}\n") and picture.is_file()


def test_cased_records_keep_capitals(tmp_path, capsys):
    (tmp_path / "a").write_text("Ada saw Ben.\n\nBen saw Ada.\n\n" * 20)
    run("vocab", tmp_path / "a", "--cased", "--output", tmp_path / "v.txt", "--size", 160)
    build = ["build", tmp_path / "a", "--cased", "--vocab", tmp_path / "v.txt"]
    assert run(*build, "--output", tmp_path / "records") == 0
    assert '"lowercase": false' in (tmp_path / "records/manifest.json").read_text()
    run("show", tmp_path / "records", "--count", 1)
    assert "Ada" in capsys.readouterr().out


@pytest.fixture
def bad(tmp_path, corpus, vocab, monkeypatch):
    """A folder with bad inputs beside good ones, and the working directory."""
    contents = {
        "empty.txt": b"",
        "latin1.txt": b"fine\n\ncaf\xe9\n",
        "single.txt": b"ada sees cats\nben likes dogs\n",
        "no-mask.txt": b"[PAD]\n[UNK]\n[CLS]\n[SEP]\nada\n",
        "one.jsonl": b'{"text": "ada sees cats"}\n',
        "cut.tfrecord": b"\x10\0\0\0\0\0\0\0 some bytes of a record",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


BUILD = "build one.txt --vocab vocab.txt --output new"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("vocab none.txt --output v", "none.txt does not exist"),
        ("vocab full --output v", "the corpus contains no text"),
        ("vocab latin1.txt --output v", "latin1.txt, line 3 is not UTF-8"),
        ("vocab one.txt --output one.txt/v", "is not a folder"),
        ("vocab one.txt --output vocab.txt", "vocab.txt exists already"),
        ("vocab one.txt --output full", "full is a folder"),
        (f"vocab one.txt --output {'v' * 254}", "too long"),
        ("vocab one.txt --output v.json", "v.json does not fit --model wordpiece"),
        ("vocab one.txt --output v --size 6", "size is 6"),
        ("vocab one.txt full ./one.txt --output v", "one.txt twice"),
        ("build empty.txt --vocab vocab.txt --output new", "the corpus contains no text"),
        ("build single.txt --vocab vocab.txt --output new", "needs at least two documents"),
        ("build one.txt --vocab no-mask.txt --output new", "no-mask.txt"),
        ("build one.txt --vocab none.txt --output new", "none.txt does not exist"),
        ("build one.txt --vocab vocab.txt --output full", "full exists already"),
        ("build one.txt --vocab vocab.txt --output one.txt/new", "one.txt"),
        ("build one.txt --vocab vocab.txt --output gs://b/new", "is not on this machine"),
        ("build one.txt --vocab vocab.txt --output .", "cannot be replaced"),
        (f"{BUILD} --max-predictions 0 --mask-rate 0.2", "mask_rate=0.2 has no effect"),
        (f"{BUILD} --max-length {10**11}", "max_length is 100000000000"),
        (f"{BUILD} --workers 9 --beam", "--workers has no effect with --beam"),
        (f"{BUILD} --compat google --shards 999", "999 shards"),
        (f"{BUILD} --compat google --held-out 0", "held_out_rate"),
        ("build one.jsonl --vocab vocab.txt --output new --compat google", "one.jsonl is jsonl"),
        ("build one.jsonl --vocab vocab.txt --output new --text-field b", "--text-field"),
        ("check none --vocab vocab.txt", "none"),
        ("check one.txt --vocab vocab.txt", "one.txt is not a complete TFRecord file"),
        ("check cut.tfrecord", "cut.tfrecord is not a complete TFRecord file"),
        ("show none", "none does not exist; expected a folder of records"),
        ("show full", "full contains no vocab.txt"),
        ("show cut.tfrecord --count -1", "count is -1"),
        ("show cut.tfrecord --plot a.txt", "a.txt is not a picture file"),
        ("show empty.txt", "empty.txt contains no records"),
    ],
)
def test_bad_input_is_reported_in_one_line_and_writes_nothing(bad, capsys, command, message):
    before = sorted(bad.rglob("*"))
    assert run(*command.split()) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("bert-tf")]
    assert len(errors) == 1
    assert message in errors[0]
    assert sorted(bad.rglob("*")) == before


@pytest.mark.parametrize(
    "arguments", ["", "biuld", "show", "build --workers x", "check a --size 9", "show a --no"]
)
def test_wrong_options_are_reported_in_one_line(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        run(*arguments.split())
    assert stop.value.code == 2
    (message,) = capsys.readouterr().err.splitlines()
    assert message.startswith("bert-tfrecords") and message.endswith(" --help")


def test_a_missing_apache_beam_names_the_extra(bad, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    monkeypatch.delitem(sys.modules, "tfrecords_tools.beam", raising=False)
    assert main([*BUILD.split(), "--beam"]) == 2
    assert 'pip install "bert-keras[beam]"' in capsys.readouterr().err


@pytest.mark.slow
def test_tensorflow_prints_nothing(corpus, vocab, tmp_path, monkeypatch):
    assert run("build", *corpus, "--vocab", vocab, "--output", tmp_path / "records") == 0
    dataset = {"train": tf.data.Dataset.from_tensor_slices({"text": ["ada sees cats."] * 9})}
    tfds.dataset_builders.store_as_tfds_dataset(
        name="texts",
        version="1.0.0",
        data_dir=tmp_path,
        split_datasets=dataset,
        features=tfds.features.FeaturesDict({"text": tfds.features.Text()}),
    )
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    program = "import sys; from tfrecords_tools.cli import main\n" + "".join(
        f"if main({command.split()}): sys.exit(1)\n"
        for command in (
            "show records",
            "check records",
            "vocab tfds:texts/1.0.0 --output v.txt --size 50 --unused 0 --workers 2",
        )
    )
    (tmp_path / "program.py").write_text(f"if __name__ == '__main__':\n{indent(program, ' ')}")
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    stages = ("count words", "learn tokens", "check", "note: ")
    lines = done.stderr.replace("\r", "\n").splitlines()
    assert [line for line in lines if line and not line.startswith(stages)] == []


def test_full_disk_is_reported_and_the_build_continues(
    corpus, vocab, tmp_path, monkeypatch, capsys
):
    def full(*_):
        raise OSError(28, "No space left on device")

    build = ["build", *corpus, "--vocab", vocab, "--output", tmp_path / "records"]
    with monkeypatch.context() as patch:
        patch.setattr("tfrecords_tools.records.writer.framed", full)
        assert run(*build) == 2
    assert "No space left on device; free disk space" in capsys.readouterr().err
    assert not (tmp_path / "records").exists()
    assert run(*build) == 0
    assert (tmp_path / "records/manifest.json").is_file()
    assert not (tmp_path / "records.partial").exists()
