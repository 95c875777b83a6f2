import errno
import fcntl
import os
import subprocess
import sys

import pytest
import tensorflow as tf

from bert_keras.errors import InputError, tensorflow_writes
from bert_keras.locks import locked_folder, remove_abandoned
from bert_keras.storage import (
    atomic_file,
    atomic_folder,
    check_output,
    existing_file,
    readable_size,
    resumed_folder,
    text_lines,
)


def test_text_lines_drop_line_ends_and_the_byte_order_mark(tmp_path):
    (tmp_path / "a").write_bytes("\ufeffeins\r\nzwei\n\ndrei \ufeff".encode())
    assert list(text_lines(tmp_path / "a")) == ["eins", "zwei", "", "drei \ufeff"]


def test_the_position_of_invalid_utf8_is_reported(tmp_path):
    (tmp_path / "a").write_bytes(b"good\nb\xe4d\n")
    with pytest.raises(InputError, match=r"a, line 2 is not UTF-8 \(byte 0xe4 at column 2\)"):
        list(text_lines(tmp_path / "a"))


def test_missing_files_and_folders_have_different_messages(tmp_path):
    with pytest.raises(InputError, match="nothing does not exist; expected a file"):
        existing_file(tmp_path / "nothing")
    with pytest.raises(InputError, match="is a folder; expected a file"):
        existing_file(tmp_path)


def test_a_file_is_written_completely_or_not_at_all(tmp_path):
    target = tmp_path / "deep" / "file"
    with atomic_file(target) as partial:
        partial.write_text("new")
        assert not target.exists()
    with pytest.raises(RuntimeError), atomic_file(target) as partial:
        partial.write_text("half")
        raise RuntimeError
    assert target.read_text() == "new"
    assert list(target.parent.iterdir()) == [target]


def test_errors_name_the_requested_path(tmp_path):
    with pytest.raises(InputError, match=r"is a folder; name a file"), atomic_file(tmp_path):
        pass
    with pytest.raises(FileNotFoundError) as raised, atomic_file(tmp_path / "file") as partial:
        partial.unlink()
        partial.read_bytes()
    assert raised.value.filename == str(tmp_path / "file")
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "new", tmp_path / "file" / "deep" / "new"):
        for write in (atomic_file, atomic_folder):
            with pytest.raises(InputError, match="file is not a folder; choose"), write(path):
                pass
    long_path = tmp_path / ("x" * 300)
    with pytest.raises(OSError, match="too long") as raised, atomic_folder(long_path):
        pass
    assert raised.value.filename == str(long_path)
    with pytest.raises(RuntimeError), atomic_folder(tmp_path / "deep" / "er" / "new") as partial:
        (partial / "half").touch()
        raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_output_path_is_checked_before_anything_is_written(tmp_path, monkeypatch):
    check_output(tmp_path / "deep" / "er" / "file")
    with pytest.raises(InputError, match=r"is a folder; name a file"):
        check_output(tmp_path)
    monkeypatch.setattr("os.access", lambda path, mode: False)  # as for anyone but root
    with pytest.raises(PermissionError) as raised:
        check_output(tmp_path / "file")
    assert raised.value.filename == str(tmp_path / "file")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("num_bytes", "expected"),
    [(0, "0 bytes"), (999, "999 bytes"), (4224, "4.2 kB"), (3e9, "3.0 GB")],
)
def test_readable_sizes(num_bytes, expected):
    assert readable_size(num_bytes) == expected


