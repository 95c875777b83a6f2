import sys

import fsspec
import pytest

from bert_keras.errors import InputError
from bert_keras.remote import open_file


@pytest.fixture
def remote():
    """A file in fsspec's memory file system, which replaces gs:// and s3:// in tests."""
    url = "memory://remote/a"
    with fsspec.open(url, "wb") as file:
        file.write(b"0123456789")
    yield url
    fsspec.filesystem("memory").rm("/remote", recursive=True)


def test_remote_files_open_like_local_files(remote, tmp_path):
    (tmp_path / "a").write_text("0123456789")
    for path in (remote, tmp_path / "a"):
        with open_file(path) as file:
            assert (file.name, file.read(3), file.tell()) == (str(path), b"012", 3)
            assert (file.seek(-2, 2), file.read()) == (8, b"89")
            assert (file.seek(1), file.seek(2, 1), file.read(1)) == (1, 3, b"3")
    with pytest.raises(FileNotFoundError, match="memory://remote/none"):
        open_file("memory://remote/none")


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
