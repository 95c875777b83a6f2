import sys

import fsspec
import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.storage import (
    atomic_file,
    atomic_folder,
    check_output,
    existing_file,
    open_file,
    readable_size,
    resumed_folder,
    tensorflow_writes,
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


def test_two_runs_cannot_write_one_folder(tmp_path):
    with resumed_folder(tmp_path / "a"):
        with (
            pytest.raises(InputError, match=r"another run is writing .*a; wait"),
            resumed_folder(tmp_path / "a"),
        ):
            pass
        assert (tmp_path / "a.partial").is_dir()


@pytest.fixture
def remote():
    """A file in fsspec's memory file system, which replaces gs:// and s3:// in tests."""
    url = "memory://storage/a"
    with fsspec.open(url, "wb") as file:
        file.write(b"0123456789")
    yield url
    fsspec.filesystem("memory").rm("/storage", recursive=True)


def test_remote_files_open_like_local_files(remote, tmp_path):
    (tmp_path / "a").write_text("0123456789")
    for path in (remote, tmp_path / "a"):
        with open_file(path) as file:
            assert (file.name, file.read(3), file.tell()) == (str(path), b"012", 3)
            assert (file.seek(-2, 2), file.read()) == (8, b"89")
            assert (file.seek(1), file.seek(2, 1), file.read(1)) == (1, 3, b"3")
    with pytest.raises(FileNotFoundError, match="memory://storage/none"):
        open_file("memory://storage/none")


def test_errors_of_a_driver_have_a_number_and_the_path(remote, monkeypatch):
    def cut(*_):
        raise RuntimeError("the line is cut")

    monkeypatch.setattr("fsspec.implementations.memory.MemoryFile.read", cut)
    with open_file(remote) as file, pytest.raises(OSError, match="is cut") as raised:
        file.read()
    assert raised.value.errno and raised.value.filename == remote


def test_a_missing_driver_is_reported_with_the_package_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    for url, reason in {"s9://b/a": "Protocol not known: s9", "gs://b/a": "install gcsfs"}.items():
        with pytest.raises(InputError, match=rf'{url} cannot .*{reason}.* "pip install gcsfs" for'):
            open_file(url)
