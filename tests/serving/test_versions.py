"""Versions come, answer and go as TF Serving's do, whatever state their folders are in."""

import contextlib
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.serving.calls import Call, Refused
from bert_keras.serving.model import LoadError, ServedModel
from bert_keras.serving.versions import Versions

LATEST = Call("demo", None, None, "predict")


class Servable:
    """What the file says; a file that says "bad" cannot be loaded."""

    def __init__(self, folder):
        self.text = (folder / "saved_model.pb").read_text()
        if self.text.startswith("bad"):
            raise LoadError("DATA_LOSS", "it is bad")
        self.closed = False

    def close(self):
        self.closed = True


def write(folder, text):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "saved_model.pb").write_text(text)


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "demo" / "1", "one")
    return tmp_path / "demo"


def made(folder, load=Servable, **given):
    return Versions(folder, load=load, **given)


def look_twice(versions):
    versions.look()
    versions.look()


def answer(versions, call=LATEST):
    with versions.serving(call) as (_, servable):
        return servable.text


def states(versions):
    told = versions.statuses(Call("demo", None, None, "status"))
    return {int(version["version"]): version["state"] for version in told}


def test_a_new_version_replaces_the_old_one(folder):
    versions = made(folder)
    with versions.serving(LATEST) as (_, old):
        pass
    write(folder / "2", "two")
    versions.look()
    assert (answer(versions), states(versions)) == ("one", {2: "START", 1: "AVAILABLE"})
    versions.look()
    assert (answer(versions), states(versions)) == ("two", {2: "AVAILABLE", 1: "END"})
    assert old.closed
    with pytest.raises(Refused, match=r"^Servable not found for request: Specific\(demo, 1\)$"):
        answer(versions, Call("demo", 1, None, "predict"))


def test_a_version_that_is_gone_makes_room_for_the_one_before(folder):
    write(folder / "2", "two")
    versions = made(folder)
    shutil.rmtree(folder / "2")
    look_twice(versions)
    assert (answer(versions), states(versions)) == ("one", {2: "END", 1: "AVAILABLE"})
    shutil.rmtree(folder / "1")
    look_twice(versions)
    assert states(versions) == {2: "END", 1: "END"}
    with pytest.raises(Refused, match=r"Servable not found for request: Latest\(demo\)") as refusal:
        answer(versions)
    assert refusal.value.status == 404


def test_a_copy_that_goes_on_is_waited_for(folder):
    versions = made(folder)
    for text in ("t", "tw", "two"):
        write(folder / "2", text)
        versions.look()
        assert answer(versions) == "one"
    versions.look()
    assert answer(versions) == "two"


def test_what_changes_while_it_is_loaded_is_not_served(folder):
    def load(version):
        servable = Servable(version)
        if servable.text == "half":
            write(version, "the whole")
        return servable

    versions = made(folder, load)
    write(folder / "2", "half")
    look_twice(versions)
    assert (answer(versions), states(versions)[2]) == ("one", "START")
    look_twice(versions)
    assert answer(versions) == "the whole"


def test_a_broken_version_leaves_the_old_one_and_is_tried_again_when_it_changes(folder):
    loads = []

    def load(version):
        loads.append(version.name)
        return Servable(version)

    versions = made(folder, load)
    write(folder / "2", "bad")
    for _ in range(5):
        versions.look()
    assert loads == ["1", "2"]
    assert answer(versions) == "one"
    assert versions.statuses(Call("demo", 2, None, "status")) == [
        {
            "version": "2",
            "state": "END",
            "status": {"error_code": "DATA_LOSS", "error_message": "it is bad"},
        }
    ]
    write(folder / "2", "good")
    look_twice(versions)
    assert (answer(versions), states(versions)) == ("good", {2: "AVAILABLE", 1: "END"})


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def turn_a_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [cut, turn_a_byte, Path.unlink])
@pytest.mark.parametrize("name", ["variables.index", "variables.data-00000-of-00001"])
def test_a_real_model_with_a_damaged_file_leaves_the_old_one(models, tmp_path, damage, name):
    folder = tmp_path / "demo"
    shutil.copytree(models / "keras_tiny" / "1", folder / "1")
    versions = Versions(folder, load=ServedModel)
    shutil.copytree(folder / "1", folder / "2")
    damage(folder / "2" / "variables" / name)
    look_twice(versions)
    assert states(versions) == {2: "END", 1: "AVAILABLE"}
    with versions.serving(LATEST) as (_, servable):
        answer = servable.predict("serving_default", {"x": np.float32([[1, 2, 3]])})
    assert answer["output_0"].tolist() == [[7.0, 7.0]]


def test_a_folder_without_files_is_not_tried(folder):
    versions = made(folder)
    (folder / "2").mkdir()
    look_twice(versions)
    assert states(versions) == {2: "START", 1: "AVAILABLE"}
    (folder / "2").rmdir()
    look_twice(versions)
    assert states(versions) == {1: "AVAILABLE"}


def test_what_was_begun_is_answered_before_the_version_goes(folder):
    versions = made(folder)
    write(folder / "2", "two")
    with versions.serving(LATEST) as (_, old):
        thread = threading.Thread(target=look_twice, args=[versions])
        thread.start()
        wait_for(lambda: states(versions) == {2: "AVAILABLE", 1: "UNLOADING"})
        assert answer(versions) == "two"
        assert not old.closed
    thread.join(10)
    assert old.closed
    assert states(versions)[1] == "END"


def wait_for(happened):
    end = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_chosen_versions_and_labels(folder):
    write(folder / "2", "two")
    write(folder / "3", "three")
    versions = made(folder, numbers=[1, 2], labels={"stable": 1})
    assert states(versions) == {2: "AVAILABLE", 1: "AVAILABLE"}
    assert answer(versions) == "two"
    assert answer(versions, Call("demo", None, "stable", "predict")) == "one"
    for call in (Call("demo", None, "other", "predict"), Call("a", None, "stable", "predict")):
        with pytest.raises(Refused, match=r"^Unrecognized servable version label: "):
            answer(versions, call)
    write(folder / "4", "four")
    shutil.rmtree(folder / "1")
    look_twice(versions)
    assert states(versions) == {2: "AVAILABLE", 1: "END"}
    with pytest.raises(Refused, match=r"Servable not found for request: Specific\(demo, 1\)"):
        answer(versions, Call("demo", None, "stable", "predict"))


def test_a_folder_out_of_reach_changes_nothing(folder, monkeypatch):
    monkeypatch.setattr("bert_keras.serving.versions._POLL_SECONDS", 0.01)
    versions = made(folder)
    versions.watch()
    with contextlib.closing(versions):
        folder.rename(folder.with_name("moved"))
        time.sleep(0.1)
        assert answer(versions) == "one"
        folder.with_name("moved").rename(folder)
        write(folder / "2", "two")
        wait_for(lambda: answer(versions) == "two")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"numbers": [7]}, "holds no version 7; it holds 1, 2"),
        ({"numbers": [2]}, r"demo/2 cannot be loaded as a SavedModel \(it is bad\); export it"),
        ({"numbers": [1], "labels": {"old": 2}}, "label old names version 2, which is not served"),
        ({}, "demo/2 cannot be loaded"),
    ],
)
def test_versions_that_cannot_be_started_with(folder, given, sentence):
    write(folder / "2", "bad")
    with pytest.raises(InputError, match=sentence):
        made(folder, **given)
