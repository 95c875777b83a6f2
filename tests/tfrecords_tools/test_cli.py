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
    output = capsys.readouterr().out
    assert "of 5,000 tokens; the corpus provides no more" in output
    build = ["build", *corpus, "--vocab", tmp_path / "v.txt", "--output", tmp_path / "records"]
    options = ["--held-out", 0.3, "--max-length", 32, "--shards", 1, "--seed", 3]
    assert run(*build, *options, workers=2) == 0
    output = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in output] == ["train", "held-out"]
    assert "random next" in output[0]
    assert run("check", tmp_path / "records") == 0
    assert "masked" in capsys.readouterr().out
    assert run("show", tmp_path / "records", "--count", 2) == 0
    assert capsys.readouterr().out.count("[CLS]") == 2
    assert run("show", tmp_path / "rec*" / "train*", "--count", 1) == 0
    assert capsys.readouterr().out.count("[CLS]") == 1
    page = tmp_path / "new/folder/page.html"
    assert run("show", tmp_path / "records", "--plot", page) == 0
    assert capsys.readouterr().out == f"{page}\n" and page.is_file()


def test_documents_of_one_sentence_are_noted(corpus, vocab, tmp_path, capsys):
    build = ["--vocab", vocab, "--max-length", 32, "--output"]
    assert run("build", *corpus, *build, tmp_path / "records") == 0
    assert "note:" not in capsys.readouterr().err
    (tmp_path / "single").write_text("ada sees cats.\n\nben sees dogs.\n\n" * 9)
    assert run("build", tmp_path / "single", *build, tmp_path / "singles") == 0
    assert "note: random next is not half of the labels of train" in capsys.readouterr().err


def test_cased_records_keep_capitals(tmp_path, capsys):
    (tmp_path / "a").write_text("Ada saw Ben.\n\nBen saw Ada.\n" * 20)
    run("vocab", tmp_path / "a", "--cased", "--output", tmp_path / "v.txt", "--size", 160)
    build = ["build", tmp_path / "a", "--cased", "--vocab", tmp_path / "v.txt"]
    assert run(*build, "--output", tmp_path / "records") == 0
    assert '"lowercase": false' in (tmp_path / "records/manifest.json").read_text()
    capsys.readouterr()
    run("show", tmp_path / "records", "--count", 1)
    assert "Ada" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["vocab", "build", "check", "show"])
def test_help_has_an_example(verb, capsys):
    with pytest.raises(SystemExit) as stop:
        run(verb, "--help")
    assert stop.value.code == 0
    assert f"example: bert-tfrecords {verb} " in " ".join(capsys.readouterr().out.split())


