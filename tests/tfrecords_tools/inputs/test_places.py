import os

import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from tfrecords_tools.inputs.corpus import digest, fingerprint, lines_of, units
from tfrecords_tools.inputs.places import files
from tfrecords_tools.inputs.repairs import Repairs


@pytest.fixture
def tree(tmp_path):
    for name in ("b/2.txt", "b/1.txt", "a/x/3.txt", "a/.hidden", "a/_SUCCESS", ".git/y", "[z].txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"text of {name}")
    return tmp_path


def names(tree, *places):
    return [os.path.relpath(path, tree) for path in files([tree / place for place in places])]


def test_folders_and_globs_are_sorted_and_places_keep_their_order(tree):
    assert names(tree, "") == ["[z].txt", "a/x/3.txt", "b/1.txt", "b/2.txt"]
    assert names(tree, "b", "a") == ["b/1.txt", "b/2.txt", "a/x/3.txt"]
    assert names(tree, "b/2.txt", "b/*.txt") == ["b/2.txt", "b/1.txt", "b/2.txt"]
    assert names(tree, "**/*.txt") == ["[z].txt", "a/x/3.txt", "b/1.txt", "b/2.txt"]
    assert names(tree, "b/**") == ["b/1.txt", "b/2.txt"]  # which matches b/ and what is in it
    assert names(tree, "[ab]") == ["a/x/3.txt", "b/1.txt", "b/2.txt"]
    assert names(tree, "[z].txt") == ["[z].txt"]
    assert files(["tfds:wikipedia/20230601.en"]) == ["tfds:wikipedia/20230601.en"]


def test_places_without_files(tree):
    with pytest.raises(InputError, match=r"no files were named; name files, folders or globs"):
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
    with pytest.raises(InputError, match=r"back leads to .*a, which .*a holds already; take one"):
        names(tree, "a")


def test_folders_that_cannot_be_read_are_not_passed_over(tree, monkeypatch):
    def scandir(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionError):
        names(tree, "a")


@pytest.fixture
def remote():
    """A folder of TensorFlow's file system in memory, which stands for gs:// and the like."""
    folder = "ram://corpus"
    tf.io.gfile.makedirs(f"{folder}/sub")
    for name, text in {"b.txt": "b\n\nc\n" * 100, "a.txt": "a", "sub/d.txt": "d"}.items():
        with tf.io.gfile.GFile(f"{folder}/{name}", "w") as file:
            file.write(text)
    yield folder
    tf.io.gfile.rmtree(folder)


def test_remote_files_read_as_local_ones(remote, tmp_path):
    found = files([remote, f"{remote}/*.txt"])
    assert found == [
        f"{remote}/{name}" for name in ("a.txt", "b.txt", "sub/d.txt", "a.txt", "b.txt")
    ]
    cut = units([remote], unit_bytes=50)
    assert len(cut) > 8
    lines = [line for unit in cut for line in lines_of(unit, repairs=Repairs())]
    assert lines == ["a", "", *["b", "", "c"], *["b", "", "c"] * 99, "", "d", ""]
    assert digest(f"{remote}/a.txt")["sha256"].startswith("ca978112ca1bbdca")
    assert fingerprint(f"{remote}/a.txt")["bytes"] == 1


def test_remote_files_that_cannot_be_reached(remote):
    with pytest.raises(InputError, match=r"ram://corpus/none does not exist"):
        files([f"{remote}/none"])
    found = units([f"{remote}/a.txt"], unit_bytes=9)
    tf.io.gfile.remove(f"{remote}/a.txt")
    with pytest.raises(FileNotFoundError, match=r"ram://corpus/a\.txt"):
        list(lines_of(found[0], repairs=Repairs()))


def test_places_in_remote_files_are_counted_from_their_top(remote):
    with tf.io.gfile.GFile(f"{remote}/c.txt", "wb") as file:
        file.write(b"b\n\n" * 20 + b"\xff\n")
    with pytest.raises(InputError, match=r"ram://corpus/c\.txt, line 41 is not UTF-8"):
        for unit in units([f"{remote}/c.txt"], unit_bytes=9):
            list(lines_of(unit, repairs=Repairs()))
