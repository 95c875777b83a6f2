"""What a message of `bert-tfrecords` tells the user to do succeeds."""

import gzip
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from functools import partial
from importlib.metadata import requires
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import tensorflow_datasets as tfds

from bert_keras.errors import InputError
from tests.tfrecords_tools.inspect.test_advice import CASED, UNCASED, fixed_width, good_text
from tests.tfrecords_tools.test_jobs import Write
from tfrecords_tools.cli import main
from tfrecords_tools.inputs.corpus_files import files
from tfrecords_tools.inspect.advice import warnings_of
from tfrecords_tools.inspect.survey import survey
from tfrecords_tools.jobs import Workers
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.vocab.train_vocab import train_vocabulary

VOCAB = "vocab one.txt --size 200 --output"
BUILD = "build one.txt --vocab vocab.txt --output new"
SINGLES = BUILD.replace("one", "singles")
RECORDS = f"{BUILD} --shards 1"
CHECK = f"{RECORDS} && check new"
AGAIN = f"rm -r new && {CHECK}"
SHARD = "new/train-00000-of-00001.tfrecord"
UNIGRAM = "vocab one.txt --model unigram --size 60 --output tokenizer.json"
RULES = f"{UNIGRAM} && {BUILD}".replace("vocab.txt", "tokenizer.json")
GOOGLE = f"{BUILD} --compat google"


def vocab(corpus, options=""):
    return f"vocab {corpus} --size 200 --output v.txt {options}"


@pytest.fixture(autouse=True)
def folder(corpus, vocabulary, tmp_path, monkeypatch):
    """The current folder, with good and bad inputs."""
    vocabulary.save(tmp_path / "vocab.txt")
    type(vocabulary)((*vocabulary.tokens, "more")).save(tmp_path / "other.txt")
    text = corpus[0].read_text()
    rows = pa.table({"text": [text], "body": [text]})
    parquet.write_table(rows, tmp_path / "rows.parquet")
    parquet.write_table(rows.drop("text"), tmp_path / "body.parquet")
    with pa.ipc.new_file(tmp_path / "rows.arrow", rows.schema) as file:
        file.write(rows)
    with zipfile.ZipFile(tmp_path / "one.zip", "w") as archive:
        archive.write(corpus[0], "unpacked/one.txt")
    with tarfile.open(tmp_path / "one.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
        archive.add(corpus[0], "unpacked/one.txt")
    for name, content in {
        "latin1.txt": b"fine\n\ncaf\xe9\n",
        "single.txt": b"ada sees cats\nben likes dogs\n",
        "singles.txt": b"ada sees cats\n\nben likes dogs\n",
        "letters.txt": b"a b c",
        "blank.txt": "\N{LOWER ONE EIGHTH BLOCK}".encode(),
        "deep.jsonl": b'{"text": ' + b"[" * 20_000 + b"\n",
        "body.jsonl": b'{"body": "ada sees cats and cats"}\n',
        "damaged.jsonl": b'{"text": "ada sees cats"}\n{"text": \n',
        "list.json": b'[{"text": "ada sees cats"}]',
        "cut.parquet": (tmp_path / "rows.parquet").read_bytes()[:-9],
        "wrong.parquet": text.encode(),
        "cut.gz": gzip.compress(text.encode())[:-30],
        "utf16.txt": text.encode("utf-16"),
        "utf16le.txt": text.encode("utf-16-le"),
        "utf32.txt": text.encode("utf-32"),
        "page.txt": f"<html><body>{text}</body></html>".encode(),
        "page.xml": f"<?xml version='1.0'?><text>{text}</text>".encode(),
        "one.7z": b"7z\xbc\xaf\x27\x1c",
        "page.rtf": rb"{\rtf1 ada sees cats}",
        "wrong.py": b"import no_such_module",
        "broken.py": b"def words(text) return text.split()",
        "right.py": b"def words(text): return text.split()",
    }.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "bare").mkdir()
    (tmp_path / "loop").mkdir()
    shutil.copy(corpus[0], tmp_path / "loop")
    (tmp_path / "loop/again").symlink_to(tmp_path / "loop")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def run(commands):
    """Runs commands that " && " joins, all others in a shell; returns the exit code of the last."""
    code = 0
    for command in commands.split(" && "):
        assert code == 0
        verb, *arguments = command.split()
        if verb not in ("vocab", "build", "check", "show"):
            if not shutil.which(verb.strip("(")):
                pytest.skip(f"needs the program {verb}")
            code = subprocess.run(command, shell=True).returncode
        else:
            own = (
                ["--workers", "1"] if verb in ("vocab", "build") and "--beam" not in command else []
            )
            code = main([verb, *own, *arguments])
    return code