def test_a_folder_is_written_completely_or_not_at_all(tmp_path):
    with pytest.raises(RuntimeError), atomic_folder(tmp_path / "out") as partial:
        (partial / "file").write_text("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    with atomic_folder(tmp_path / "out") as partial:
        (partial / "file").write_text("whole")
    assert (tmp_path / "out" / "file").read_text() == "whole"


def test_a_folder_is_never_overwritten(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with (
        pytest.raises(InputError, match="twice exists already"),
        atomic_folder(tmp_path / "twice"),
        atomic_folder(tmp_path / "twice") as partial,
    ):
        (partial / "file").touch()  # the second process ends first
    assert sorted(path.name for path in tmp_path.iterdir() if "twice" in path.name) == ["twice"]
    with pytest.raises(InputError, match="out exists already"), atomic_folder(tmp_path / "out"):
        pass
    assert (tmp_path / "out" / "mine").exists()


def test_write_errors_of_tensorflow_become_os_errors(tmp_path):
    for cause, number in (
        (tf.errors.ResourceExhaustedError(None, None, "full"), 28),
        (tf.errors.PermissionDeniedError(None, None, "closed"), 13),
    ):
        with pytest.raises(OSError) as raised, tensorflow_writes(tmp_path):
            raise cause
        assert raised.value.errno == number and raised.value.filename == str(tmp_path)


def test_a_resumed_folder_is_continued_until_it_is_complete(tmp_path):
    with pytest.raises(KeyboardInterrupt), resumed_folder(tmp_path / "a") as folder:
        (folder / "done").write_text("1")
        (folder / ".half.1.part").write_text("2")
        (folder / "deep/.half.part/er").mkdir(parents=True)
        raise KeyboardInterrupt
    assert not (tmp_path / "a").exists()
    with pytest.raises(InputError, match="wrong"), resumed_folder(tmp_path / "a"):
        raise InputError("wrong")
    with resumed_folder(tmp_path / "a") as folder:
        assert (folder / "done").read_text() == "1"
        (folder / "deep").rmdir()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["done"]
    with pytest.raises(InputError, match="a exists already"), resumed_folder(tmp_path / "a"):
        pass


def test_a_folder_with_invalid_input_is_deleted(tmp_path):
    with pytest.raises(InputError, match="wrong"), resumed_folder(tmp_path / "a"):
        raise InputError("wrong")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_half_written_is_deleted_by_the_next(tmp_path):
    """Two processes write `folder` and `file`; one is killed, and the other goes on."""
    script = """
import sys, time
from bert_keras.storage import atomic_file, atomic_folder
with atomic_folder(sys.argv[1] + "/folder") as folder, atomic_file(sys.argv[1] + "/file") as file:
    (folder / "half").touch()
    print("ready", flush=True)
    time.sleep(60)
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as killed,
        subprocess.Popen(command, stdout=subprocess.PIPE) as living,
    ):
        for process in (killed, living):
            assert process.stdout and process.stdout.readline()
        before = {*tmp_path.iterdir()}
        killed.kill()
        killed.wait()
        with atomic_folder(tmp_path / "folder"), atomic_file(tmp_path / "file"):
            (part,) = before & {*tmp_path.glob(".folder.*.part")}
            assert (part / "half").exists()
            assert before & {*tmp_path.glob(".file.*")} == {tmp_path / f".file.{living.pid}.part"}
        living.kill()
    with locked_folder(tmp_path):
        assert {path.name for path in tmp_path.iterdir()} == {"folder", "file", ".lock"}
    assert not (tmp_path / ".lock").exists()


@pytest.mark.parametrize("function", [(os, "open"), (fcntl, "flock")])
@pytest.mark.parametrize("write", [atomic_file, atomic_folder])
def test_a_part_that_is_deleted_before_it_is_locked_is_created_again(
    tmp_path, monkeypatch, write, function
):
    """Another process deletes it as an abandoned one: before it is opened, or after."""
    original = getattr(*function)

    def late(*arguments, **options):
        if parts := [*tmp_path.glob(".a.*.part")]:
            monkeypatch.undo()
            remove_abandoned(parts)
            assert not parts[0].exists()
        return original(*arguments, **options)

    monkeypatch.setattr(*function, late)
    with write(tmp_path / "a") as part:
        assert part.exists()
    assert (tmp_path / "a").exists()


def test_two_runs_cannot_write_one_folder(tmp_path):
    with resumed_folder(tmp_path / "a"):
        with (
            pytest.raises(InputError, match=r"another run is writing .*a; wait"),
            resumed_folder(tmp_path / "a"),
        ):
            pass
        assert (tmp_path / "a.partial").is_dir()


def test_a_file_system_without_locks_is_reported(tmp_path, monkeypatch, capsys):
    def flock(*arguments):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", flock)
    with locked_folder(tmp_path), atomic_folder(tmp_path / "a"), atomic_file(tmp_path / "b"):
        pass
    assert "cannot be locked (Function not implemented); do not start" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}
