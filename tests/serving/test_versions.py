"""Versions are loaded, served and unloaded as in TF Serving, in any state of their folders."""

import contextlib
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.serving.model import LoadError, ServedModel
from bert_keras.serving.requests import Call, Refusal
from bert_keras.serving.versions import Versions

LATEST = Call("demo")


class Loaded:
    """A model with the text of its file; a file with the text "bad" cannot be loaded."""

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


def made(folder, load=Loaded, **kwargs):
    return Versions(folder, load=load, **kwargs)


def look_twice(versions):
    versions.check_folder()
    versions.check_folder()


def prediction(versions, call=LATEST):
    with versions.serving(call) as (_, servable):
        return servable.text


def states(versions):
    found_versions = versions.statuses(LATEST)
    return {int(version["version"]): version["state"] for version in found_versions}


def test_a_new_version_replaces_the_old_one(folder):
    versions = made(folder)
    with versions.serving(LATEST) as (_, old):
        pass
    write(folder / "2", "two")
    versions.check_folder()
    assert (prediction(versions), states(versions)) == ("one", {1: "AVAILABLE"})
    versions.check_folder()
    assert (prediction(versions), states(versions)) == ("two", {2: "AVAILABLE", 1: "END"})
    assert old.closed
    with pytest.raises(Refusal, match=r"^Servable not found for request: Specific\(demo, 1\)$"):
        prediction(versions, Call("demo", 1))


def test_the_previous_version_is_served_after_the_latest_is_removed(folder):
    write(folder / "2", "two")
    versions = made(folder)
    shutil.rmtree(folder / "2")
    look_twice(versions)
    assert (prediction(versions), states(versions)) == ("one", {2: "END", 1: "AVAILABLE"})
    shutil.rmtree(folder / "1")
    look_twice(versions)
    assert states(versions) == {2: "END", 1: "END"}
    with pytest.raises(Refusal, match=r"Servable not found for request: Latest\(demo\)") as refusal:
        prediction(versions)
    assert refusal.value.status == 404


def test_a_version_is_loaded_only_after_its_copy_is_complete(folder):
    versions = made(folder)
    for text in ("t", "tw", "two"):
        write(folder / "2", text)
        versions.check_folder()
        assert prediction(versions) == "one"
    versions.check_folder()
    assert prediction(versions) == "two"


def test_a_broken_version_is_tried_again_only_after_its_files_change(folder):
    loads = []

    def load(version):
        loads.append(version.name)
        return Loaded(version)

    versions = made(folder, load)
    write(folder / "2", "bad")
    for _ in range(5):
        versions.check_folder()
    assert loads == ["1", "2"]
    assert prediction(versions) == "one"
    assert versions.statuses(Call("demo", 2)) == [
        {
            "version": "2",
            "state": "END",
            "status": {"error_code": "DATA_LOSS", "error_message": "it is bad"},
        }
    ]
    write(folder / "2", "good")
    look_twice(versions)
    assert (prediction(versions), states(versions)) == ("good", {2: "AVAILABLE", 1: "END"})


def test_a_bug_in_loading_does_not_end_the_watch(folder, monkeypatch, caplog):
    def load(version):
        if version.name == "2":
            raise TypeError("a bug")
        return Loaded(version)

    monkeypatch.setattr("bert_keras.serving.versions._POLL_SECONDS", 0.01)
    versions = made(folder, load)
    versions.watch()
    with contextlib.closing(versions):
        write(folder / "2", "two")
        wait_for(lambda: states(versions) == {2: "END", 1: "AVAILABLE"})
        write(folder / "3", "three")
        wait_for(lambda: prediction(versions) == "three")
    (record,) = caplog.records
    assert "cannot check" in record.message and record.exc_info
    status = versions.statuses(Call("demo", 2))[0]["status"]
    assert status == {"error_code": "UNKNOWN", "error_message": "a bug"}


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def turn_a_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [cut, turn_a_byte, Path.unlink])
@pytest.mark.parametrize("name", ["variables.index", "variables.data-00000-of-00001"])
def test_a_damaged_file_of_a_new_version_keeps_the_old_one(models, tmp_path, damage, name):
    folder = tmp_path / "demo"
    shutil.copytree(models / "keras_tiny" / "1", folder / "1")
    versions = Versions(folder, load=ServedModel)
    shutil.copytree(folder / "1", folder / "2")
    damage(folder / "2" / "variables" / name)
    look_twice(versions)
    assert states(versions) == {2: "END", 1: "AVAILABLE"}
    with versions.serving(LATEST) as (_, servable):
        prediction = servable.predict("serving_default", {"x": np.float32([[1, 2, 3]])})
    assert prediction["output_0"].tolist() == [[7.0, 7.0]]