CASES = [
    # the command line
    (f"{VOCAB} vocab.txt", "exists already; choose another name or", f"{VOCAB} v.txt"),
    (f"{VOCAB} vocab.txt", "or remove it first", f"rm vocab.txt && {VOCAB} vocab.txt"),
    (f"{VOCAB} v.json", "fit --model wordpiece; name it vocab.txt", f"{VOCAB} n/vocab.txt"),
    (vocab("one.txt").replace("200", "5"), "at least 107 tokens", vocab("one.txt", "--size 107")),
    (f"{RECORDS} && check one.txt new", "both records and text; check one kind at a", "check new"),
    (f"{RECORDS} && check one.txt new", "check one kind at a time", "check one.txt"),
    (f"{BUILD} --segmenter right:words", "; set mask_unit to 'word' and max_predictions to at",
     f"{BUILD} --segmenter right:words --mask-unit word"),
    (f"{BUILD} --segmenter a:b", "or leave out segmenter", BUILD),
    (f"{BUILD} --max-length 4", "at least 5", f"{BUILD} --max-length 5"),
    (f"{BUILD} --splitter xx", "expected lines, module", f"{BUILD} --splitter lines"),
    (f"{BUILD} --splitter xx", "module:function or", f"{BUILD} --splitter right:words"),
    (f"{GOOGLE} --errors skip", "the original has no such option; leave out one of them", GOOGLE),
    (f"{GOOGLE} --errors skip", "leave out one of them", f"{BUILD} --errors skip"),
    (f"{RULES} --cased", "lower-cases texts; leave out --cased, or", RULES.split(" && ")[1]),
    (f"{RULES} --cased",
     "or learn a cased vocabulary: bert-tfrecords vocab --model unigram --cased",
     f"rm tokenizer.json && {RULES.replace(' unigram', ' unigram --cased')} --cased"),
    (f"{RULES} --compat google", "google expects WordPiece: give a vocab.txt", GOOGLE),
    (f"{GOOGLE} --beam", "omit --beam or --compat google", BUILD),
    (f"{GOOGLE} --beam", "omit --beam or --compat google", GOOGLE),
    (BUILD.replace("new", "gs://b/new"), "is not on this machine; write to a local folder and copy",
     BUILD),
    # files of a corpus
    ("mkfifo pipe && " + vocab("pipe"), "cannot be read twice; copy it to a file first",
     "(cat one.txt > pipe &) && cp pipe copy.txt && " + vocab("copy.txt")),
    (vocab("one.txt one.txt"), "(also as one.txt); name each file once", vocab("one.txt")),
    (vocab("bare"), "expected text files in it", "cp one.txt bare && " + vocab("bare")),
    (vocab("loop"), "loop also contains; remove one of them", "rm loop/again && " + vocab("loop")),
    # formats
    (vocab("latin1.txt"), "column 4); convert the file to UTF-8; bert-tfrecords",
     "iconv -f LATIN1 -t UTF-8 latin1.txt > utf8.txt && " + vocab("utf8.txt")),
    (vocab("latin1.txt"), "drops such lines with --errors skip and",
     vocab("latin1.txt", "--errors skip")),
    (vocab("latin1.txt"), "keeps them with --errors replace",
     vocab("latin1.txt", "--errors replace")),
    (GOOGLE.replace("one.txt", "latin1.txt"), "column 4); convert the file to UTF-8 first",
     "iconv -f LATIN1 -t UTF-8 latin1.txt > utf8.txt && " + GOOGLE.replace("one.txt", "utf8.txt")),
    (GOOGLE.replace("one.txt", "damaged.jsonl"), "convert it to text with one sentence per line",
     "sed -i '$d' damaged.jsonl && jq -r .text damaged.jsonl > text.txt && "
     + GOOGLE.replace("one.txt", "text.txt one.txt")),
    (vocab("damaged.jsonl"), "line 2 is not a JSON object .*; correct it; bert-tfrecords drops",
     "sed -i '$d' damaged.jsonl && " + vocab("damaged.jsonl")),
    (vocab("damaged.jsonl"), "drops such records with --errors skip",
     vocab("damaged.jsonl", "--errors skip")),
    (vocab("body.jsonl"), "(fields: body; see --text-field)",
     vocab("body.jsonl", "--text-field body")),
    (vocab("body.parquet"), "only body; name the column of the text with --text-field",
     vocab("body.parquet", "--text-field body")),
    (vocab("wrong.parquet"), "not a parquet file despite its name; download it again",
     "cp rows.parquet wrong.parquet && " + vocab("wrong.parquet")),
    (vocab("cut.parquet"), "not found in footer.*; download it again",
     "cp rows.parquet cut.parquet && " + vocab("cut.parquet")),
    (vocab("cut.gz"), "damaged or truncated .*; download or compress it again",
     "gzip < one.txt > cut.gz && " + vocab("cut.gz")),
    (vocab("list.json"), "expected an object on each line (jq -c '.[]' FILE > NEW)",
     "jq -c '.[]' list.json > new.jsonl && " + vocab("new.jsonl")),
    (vocab("utf16.txt"), "convert it first (iconv -f UTF-16 -t UTF-8 FILE > NEW)",
     "iconv -f UTF-16 -t UTF-8 utf16.txt > new.txt && " + vocab("new.txt")),
    (vocab("utf16le.txt"), "or not text; .* (iconv -f UTF-16 -t UTF-8 FILE > NEW)",
     "iconv -f UTF-16 -t UTF-8 utf16le.txt > new.txt && " + vocab("new.txt")),
    (vocab("utf32.txt"), "convert it first (iconv -f UTF-32 -t UTF-8 FILE > NEW)",
     "iconv -f UTF-32 -t UTF-8 utf32.txt > new.txt && " + vocab("new.txt")),
    (vocab("one.zip"), "unpack it, or save",
     "python3 -m zipfile -e one.zip . && " + vocab("unpacked")),
    (vocab("one.tar"), "unpack it and name the folder", "tar xf one.tar && " + vocab("unpacked")),
    (vocab("rows.arrow"), "save it as parquet", vocab("rows.parquet")),
    (vocab("page.txt"), "extract its text first",
     "sed -i 's/<[^>]*>//g' page.txt && " + vocab("page.txt")),
    (vocab("page.xml"), "is XML; expected UTF-8 text: extract its text first",
     "sed -i 's/<[^>]*>//g' page.xml && " + vocab("page.xml")),
    (vocab("page.rtf"), "RTF; expected UTF-8 text: save it as text", vocab("one.txt")),
    (vocab("one.7z"), "7z or LZ4; expected UTF-8 text: use gz, bz2, xz or zst",
     "gzip one.txt && bzip2 two.txt && xz vocab.txt && "
     + vocab("one.txt.gz two.txt.bz2 vocab.txt.xz")),
    # what the corpus gives
    (vocab("letters.txt", "--model bpe").replace("v.txt", "v.json").replace("200", "300"),
     "occurs twice in the corpus; give more text",
     vocab("letters.txt one.txt", "--model bpe").replace("v.txt", "v.json").replace("200", "300")),
    (UNIGRAM.replace("60", "20"), "20 tokens from the corpus .*; give a larger size, or", UNIGRAM),
    (UNIGRAM.replace("one.txt", "blank.txt"), "; give a larger size, or more text if", UNIGRAM),
    (f"{BUILD} --shards 999", "(train) for 999 shards; add text or request fewer",
     f"{BUILD} --shards 2"),
    (f"{BUILD} --shards 50", "(train) for 50 shards; add text or request",
     "seq 8 | xargs -I{} cp two.txt more{}.txt && "
     + BUILD.replace("one.txt", "one.txt more*.txt") + " --shards 50"),
    (BUILD.replace("one", "single"), "comes from another document; put blank lines between",
     f"sed -i G single.txt && {BUILD.replace('one', 'single')}"),
    (BUILD.replace("one", "single"), "between documents or add files",
     BUILD.replace("one", "single.txt one")),
    (f"{SINGLES} --objective sop", "needs two; remove blank lines within documents or",
     f"sed -i '/^$/d' singles.txt && {SINGLES} --objective sop"),
    (f"{SINGLES} --objective sop", "or use another objective", SINGLES),
    (f"{BUILD} --held-out 0.5", "each split needs two; put blank lines between documents or",
     f"sed -i G one.txt && {BUILD} --held-out 0.5"),
    (f"{BUILD} --held-out 0.5", "between documents or add files",
     f"{BUILD} --held-out 0.5".replace("one.txt", "one.txt two.txt")),
    (f"{GOOGLE} --shards 999", "shards: give more text, or fewer --shards", f"{GOOGLE} --shards 2"),
    # functions of the user
    (f"{BUILD} --splitter missing:words", "No module named 'missing'); install it, or",
     f"cp right.py missing.py && {BUILD} --splitter missing:words"),
    (f"{BUILD} --splitter wrong:words", "or put its folder on PYTHONPATH",
     f"cp right.py no_such_module.py && {BUILD} --splitter right:words"),
    (f"{BUILD} --splitter broken:words", "line 1)); correct it",
     f"cp right.py broken.py && {BUILD} --splitter broken:words"),
    # records
    (f"{RECORDS} && mkdir a && mv {SHARD} a && check a", "tokenizer.json; name the vocabulary of",
     "check a --vocab vocab.txt"),
    (f"{RECORDS} && check new --vocab other.txt", "; give the vocabulary that the records were",
     "check new --vocab vocab.txt"),
    (f"{RECORDS} && cp {SHARD} {SHARD}.tfrecord && check new",
     "not among the shards in manifest.json; remove it", f"rm {SHARD}.tfrecord && check new"),
    (f"{RECORDS} && cp {SHARD} a.tfrecord && check {SHARD} a.tfrecord --vocab vocab.txt",
     "contains the same records as .*; remove one of them", f"check {SHARD} --vocab vocab.txt"),
    (f"{RECORDS} && cp {SHARD} new/b.tfrecord && rm {SHARD} && check new",
     "00001.tfrecord is missing; write the records again", AGAIN),
    (f"{RECORDS} && truncate -s 99 {SHARD} && check new",
     "truncated or replaced: .*; write the records again", AGAIN),
    (f"{RECORDS} && sed -i s/'\"sha256\": \"'/'&0'/ new/manifest.json && check new",
     "is not the one in manifest.json; write the records again", AGAIN),
    (f"{RECORDS} && sed -i s/'\"records\": '/'\"records\": 1'/ new/manifest.json && check new",
     "but manifest.json states 1.*; write the records again", AGAIN),
    (f"{RECORDS} && sed -i s/'\"max_predictions\": 20'/'\"max_predictions\": 9'/ new/manifest.json"
     " && check new", "9 predictions, with next sentence labels; write the records again", AGAIN),
    (f"{RECORDS} && sed -i s/'\"format\": 2'/'\"format\": 1'/ new/manifest.json && check new",
     "another version of bert-tfrecords wrote it; write the records again", AGAIN),
    (f"{RECORDS} && mv new new.partial && {BUILD} --seed 8", "; use those that it was started",
     RECORDS),
    (f"{RECORDS} && mv new new.partial && {BUILD} --seed 8", ", or remove it to start again",
     f"rm -r new.partial && {BUILD} --seed 8"),
    (f"mkdir new.partial && touch new.partial/a && {BUILD}", "which no build wrote; remove it, or",
     f"rm new.partial/a && {BUILD}"),
    (f"mkdir new.partial && touch new.partial/a && {BUILD}", ", or choose another output",
     BUILD.replace("new", "other")),
    (f"{RECORDS} && sed -i s/splits/parts/ new/manifest.json && check new",
     "not a manifest of bert-tfrecords build; write the records again", AGAIN),
]  # fmt: skip


