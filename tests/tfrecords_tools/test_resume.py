"""An interrupted build continues when it is repeated, or reports why it cannot."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from bert_keras.errors import InputError
from tfrecords_tools.build import build
from tfrecords_tools.settings import BuildSettings, GoogleSettings

SETTINGS = BuildSettings(
    max_length=40, max_predictions=6, duplicates=2, shards=3, held_out_rate=0.3, seed=7
)

# For each line of input a child process builds, and kills itself before the given number of files
# get their names; the program prints its status.
PROGRAM = """
import json, os, signal, sys, traceback
import tfrecords_tools.build, tfrecords_tools.records.splits
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.settings import GoogleSettings
from tfrecords_tools.settings import BuildSettings

tfrecords_tools.build.UNIT_BYTES = 1000
tfrecords_tools.records.splits.SENTENCES_PER_RANGE = 60
rename, remaining = os.replace, int(sys.argv[1])

def rename_or_die(*paths):
    global remaining
    remaining -= 1
    if remaining == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    rename(*paths)

os.replace = rename_or_die
kind = {"build": BuildSettings, "google": GoogleSettings}[sys.argv[2]]
for line in sys.stdin:
    if child := os.fork():
        print(os.waitpid(child, 0)[1], flush=True)
        continue
    try:
        tfrecords_tools.build.build(
            sys.argv[5:],
            vocabulary=Vocabulary.from_file(sys.argv[4]),
            output=sys.argv[3],
            settings=kind(**json.loads(line)),
        )
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
"""


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("build", SETTINGS),
        ("google", GoogleSettings(max_length=40, max_predictions=6, duplicates=2, shards=3)),
    ],
)
def test_a_build_that_is_killed_repeatedly_writes_the_same_bytes(
    corpus, vocabulary, tmp_path, monkeypatch, kind, settings
):
    monkeypatch.setattr("tfrecords_tools.build.UNIT_BYTES", 1000)
    monkeypatch.setattr("tfrecords_tools.records.splits.SENTENCES_PER_RANGE", 60)
    build(corpus, vocabulary=vocabulary, output=tmp_path / "whole", settings=settings)
    vocabulary.save(tmp_path / "vocab.txt")
    command = [kind, tmp_path / "killed", tmp_path / "vocab.txt", *corpus]
    partial, finished, num_kills = tmp_path / "killed.partial", {}, 0
    # Vocabulary and plan are written each time, then two more: a shard and its counts.
    program = [sys.executable, "-c", PROGRAM, "5", *map(str, command)]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as builds:
        while num_kills < 100:
            builds.stdin.write(json.dumps(settings.__dict__) + "\n")
            status = int(builds.stdout.readline())
            if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
                break
            num_kills += 1
            assert not (tmp_path / "killed").exists()
            shards = {path: os.stat(path) for path in partial.glob("*.tfrecord")}
            for path, stat in finished.items():
                assert shards[path] == stat, "a finished shard was written again"
            finished = shards
        builds.stdin.close()
    assert status == 0
    assert num_kills >= 4
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    assert not partial.exists()


@pytest.fixture
def stopped(corpus, vocabulary, tmp_path, monkeypatch):
    """Stops a build before its shards are written; gives what goes on with it."""

    def going_on(*, files=corpus, vocabulary=vocabulary, kind=None, **changes):
        settings = kind(**changes) if kind else replace(SETTINGS, **changes)
        return build(files, vocabulary=vocabulary, output=tmp_path / "records", settings=settings)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("tfrecords_tools.records.writer.framed", interrupted)
        going_on()
    assert (tmp_path / "records.partial").is_dir()
    return going_on


def test_a_changed_input_is_refused_and_no_file_is_removed(stopped, corpus, tmp_path):
    text = corpus[1].read_text()
    corpus[1].write_text(text.replace("ada", "ben"))
    before = sorted((tmp_path / "records.partial").rglob("*"))
    with pytest.raises(
        InputError,
        match=r"two\.txt was changed, added or removed after the interruption; repeat the",
    ):
        stopped()
    assert sorted((tmp_path / "records.partial").rglob("*")) == before
    corpus[1].write_text(text)
    stopped()


def test_an_input_rewritten_with_the_same_text_is_accepted(stopped, corpus):
    corpus[0].write_bytes(corpus[0].read_bytes())
    assert stopped()["splits"]["train"]["records"]


def test_other_settings_files_or_vocabularies_are_refused(stopped, corpus, vocabulary):
    with pytest.raises(
        InputError, match=r"seed is 8, but was 7 before the interruption; repeat the"
    ):
        stopped(seed=8)
    with pytest.raises(
        InputError, match=r"two\.txt was changed, added or removed after the interruption"
    ):
        stopped(files=corpus[:1])
    with pytest.raises(
        InputError, match="the order of the files was changed after the interruption"
    ):
        stopped(files=corpus[::-1])
    other = type(vocabulary)((*vocabulary.tokens, "more"))
    with pytest.raises(InputError, match="the vocabulary was changed after the interruption"):
        stopped(vocabulary=other)
    with pytest.raises(InputError, match="compat is google, but was None before the interruption"):
        stopped(kind=GoogleSettings)
    stopped()


def test_finished_records_of_other_settings_are_refused(corpus, vocabulary, tmp_path):
    output = tmp_path / "records"
    build(corpus, vocabulary=vocabulary, output=output, settings=SETTINGS)
    expected = contents(output)
    output.rename(tmp_path / "records.partial")
    other = replace(SETTINGS, seed=8)
    with pytest.raises(InputError, match="partial contains finished records of other"):
        build(corpus, vocabulary=vocabulary, output=output, settings=other)
    build(corpus, vocabulary=vocabulary, output=output, settings=SETTINGS)
    assert contents(output) == expected


def test_a_folder_of_other_files_is_not_changed(corpus, vocabulary, tmp_path):
    partial = tmp_path / "records.partial"
    partial.mkdir()
    (partial / "vocab.txt").write_text("mine")
    (partial / "train-00000-of-00003.tfrecord").touch()
    with pytest.raises(InputError, match=r"partial contains train-00000.*, which no build wrote"):
        build(corpus, vocabulary=vocabulary, output=tmp_path / "records", settings=SETTINGS)
    assert (partial / "vocab.txt").read_text() == "mine"


def test_an_input_that_changes_while_it_is_read_is_refused(
    corpus, vocabulary, tmp_path, monkeypatch
):
    from tfrecords_tools import build as module

    def run_and_change(jobs, **options):
        run(jobs, **options)
        if options["stage"] == "tokenize":
            corpus[0].write_text("ada\n")

    run = module.Workers(1).run
    monkeypatch.setattr(module.Workers, "run", lambda _, jobs, **kw: run_and_change(jobs, **kw))
    with pytest.raises(InputError, match=r"one\.txt changed while it was read; run again, after"):
        build(corpus, vocabulary=vocabulary, output=tmp_path / "records", settings=SETTINGS)
