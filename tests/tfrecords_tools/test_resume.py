"""An interrupted build continues when it is repeated, or reports why it cannot."""

import json
import os
import random
import shutil
import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from bert_keras.errors import InputError
from tfrecords_tools import build as building
from tfrecords_tools.build import build
from tfrecords_tools.settings import BuildSettings, GoogleSettings

SETTINGS = BuildSettings(
    max_length=40, max_predictions=6, duplicates=2, shards=3, held_out_rate=0.3, seed=7
)
GOOGLE = GoogleSettings(max_length=40, max_predictions=6, duplicates=2, shards=3)

# For each number of its input a child process builds, and kills itself at this number of changes of
# files; the program prints its status.
PROGRAM = """
import json, os, signal, sys, traceback
import tfrecords_tools.build, tfrecords_tools.records.layout
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.settings import BuildSettings, GoogleSettings

tfrecords_tools.build.UNIT_BYTES = 1000
tfrecords_tools.records.layout.SENTENCES_PER_RANGE = 60

def die_at_a_change(event, arguments):
    global remaining
    is_written = event == "open" and isinstance(arguments[1], str) and "w" in arguments[1]
    is_change = is_written or event in ("os.rename", "os.remove")
    remaining -= is_change
    if is_change and remaining == 0:
        os.kill(os.getpid(), signal.SIGKILL)

kind = {"build": BuildSettings, "google": GoogleSettings}[sys.argv[1]]
for line in sys.stdin:
    remaining = int(line)
    if child := os.fork():
        print(os.waitpid(child, 0)[1], flush=True)
        continue
    sys.addaudithook(die_at_a_change)
    try:
        tfrecords_tools.build.build(
            sys.argv[5:],
            vocabulary=Vocabulary.from_file(sys.argv[4]),
            output=sys.argv[3],
            settings=kind(**json.loads(sys.argv[2])),
        )
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
"""


def stamp(path):
    return os.stat(path).st_ino, os.stat(path).st_mtime_ns


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def small_units(monkeypatch):
    monkeypatch.setattr("tfrecords_tools.build.UNIT_BYTES", 1000)
    monkeypatch.setattr("tfrecords_tools.records.layout.SENTENCES_PER_RANGE", 60)


@pytest.mark.parametrize(("kind", "settings"), [("build", SETTINGS), ("google", GOOGLE)])
def test_a_build_that_is_killed_repeatedly_writes_the_same_bytes(
    corpus, vocabulary, tmp_path, small_units, kind, settings
):
    build(corpus, vocabulary=vocabulary, output=tmp_path / "whole", settings=settings)
    vocabulary.save(tmp_path / "vocab.txt")
    command = [kind, json.dumps(asdict(settings)), tmp_path / "killed", tmp_path / "vocab.txt"]
    work, finished, num_kills = tmp_path / "killed.partial/work", {}, 0
    program = [sys.executable, "-c", PROGRAM, *map(str, command), *map(str, corpus)]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as builds:
        while not (tmp_path / "killed").exists():
            builds.stdin.write(f"{7 + num_kills}\n")
            status = int(builds.stdout.readline())
            num_kills += os.WIFSIGNALED(status)
            assert num_kills < 100 and (os.WIFSIGNALED(status) or status == 0)
            receipts = {path.with_suffix(""): path for path in work.glob("*.tfrecord.json")}
            for shard, stat in finished.items():
                assert not shard.exists() or stamp(shard) == stat, "a shard was written again"
            finished = {shard: stamp(shard) for shard in receipts if shard.exists()}
        builds.stdin.close()
    assert num_kills > 4
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


@pytest.fixture(params=["folder_files", "json_object"])
def stopped(corpus, vocabulary, tmp_path, monkeypatch, small_units, request):
    """Stops a build before it writes the manifest, or at its end; gives what goes on with it."""

    def going_on(*, files=corpus, vocabulary=vocabulary, settings=SETTINGS, output="records"):
        output = tmp_path / output
        return build(files, vocabulary=vocabulary, output=output, settings=settings)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(building, request.param, interrupted)
        going_on()
    return going_on


def test_other_settings_files_texts_or_vocabularies_are_refused(
    stopped, corpus, vocabulary, tmp_path
):
    other = type(vocabulary)((*vocabulary.tokens, "more"))
    before = sorted((tmp_path / "records.partial").rglob("*"))
    text = corpus[1].read_text()
    for changes, message in (
        ({"settings": replace(SETTINGS, seed=8)}, "seed is 8, but was 7"),
        ({"settings": GOOGLE}, "compat is google, but was None"),
        ({"vocabulary": other}, "vocabulary is "),
        ({"files": corpus[:1]}, "one.txt|two.txt"),
        ({"files": corpus[::-1]}, "the order of the files"),
    ):
        with pytest.raises(InputError, match=message):
            stopped(**changes)
    corpus[1].write_text(text.replace("ada", "ben"))
    with pytest.raises(InputError, match=r"two\.txt is .*repeat the command"):
        stopped()
    assert sorted((tmp_path / "records.partial").rglob("*")) == before
    corpus[1].write_text(text)  # at another time
    assert stopped(files=[f"{tmp_path}/*"])["splits"]["train"]["records"]


DAMAGE = {
    "cut": lambda path, data: path.write_bytes(data[: len(data) // 2]),
    "flipped": lambda path, data: path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]),
    "empty": lambda path, data: path.write_bytes(b""),
    "removed": lambda path, data: path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_of_an_interrupted_build_is_made_again_or_refused(stopped, tmp_path, damage):
    """The records of a build never depend on a damaged file; a wrong plan is refused."""
    partial, backup, draw = tmp_path / "records.partial", tmp_path / "backup", random.Random(1)
    shutil.copytree(partial, backup)
    stopped(output="other")
    expected = contents(tmp_path / "other")
    damaged = [path for path in sorted(backup.rglob("*")) if path.is_file()]
    assert len(damaged) > 6 and not any("pickle" in path.name for path in damaged)
    for path in draw.sample(damaged, 6) + list(backup.rglob("plan.json")):
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(backup, partial)
        if path.stat().st_size:
            DAMAGE[damage](partial / path.relative_to(backup), path.read_bytes())
        try:
            stopped()
        except InputError:
            assert path.name == "plan.json"
        else:
            assert contents(tmp_path / "records") == expected, path
            shutil.rmtree(tmp_path / "records")