@pytest.mark.parametrize(("command", "remedy", "corrected"), CASES)
def test_the_remedy_of_an_error_succeeds(capsys, command, remedy, corrected):
    assert run(command) == 2
    pattern = ".*".join(map(re.escape, remedy.split(".*")))
    assert re.search(pattern, capsys.readouterr().err)
    assert run(corrected) == 0


def stop():
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("change", "remedy", "corrected"),
    [
        ("", "; repeat the command that began new.partial, or", BUILD),
        ("", ", or remove that folder to start again", f"rm -r new.partial && {BUILD} --seed 8"),
        ("cp two.txt one.txt && ", "; repeat the command that", f"cp loop/one.txt . && {BUILD}"),
        (
            "cp other.txt vocab.txt && ",
            ", or remove that folder to",
            f"rm -r new.partial && {BUILD}",
        ),
    ],
)
def test_an_interrupted_build_is_continued(capsys, monkeypatch, change, remedy, corrected):
    with monkeypatch.context() as patch:
        patch.setattr("tfrecords_tools.records.writer.framed", lambda *_: stop())
        assert run(BUILD) == 130
    assert run(f"{change}{BUILD}" + " --seed 8" * (not change)) == 2
    assert remedy in capsys.readouterr().err
    assert run(corrected) == 0