@pytest.fixture
def bad(tmp_path, corpus, vocab):
    """Name -> path of every bad input, beside the good ones."""
    contents = {
        "empty.txt": b"",
        "latin1.txt": b"fine\n\ncaf\xe9\n",
        "single.txt": b"ada sees cats\nben likes dogs\n",
        "no-mask.txt": b"[PAD]\n[UNK]\n[CLS]\n[SEP]\nada\n",
        "bad-vocab.txt": b"x" * 1000 + b" \n",
        "deep.jsonl": b'{"text": ' + b"[" * 20_000 + b"\n",
        "one.jsonl": b'{"text": "ada sees cats"}\n',
        "cut.tfrecord": b"\x10\0\0\0\0\0\0\0 some bytes of a record",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    (tmp_path / "link").mkdir()
    (tmp_path / "link/one.txt").symlink_to(tmp_path / "one.txt")
    return {path.name: path for path in tmp_path.iterdir()}


BUILD = "build one.txt --vocab vocab.txt --output new"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("vocab none.txt --output v", "none.txt does not exist; expected a file"),
        (
            "vocab full --output v",
            "the corpus contains no text (empty files: 1 (full/file))",
        ),
        ("vocab empty.txt --output v", "the corpus contains no text"),
        ("vocab latin1.txt --output v", "latin1.txt, line 3 is not UTF-8"),
        ("vocab deep.jsonl --output v", "deep.jsonl, line 1 is not a JSON object"),
        ("vocab one.txt --output one.txt/v", "is not a folder"),
        (f"vocab one.txt --output v --size {10**13}", f"size is {10**13}; expected at most"),
        ("build none.txt --vocab vocab.txt --output new", "none.txt does not exist"),
        ("build empty.txt --vocab vocab.txt --output new", "the corpus contains no text"),
        ("build latin1.txt --vocab vocab.txt --output new", "latin1.txt, line 3 is not UTF-8"),
        ("build single.txt --vocab vocab.txt --output new", "needs at least two documents"),
        ("build one.txt --vocab no-mask.txt --output new", "no-mask.txt: the vocabulary lacks"),
        ("build one.txt --vocab none.txt --output new", "none.txt does not exist"),
        ("build one.txt --vocab vocab.txt --output full", "full exists already"),
        ("build one.txt --vocab vocab.txt --output one.txt/new", "one.txt"),
        ("build one.txt --vocab vocab.txt --output new --shards 0", "shards is 0"),
        (
            f"{BUILD} --max-predictions 0 --mask-rate 0.2",
            "mask_rate=0.2 has no effect with max_pre",
        ),
        (f"{BUILD} --workers 987 --beam", "--workers 987 has no effect with --beam"),
        ("check cut.tfrecord --vocab vocab.txt --seed 3", "seed=3 has no effect on records"),
        (
            "check one.txt --max-length 64",
            "max_length=64 has no effect on a corpus without --vocab",
        ),
        ("show cut.tfrecord --stats --start 3", "--start 3 has no effect on histograms"),
        ("vocab one.txt --output vocab.txt", "vocab.txt exists already; choose another name"),
        ("vocab one.txt full ../{}/one.txt --output v", "one.txt twice (also as one.txt)"),
        (
            "vocab link one.txt --output v",
            "the corpus contains one.txt twice (also as link",
        ),
        (f"{BUILD} --shards 999999999", "shards is 999999999; expected at most 99999"),
        (f"{BUILD} --max-length {10**11}", "max_length is 100000000000; expected at most 65536"),
        (f"{BUILD} --max-predictions {10**11}", "max_predictions is 100000000000; expected at"),
        (f"{BUILD} --duplicates {10**11}", "duplicates is 100000000000; expected at most 10000"),
        (f"{BUILD} --sequences-per-record {10**11}", "per_record is 100000000000; expected at"),
        (f"{BUILD} --max-ngram {10**13}", "max_ngram is 10000000000000; expected at most 1000"),
        (f"check one.txt --max-length {10**12}", "max_length is 1000000000000; expected at most"),
        (
            "check none --vocab vocab.txt",
            "none does not exist; expected a file, a folder or a glob",
        ),
        ("check full", "the corpus contains no text (empty files: 1 (full/file))"),
        (
            "build one.txt --vocab vocab.txt --output gs://b/new",
            "gs://b/new is not on this machine",
        ),
        (
            "build one.txt --vocab vocab.txt --output new --sequences-per-record 0",
            "per_record is 0",
        ),
        ("build one.txt --vocab bad-vocab.txt --output new", "'xxxxxxxxxx"),
        ("build one.jsonl --vocab vocab.txt --output new --compat google", "one.jsonl is jsonl; "),
        ("build one.txt --vocab vocab.txt --output new --compat google --shards 999", "999 shards"),
        (
            "build one.txt --vocab vocab.txt --output new --compat google --held-out 0",
            "--held-out ",
        ),
        (
            "build one.jsonl --vocab vocab.txt --output new --errors skip --text-field b",
            "text (files without text: 1 (one.jsonl); records that cannot be read, dropped: 1 (",
        ),
        ("vocab one.txt --output full", "full is a folder; name a file to write"),
        ("show none", "none does not exist; expected a folder of records"),
        ("show cut.tfrecord --count -1", "count is -1; expected at least 1"),
        ("check cut.tfrecord one.txt", "the arguments name both records and text"),
        ("check cut.tfrecord", "cut.tfrecord is not a complete TFRecord file"),
        ("show empty.txt", "empty.txt contains no records"),
        ("show cut.tfrecord", "cut.tfrecord is not a complete TFRecord file"),
    ],
)
def test_bad_input_is_reported_in_one_line_and_writes_nothing(
    bad, tmp_path, monkeypatch, capsys, command, message
):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert run(*command.replace("{}", tmp_path.name).split()) == 2
    output = capsys.readouterr().err
    assert "0.00 B" not in output
    errors = [line for line in output.splitlines() if line.startswith("bert-tf")]
    assert len(errors) == 1
    assert message in errors[0]
    assert len(errors[0]) < 500
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "biuld",
        "show",
        "build --workers x",
        "check a --errors skip",
        "show a --no",
        "check a --sample -1",
        "vocab a --output v --sample nan",
        f"vocab a --output v --size {10**20}",
        f"show a --count {10**20}",
    ],
)
def test_wrong_options_are_reported_in_one_line(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        run(*arguments.split())
    assert stop.value.code == 2
    (message,) = capsys.readouterr().err.splitlines()
    assert message.startswith("bert-tfrecords")
    assert message.endswith(" --help")


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
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
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
    stages = ("count words", "learn tokens", "digest", "check", "note: ")
    assert [line for line in done.stderr.splitlines() if not line.startswith(stages)] == []


def test_full_disk_is_reported(corpus, vocab, tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    build = ["build", *corpus, "--vocab", vocab, "--output", tmp_path / "records"]
    with monkeypatch.context() as patch:
        patch.setattr("tfrecords_tools.records.writer.framed", full)
        assert run(*build) == 2
    message = capsys.readouterr().err
    assert (
        "-of-00001.tfrecord: No space left on device; free disk space and run this again" in message
    )
    assert not (tmp_path / "records").exists()
    assert run(*build) == 0
    assert (tmp_path / "records/manifest.json").is_file()
    assert not (tmp_path / "records.partial").exists()