def test_a_folder_without_files_is_not_loaded(folder):
    versions = made(folder)
    (folder / "2").mkdir()
    look_twice(versions)
    assert states(versions) == {1: "AVAILABLE"}


def test_running_requests_finish_before_a_version_is_closed(folder):
    versions = made(folder)
    write(folder / "2", "two")
    with versions.serving(LATEST) as (_, old):
        thread = threading.Thread(target=look_twice, args=[versions])
        thread.start()
        wait_for(lambda: states(versions) == {2: "AVAILABLE", 1: "UNLOADING"})
        assert prediction(versions) == "two"
        assert not old.closed
    thread.join(10)
    assert old.closed
    assert states(versions)[1] == "END"


def test_a_version_that_is_loaded_after_the_end_is_closed(folder, monkeypatch):
    loaded, go = [], threading.Event()

    def load(version):
        if version.name == "2":
            loaded.append(Loaded(version))
            assert go.wait(10)
            return loaded[0]
        return Loaded(version)

    monkeypatch.setattr("bert_keras.serving.versions._POLL_SECONDS", 0.01)
    monkeypatch.setattr("bert_keras.serving.versions._STOP_SECONDS", 0)
    versions = made(folder, load)
    versions.watch()
    write(folder / "2", "two")
    wait_for(lambda: loaded)
    versions.close()
    go.set()
    wait_for(lambda: loaded[0].closed)


def wait_for(happened):
    end = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_chosen_versions(folder):
    write(folder / "2", "two")
    write(folder / "3", "three")
    versions = made(folder, numbers=[1, 2])
    assert states(versions) == {2: "AVAILABLE", 1: "AVAILABLE"}
    assert (prediction(versions), prediction(versions, Call("demo", 1))) == ("two", "one")
    write(folder / "4", "four")
    shutil.rmtree(folder / "1")
    look_twice(versions)
    assert states(versions) == {2: "AVAILABLE", 1: "END"}


def test_an_unreachable_folder_changes_nothing(folder, monkeypatch):
    monkeypatch.setattr("bert_keras.serving.versions._POLL_SECONDS", 0.01)
    versions = made(folder)
    versions.watch()
    with contextlib.closing(versions):
        folder.rename(folder.with_name("moved"))
        time.sleep(0.1)
        assert prediction(versions) == "one"
        folder.with_name("moved").rename(folder)
        write(folder / "2", "two")
        wait_for(lambda: prediction(versions) == "two")


@pytest.mark.parametrize(
    ("name", "numbers", "message"),
    [
        ("demo", [1, 7], "does not contain version 7"),
        ("demo", [2], r"demo/2 cannot be loaded as a SavedModel \(it is bad\)"),
        ("demo", [], "demo/2 cannot be loaded"),
        ("demo/1", [], "no version folder"),
        ("missing", [], "no version folder"),
    ],
)
def test_unsuitable_start_versions_are_refused(folder, name, numbers, message):
    write(folder / "2", "bad")
    with pytest.raises(InputError, match=message):
        made(folder.parent / name, numbers=numbers)