@pytest.mark.parametrize(
    ("after", "remedy"),
    [
        (
            False,
            "shorter while it was read; do not change the corpus until the records are written",
        ),
        (True, "changed while it was read; run again, after removing new.partial if it exists"),
    ],
)
def test_a_corpus_that_no_longer_changes_is_read(folder, capsys, monkeypatch, after, remedy):
    def run_jobs(workers, jobs, *, stage, unit):
        if stage != "tokenize":
            return run_all(workers, jobs, stage=stage, unit=unit)
        if not after:
            os.truncate(folder / "one.txt", 99)
        run_all(workers, jobs, stage=stage, unit=unit)
        os.truncate(folder / "one.txt", 99)

    run_all = Workers.run
    with monkeypatch.context() as patch:
        patch.setattr(Workers, "run", run_jobs)
        assert run(BUILD) == 2
    assert remedy in capsys.readouterr().err
    assert run(BUILD.replace("one.txt", "one.txt two.txt")) == 0


def test_a_command_whose_worker_was_killed_is_repeated(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    for trouble in ("killed", ""):
        with Workers(2) as workers:
            run = partial(workers.run, [Write(tmp_path / "a", trouble=trouble)], unit="file")
            if trouble:
                with pytest.raises(ChildProcessError, match="; run the same command again, which"):
                    run(stage="write")
            else:
                run(stage="write")


def test_a_corpus_needs_files():
    with pytest.raises(InputError, match="is empty; name files, folders or globs"):
        files([])
    assert files(["one.txt"]) and files(["loop/one.txt"]) and files(["*.txt"])


def test_details_of_labels_and_tokens_are_reported(folder, capsys):
    (folder / "sentences.txt").write_text("ada sees cats.\n\nben sees dogs.\n\n" * 9)
    assert run(BUILD.replace("one.txt", "sentences.txt")) == 0
    assert "; run bert-tfrecords check CORPUS for details" in capsys.readouterr().err
    assert run("check sentences.txt") == 0
    output = capsys.readouterr().out
    assert "sentences in a document" in output
    assert "Name a vocabulary with --vocab to estimate [UNK], padding and labels" in output
    assert run("check sentences.txt --vocab vocab.txt") == 0
    output = capsys.readouterr().out
    assert "[UNK] of the tokens" in output and "padding" in output and "label 1" in output


def test_the_first_error_of_a_corpus_without_text_is_reported(capsys):
    command = BUILD.replace("one.txt", "damaged.jsonl --text-field body")
    assert run(f"{command} --errors skip") == 2
    assert "; bert-tfrecords build --errors fail reports the first error" in capsys.readouterr().err
    assert run(f"{command} --errors fail") == 2
    assert "damaged.jsonl, line 1 has no field" in capsys.readouterr().err


GOOD, SHORT = good_text(), good_text(200, 1)
WARNINGS = [
    ("remove the blank lines within documents", {"text": GOOD.replace(".", ".\n\n")},
     {"text": GOOD}),
    ("; put a blank line between documents, or", {"text": GOOD.replace("\n\n", "\n")},
     {"text": GOOD}),
    ("or each document in a separate file", {"text": GOOD.replace("\n\n", "\n")}, {"files": GOOD}),
    ("Is a blank line missing between", {"text": GOOD.replace("\n\n", "\n", 27)}, {"text": GOOD}),
    ("join the lines of each paragraph first", {"text": fixed_width(GOOD)}, {"text": GOOD}),
    ("learn it as words; remove it first, for", {"text": GOOD.replace("cats", "<i>cats</i>")},
     {"text": GOOD}),
    ("Convert the source to UTF-8 again", {"text": GOOD.replace("cats", "catsâ€™")},
     {"text": GOOD}),
    ("would memorize them; keep one copy of each", {"text": f"{GOOD}\n{GOOD}"}, {"text": GOOD}),
    ("This is an uncased vocabulary: leave out --cased", {"text": GOOD, "lowercase": False},
     {"text": GOOD}),
    ("This is a cased vocabulary: add --cased", {"text": GOOD, "vocabulary": CASED},
     {"text": GOOD, "vocabulary": CASED, "lowercase": False}),
    ("bert-tfrecords vocab learns one from your text", {"text": GOOD.replace("cats", "zyx")},
     {"text": GOOD.replace("cats", "zyx"), "vocabulary": None}),
    ("Does the text have full stops, and", {"text": GOOD.replace(".", ""), "max_length": 32},
     {"text": GOOD, "max_length": 32}),
    ("Use a smaller --max-length, --ob", {"text": SHORT, "max_length": 512},
     {"text": SHORT, "max_length": 32}),
    ("--objective full-sentences, or a", {"text": SHORT, "max_length": 512},
     {"text": SHORT, "max_length": 512, "objective": "full-sentences"}),
    ("or a larger --sequences-per-record", {"text": SHORT, "max_length": 512},
     {"text": SHORT, "max_length": 512, "sequences_per_record": 16}),
]  # fmt: skip


@pytest.mark.parametrize(("remedy", "wrong", "right"), WARNINGS)
def test_the_remedy_of_a_warning_succeeds(tmp_path, remedy, wrong, right):
    def warnings(text="", files="", vocabulary=UNCASED, **settings):
        shutil.rmtree(tmp_path / "corpus", ignore_errors=True)
        (tmp_path / "corpus").mkdir()
        for number, document in enumerate(files.split("\n\n") if files else [text]):
            (tmp_path / "corpus" / f"{number}.txt").write_text(document, "utf-8")
        corpus, settings = [tmp_path / "corpus"], BuildSettings(**{"max_length": 64, **settings})
        vocabulary = vocabulary or train_vocabulary(corpus, size=200)
        return list(warnings_of(survey(corpus, vocabulary=vocabulary, settings=settings)))

    assert any(remedy in warning for warning in warnings(**wrong))
    assert warnings(**right) == []


class Remedies(tfds.core.GeneratorBasedBuilder):
    """A data set with the splits train and test."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = {"text": tfds.features.Text(), "body": tfds.features.Text()}
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, manager):
        return {split: self._generate_examples() for split in ("train", "test")}

    def _generate_examples(self):
        yield 1, {"text": "ada sees", "body": "ben"}


def test_a_data_set_of_tfds_is_prepared_and_named(folder, capsys, monkeypatch):
    def refusal(command):
        assert run(command) == 2
        return capsys.readouterr().err

    monkeypatch.setenv("TFDS_DATA_DIR", str(folder / "data"))
    command = vocab("tfds:remedies")
    instruction = '; run python -c "import tensorflow_datasets as tfds; (tfds.*)", or'
    (program,) = re.findall(instruction, refusal(command))
    monkeypatch.setattr("tensorflow_datasets.core.constants.DATA_DIR", folder / "data")
    exec(program)  # a new process reads DATA_DIR from TFDS_DATA_DIR
    assert "; name one: tfds:remedies?split=SPLIT" in refusal(command)
    command = command.replace("remedies", "remedies?split=train")
    field = refusal(f"{command} --text-field no")
    assert "only body, text; name the feature of the text with --text-field" in field
    assert run(f"{command} --text-field body") == 0
    monkeypatch.setenv("TFDS_DATA_DIR", str(folder / "none"))
    command = command.replace("v.txt", "w.txt")
    assert ", or set TFDS_DATA_DIR to the folder that contains it" in refusal(command)
    monkeypatch.setenv("TFDS_DATA_DIR", str(folder / "data"))
    assert run(command) == 0


BEAM = f"{BUILD} --beam --runner=FnApiRunner"


def test_the_extra_of_beam_installs_apache_beam(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    assert run(BEAM) == 2
    assert 'expected the extra beam: pip install "bert-keras[beam]"' in capsys.readouterr().err
    lines = requires("bert-keras") or ()
    assert any(line.startswith("apache-beam") and "beam" in line.split(";")[1] for line in lines)


@pytest.mark.extra
@pytest.mark.parametrize(
    ("command", "remedy", "corrected"),
    [
        (BUILD.replace("new", "memory://remedies/new"), ", or add --beam",
         BEAM.replace("new", "memory://remedies/new")),
        (f"{RECORDS} && {BEAM}", "new exists already; choose another name or remove",
         BEAM.replace("new", "other")),
        (f"{RECORDS} && {BEAM}", "or remove it first", f"rm -r new && {BEAM}"),
        (f"mkdir new.beam-partial && touch new.beam-partial/running && {BEAM}",
         "was stopped; wait for it, or remove the folder and run again",
         f"rm -r new.beam-partial && {BEAM}"),
    ],
)  # fmt: skip
def test_the_remedy_of_an_error_of_beam_succeeds(capsys, command, remedy, corrected):
    pytest.importorskip("apache_beam", reason="needs the extra beam")
    test_the_remedy_of_an_error_succeeds(capsys, command, remedy, corrected)


@pytest.mark.extra
def test_a_beam_job_whose_corpus_no_longer_changes_is_run_again(folder, capsys, monkeypatch):
    pytest.importorskip("apache_beam", reason="needs the extra beam")

    def longer_then_digest(path):
        Path(path).write_text(good_text())
        return {"path": path}

    with monkeypatch.context() as patch:
        patch.setattr("tfrecords_tools.beam.pipeline.digest", longer_then_digest)
        assert run(BEAM) == 2
    assert "one.txt changed while it was read; run again" in capsys.readouterr().err
    assert run(BEAM) == 0


@pytest.mark.extra
def test_a_beam_job_writes_to_an_output_that_is_shared(capsys, monkeypatch):
    pytest.importorskip("apache_beam", reason="needs the extra beam")
    with monkeypatch.context() as patch:  # as if the workers wrote to a disk of their own
        patch.setattr("tfrecords_tools.beam.shared_folder.publish", lambda *_: None)
        assert run(BEAM) == 2
    remedy = (
        "; read the log of its runner, and give an output that all workers and this machine can"
    )
    assert remedy in capsys.readouterr().err
    assert run(BEAM.replace("new", "shared")) == 0


def test_korean_syllables_are_learnt_from_cased_text(tmp_path, capsys):
    (tmp_path / "ko.txt").write_text("우리 학교 우리 학교\n", "utf-8")
    for options, is_jamo in (("", True), ("--cased", False)):
        assert main(vocab("ko.txt", options).split()) == 0
        assert ("; add --cased to learn syllables" in capsys.readouterr().err) == is_jamo
        assert ("우리" in (tmp_path / "v.txt").read_text("utf-8").split()) != is_jamo
        (tmp_path / "v.txt").unlink()
