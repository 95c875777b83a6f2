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
    (tmp_path / "b").write_bytes(b"good\nb\xe4d\n")
    with pytest.raises(InputError, match=r"b, line 2 .*0xe4 at column 2"):
        list(files.text_lines(tmp_path / "b"))
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(InputError):
            files.existing_file(path)


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
        with pytest.raises(InputError, match="no regular file"):
            files.write_text(path, "text")
    assert (tmp_path / "pipe").is_fifo() and not Path("/dev/null").is_file()


@pytest.mark.parametrize("write", [files.atomic_file, files.atomic_folder, files.resumed_folder])
def test_impossible_paths_are_refused_before_anything_is_written(tmp_path, write):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine").touch()
    (tmp_path / "link").symlink_to("file/new")
    for path in ("file/new", "file/deep/new", "folder", "new/..", "link"):
        with pytest.raises(InputError), write(tmp_path / path):
            pytest.fail("the path is not refused")
    assert names(tmp_path) == ["file", "folder", "link"]
    assert names(tmp_path / "folder") == ["mine"]


@pytest.mark.parametrize("write", [files.atomic_folder, files.resumed_folder])
def test_a_mount_point_is_refused_at_once(tmp_path, monkeypatch, write):
    (tmp_path / "volume").mkdir()
    monkeypatch.setattr("os.path.ismount", lambda path: path == tmp_path / "volume")
    with pytest.raises(InputError, match="name a new folder in it"), write(tmp_path / "volume"):
        pytest.fail("the path is not refused")
    assert not names(tmp_path / "volume") and names(tmp_path) == ["volume"]
    (tmp_path / "file").touch()
    monkeypatch.setattr("os.path.ismount", lambda path: True)
    with pytest.raises(InputError, match="mount point"):
        files.check_output(tmp_path / "file")


def test_an_output_path_is_checked_without_writing(tmp_path, monkeypatch):
    files.check_output(tmp_path / "deep" / "er" / "file")
    with pytest.raises(InputError):
        files.check_output(tmp_path)
    monkeypatch.setattr("os.access", lambda path, mode: False)  # as for anyone but root
    with pytest.raises(InputError):
        files.check_output(tmp_path / "file")
    assert not names(tmp_path)


@pytest.mark.parametrize(
    ("num_bytes", "expected"),
    [(0, "0 bytes"), (999, "999 bytes"), (4224, "4.2 kB"), (3e9, "3.0 GB")],
)
def test_readable_sizes(num_bytes, expected):
    assert files.readable_size(num_bytes) == expected


def test_a_folder_is_written_completely_or_not_at_all(tmp_path):
    with pytest.raises(RuntimeError), files.atomic_folder(tmp_path / "out") as partial:
        (partial / "file").write_text("half")
        raise RuntimeError
    assert names(tmp_path) == []
    with files.atomic_folder(tmp_path / "out") as partial:
        (partial / "file").write_text("whole")
    assert (tmp_path / "out" / "file").read_text() == "whole"
    assert names(tmp_path) == ["out"] and names(tmp_path / "out") == ["file"]


def test_a_resumed_folder_is_continued_until_it_is_complete(tmp_path):
    with pytest.raises(InputError, match="wrong"), files.resumed_folder(tmp_path / "a"):
        raise InputError("wrong")
    assert not names(tmp_path)
    with pytest.raises(KeyboardInterrupt), files.resumed_folder(tmp_path / "a") as (work, _):
        work.mkdir()
        raise KeyboardInterrupt
    assert names(tmp_path) == ["a.partial"]
    with pytest.raises(InputError, match="wrong"), files.resumed_folder(tmp_path / "a"):
        raise InputError("wrong")
    with files.resumed_folder(tmp_path / "a") as (work, result):
        work.rename(result)
        (result / "done").touch()
    assert names(tmp_path) == ["a"] and names(tmp_path / "a") == ["done"]


def test_what_a_killed_process_left_half_written_is_replaced(tmp_path):
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
            with pytest.raises(InputError, match="another process"), write(tmp_path / name):
                pass
        process.kill()
    with files.atomic_folder(tmp_path / "folder"), files.atomic_file(tmp_path / "file") as file:
        file.write_text("all")
    assert names(tmp_path) == ["file", "folder"] and not names(tmp_path / "folder")
    assert (tmp_path / "file").read_text() == "all"


def test_two_runs_cannot_write_one_folder(tmp_path):
    with files.resumed_folder(tmp_path / "a") as (_, result):
        with (
            pytest.raises(InputError, match="another process"),
            files.resumed_folder(tmp_path / "a"),
        ):
            pass
        result.mkdir()
    with files.locked_folder(tmp_path):
        with pytest.raises(InputError, match="another process"), files.locked_folder(tmp_path):
            pass
        assert ".lock" in names(tmp_path)
    assert names(tmp_path) == ["a"]
