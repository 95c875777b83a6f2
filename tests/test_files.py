import os
import subprocess
import sys
from pathlib import Path

import pytest

from bert_keras import files
from bert_keras.errors import InputError


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_text_lines_drop_line_ends_and_the_byte_order_mark(tmp_path):
    (tmp_path / "a").write_bytes("\ufeffeins\r\nzwei\n\ndrei \ufeff".encode())
    assert list(files.text_lines(tmp_path / "a")) == ["eins", "zwei", "", "drei \ufeff"]
    (tmp_path / "a").write_bytes(b"eins\rzwei\r\rdrei\r")  # as on old Macs
    assert list(files.text_lines(tmp_path / "a")) == ["eins", "zwei", "", "drei"]
    (tmp_path / "b").write_bytes(b"good\nb\xe4d\n")
    with pytest.raises(InputError):
        list(files.text_lines(tmp_path / "b"))
    with pytest.raises(InputError):
        files.existing_file(tmp_path / "nothing")


def test_a_file_is_written_completely_or_not_at_all(tmp_path):
    target = tmp_path / "deep" / "file"
    with files.atomic_file(target) as partial:
        partial.write_text("new")
        assert not target.exists()
    with pytest.raises(RuntimeError), files.atomic_file(target) as partial:
        partial.write_text("half")
        raise RuntimeError
    assert target.read_text() == "new" and names(target.parent) == ["file"]


def test_a_file_behind_a_link_is_replaced_and_the_standard_output_written(tmp_path, capfdbinary):
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("file")
    files.write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_text() == "new"
    for path in ("-", "/dev/stdout"):
        files.write_text(path, "written")
        assert files.messages_beside(path) is sys.stderr
    assert files.messages_beside("file") is files.messages_beside(None) is sys.stdout
    assert capfdbinary.readouterr().out == b"writtenwritten"
    assert names(tmp_path) == ["file", "link"] and not Path("-").exists()


def test_devices_are_never_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path / "pipe", tmp_path / "link", tmp_path / "loop", "/dev/null"):
        with pytest.raises(InputError):
            files.write_text(path, "text")
    assert (tmp_path / "pipe").is_fifo() and not Path("/dev/null").is_file()


@pytest.mark.parametrize("write", [files.atomic_file, files.atomic_folder, files.resumed_folder])
def test_impossible_paths_are_refused_before_anything_is_written(tmp_path, monkeypatch, write):
    (tmp_path / "folder").mkdir()
    for name in ("file", "folder/mine"):
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("file/new")
    for path in ("file/new", "file/deep/new", "folder", "new/..", "link"):
        with pytest.raises(InputError), write(tmp_path / path):
            pytest.fail("the path is not refused")
    monkeypatch.setattr("os.access", lambda path, mode: False)  # as for anyone but root
    with pytest.raises(InputError), write(tmp_path / "new"):
        pytest.fail("the path is not refused")
    assert names(tmp_path) == ["file", "folder", "link"] and names(tmp_path / "folder") == ["mine"]


@pytest.mark.parametrize("write", [files.atomic_folder, files.resumed_folder])
def test_a_mount_point_and_the_working_directory_are_refused(tmp_path, monkeypatch, write):
    (tmp_path / "volume").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr("os.path.ismount", lambda path: path == tmp_path / "volume")
    for name in ("volume", "here"):
        with pytest.raises(InputError), write(tmp_path / name):
            pytest.fail("the path is not refused")
    assert not names(tmp_path / "volume") and names(tmp_path) == ["here", "volume"]


def write_folder(path, text, **options):
    with files.atomic_folder(path, **options) as new:
        (new / "file").write_text(text)
    return (path / "file").read_text()


OURS = {"replaces": ("file", "README.md")}


def test_a_folder_is_written_completely_or_not_at_all(tmp_path):
    for expected in ([], ["out"]):
        with pytest.raises(RuntimeError), files.atomic_folder(tmp_path / "out", **OURS) as new:
            (new / "file").write_text("half")
            raise RuntimeError
        assert names(tmp_path) == expected
        assert write_folder(tmp_path / "out", "whole", **OURS) == "whole"
    assert names(tmp_path) == ["out"] and names(tmp_path / "out") == ["file"]


