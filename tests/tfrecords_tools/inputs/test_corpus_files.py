import os

import fsspec
import pytest

from bert_keras.errors import InputError
from tfrecords_tools.inputs.corpus import digest, fingerprint, lines_of, units
from tfrecords_tools.inputs.corpus_files import files
from tfrecords_tools.inputs.decoding import Repairs


@pytest.fixture
def tree(tmp_path):
    for name in ("b/2.txt", "b/1.txt", "a/x/3.txt", "a/.hidden", "a/_SUCCESS", ".git/y", "[z].txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"text of {name}")
    return tmp_path


def names(tree, *paths):
    return [os.path.relpath(path, tree) for path in files([tree / each for each in paths])]


def test_folders_and_globs_are_sorted_and_arguments_keep_their_order(tree):
    assert names(tree, "") == ["[z].txt", "a/x/3.txt", "b/1.txt", "b/2.txt"]
    assert names(tree, "b", "a") == ["b/1.txt", "b/2.txt", "a/x/3.txt"]
    assert names(tree, "b/2.txt", "b/1*") == ["b/2.txt", "b/1.txt"]
    assert names(tree, "**/*.txt") == ["[z].txt", "a/x/3.txt", "b/1.txt", "b/2.txt"]
    assert names(tree, "b/**") == ["b/1.txt", "b/2.txt"]  # which matches b/ and what is in it
    assert names(tree, "[ab]") == ["a/x/3.txt", "b/1.txt", "b/2.txt"]
    assert names(tree, "[z].txt") == ["[z].txt"]
    assert files(["tfds:wikipedia/20230601.en"]) == ["tfds:wikipedia/20230601.en"]


def test_a_file_that_occurs_twice_is_refused(tree):
    (tree / "link").symlink_to(tree / "b/2.txt")
    for corpus in (["b/2.txt", "b"], ["link", "b/2.txt"], ["a", "a"]):
        with pytest.raises(InputError, match=r"\.txt twice \(also as .*\); name each file once"):
            names(tree, *corpus)
    with pytest.raises(InputError, match="contains tfds:a twice"):
        files(["tfds:a", "tfds:a"])


def test_paths_without_files_are_refused(tree):
    with pytest.raises(InputError, match=r"the corpus is empty; name files, folders or globs"):
        files([])
    with pytest.raises(InputError, match=r"none\.txt does not exist; expected a file, a folder or"):
        files([tree / "b", tree / "none.txt"])
    with pytest.raises(InputError, match=r"\*\.md matches no file; expected"):
        files([tree / "*.md"])
    (tree / "bare").mkdir()
    with pytest.raises(InputError, match=r"bare is a folder without files"):
        files([tree / "bare"])
    os.mkfifo(tree / "pipe")
    with pytest.raises(InputError, match=r"pipe is a pipe or a device, which cannot be read twice"):
        files([tree / "pipe"])


def test_links_to_folders_are_followed_once(tree, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "4.txt").write_text("text")
    (tree / "a" / "link").symlink_to(elsewhere)
    assert names(tree, "a") == ["a/link/4.txt", "a/x/3.txt"]
    (tree / "a" / "x" / "back").symlink_to(tree / "a")
    with pytest.raises(InputError, match=r"back links to .*a, which .*a also contains; remove one"):
        names(tree, "a")


def test_unreadable_folders_raise(tree, monkeypatch):
    def scandir(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionError):
        names(tree, "a")


TEXTS = {
    "b.txt": b"b\n\nc\n" * 100,
    "a.txt": b"a",
    "part[1].txt": b"p",
    "sub/d.txt": b"d",
    "sub/empty.txt": b"",
    "sub/_SUCCESS": b"",
    "_logs/e.txt": b"e",
    ".x/f.txt": b"f",
    "sub/deep/g.txt": b"g",
}


@pytest.fixture
def remote(tmp_path):
    """The same folder in fsspec's memory, which replaces gs:// and similar systems, and on disk."""
    system = fsspec.filesystem("memory")
    for name, data in TEXTS.items():
        system.pipe(f"/corpus/{name}", data)
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    yield "memory://corpus"
    system.rm("/corpus", recursive=True)


def remote_names(remote, pattern):
    return [os.path.relpath(path, remote) for path in files([f"{remote}/{pattern}".rstrip("/")])]


def test_remote_and_local_paths_give_the_same_files(remote, tmp_path):
    for pattern in ("", "sub", "a.txt", "*.txt", "**/*.txt", "s*", "**", "*/d*", "sub/**",
                    "[ab].txt", "part[1].txt", "*/deep", "**/deep/*", ".x/*"):  # fmt: skip
        assert remote_names(remote, pattern) == names(tmp_path, pattern) != [], pattern
    for pattern, message in {"none": "does not exist", "*.md": "matches no file"}.items():
        with pytest.raises(InputError, match=rf"{message}; expected a file"):
            remote_names(remote, pattern)


def test_remote_files_are_read_like_local_files(remote):
    all_units = units([remote], unit_bytes=50)
    assert len(all_units) > 8
    lines = [line for unit in all_units for line in lines_of(unit, repairs=Repairs())]
    assert lines == ["a", "", *["b", "", "c"], *["b", "", "c"] * 99, "", "p", "", "d", "", "g", ""]
    assert digest(f"{remote}/a.txt")["sha256"].startswith("ca978112ca1bbdca")
    before = fingerprint(f"{remote}/a.txt")
    assert before["bytes"] == 1 and fingerprint(f"{remote}/a.txt") == before
    fsspec.filesystem("memory").pipe("/corpus/a.txt", b"b")
    assert fingerprint(f"{remote}/a.txt") != before


def test_inaccessible_remote_files_raise_an_error_with_the_url(remote, monkeypatch):
    (unit,) = units([f"{remote}/a.txt"], unit_bytes=9)
    fsspec.filesystem("memory").rm("/corpus/a.txt")
    with pytest.raises(FileNotFoundError, match=r"memory://corpus/a\.txt"):
        list(lines_of(unit, repairs=Repairs()))

    def denied(*_, **__):
        raise PermissionError(13, "no key")

    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.exists", denied)
    with pytest.raises(PermissionError, match=r"no key.*memory://corpus/b\.txt"):
        files([f"{remote}/b.txt"])


def test_lines_of_remote_files_are_counted_from_the_first_line(remote):
    fsspec.filesystem("memory").pipe("/corpus/c.txt", b"b\n\n" * 20 + b"\xff\n")
    with pytest.raises(InputError, match=r"memory://corpus/c\.txt, line 41 is not UTF-8"):
        for unit in units([f"{remote}/c.txt"], unit_bytes=9):
            list(lines_of(unit, repairs=Repairs()))