def test_a_folder_with_files_of_others_is_never_replaced(tmp_path):
    out = tmp_path / "out"
    write_folder(out, "old")
    with pytest.raises(InputError):
        write_folder(out, "new")
    (out / ".git").mkdir()
    with pytest.raises(InputError):
        write_folder(out, "new", **OURS)
    (out / ".git").rmdir()
    (out / "file").rename(out / "README.md")  # without the first name, the folder is not ours
    with pytest.raises(InputError):
        write_folder(out, "new", **OURS)
    assert (out / "README.md").read_text() == "old" and names(tmp_path) == ["out"]
    for name, write in {".a.part": files.atomic_folder, "a.partial": files.resumed_folder}.items():
        (tmp_path / name / "old").mkdir(parents=True)  # a folder of the user
        with pytest.raises(InputError), write(tmp_path / "a"):
            pytest.fail("the folder is not refused")
    assert names(tmp_path) == [".a.part", "a.partial", "out"]


KILLED = """
import itertools, os, sys
from pathlib import Path
from bert_keras.files import atomic_folder

def write(text):
    with atomic_folder(out, replaces=["file"]) as folder:
        (folder / "file").write_text(text)

def written():
    return (out / "file").read_text() if out.exists() else ""

def kill(event, arguments):  # before the change of a file
    if event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir") and next(changes, None) is None:
        os._exit(9)

for number in itertools.count():
    out, changes = Path(sys.argv[1], str(number), "out"), iter(range(number))
    write("old")
    if not os.fork():
        sys.addaudithook(kill)
        write("new")
        os._exit(0)
    is_killed, found = os.wait()[1] != 0, written()
    try:
        with atomic_folder(out, replaces=["file"]):
            then = written()
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert found in ("", then) and written() == then in ("old", "new"), (number, found, then)
        assert os.listdir(out.parent) == ["out"]
    if not is_killed:
        break
assert number > 6 and found == "new"
"""


def test_a_replaced_folder_is_never_lost(tmp_path):
    """A process is killed before each change of a file; what it left is complete."""
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=True)


def test_a_resumed_folder_is_continued_until_it_is_complete(tmp_path):
    with pytest.raises(InputError), files.resumed_folder(tmp_path / "a"):
        raise InputError("wrong")
    assert not names(tmp_path)
    with pytest.raises(KeyboardInterrupt), files.resumed_folder(tmp_path / "a") as (work, _):
        work.mkdir()
        raise KeyboardInterrupt
    assert names(tmp_path) == ["a.partial"]
    with pytest.raises(InputError), files.resumed_folder(tmp_path / "a"):
        raise InputError("wrong")
    with pytest.raises(InputError), files.resumed_folder(tmp_path / "a") as (work, result):
        (work / "done").touch()
        (tmp_path / "a").touch()  # another process has written it
    (tmp_path / "a").unlink()
    with files.resumed_folder(tmp_path / "a") as (work, result):
        work.rename(result)
    assert names(tmp_path) == ["a"] and names(tmp_path / "a") == ["done"]


def test_the_files_of_a_killed_process_are_replaced(tmp_path):
    script = """
import sys, time
from bert_keras.files import atomic_file, atomic_folder
with atomic_folder(sys.argv[1] + "/folder") as folder, atomic_file(sys.argv[1] + "/file") as file:
    (folder / "half").touch()
    file.write_text("half of it")
    print("ready", flush=True)
    time.sleep(60)
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline()
        for write in (files.atomic_file, files.atomic_folder):  # while it runs
            name = write.__name__.removeprefix("atomic_")
            with pytest.raises(InputError), write(tmp_path / name):
                pytest.fail("another process is writing it")
        process.kill()
    with files.atomic_folder(tmp_path / "folder"), files.atomic_file(tmp_path / "file") as file:
        file.write_text("all")
    assert names(tmp_path) == ["file", "folder"] and not names(tmp_path / "folder")
    assert (tmp_path / "file").read_text() == "all"


def test_two_runs_cannot_write_one_folder(tmp_path):
    with files.resumed_folder(tmp_path / "a") as (_, result):
        with pytest.raises(InputError), files.resumed_folder(tmp_path / "a"):
            pytest.fail("the folder is locked")
        result.mkdir()
    with files.locked_folder(tmp_path):
        with pytest.raises(InputError), files.locked_folder(tmp_path):
            pytest.fail("the folder is locked")
        assert ".lock" in names(tmp_path)
    assert names(tmp_path) == ["a"]
