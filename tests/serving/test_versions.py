"""Versions are loaded, served and unloaded as in TF Serving, in any state of their folders."""

import contextlib
import shutil
import threading
import time

import pytest

from bert_keras.errors import InputError
from bert_keras.serving.model import LoadError
from bert_keras.serving.requests import Call, Refusal
from bert_keras.serving.versions import Versions

LATEST = Call("demo")


class Loaded:
    """A model with the text of its file; "bad" cannot be loaded, "bug" shows a bug."""

    texts: tuple[str, ...] = ()  # of all folders that were loaded

    def __init__(self, folder):
        self.text, self.closed = (folder / "saved_model.pb").read_text(), False
        Loaded.texts += (self.text,)
        if self.text == "bad":
            raise LoadError("DATA_LOSS", "it is bad")
        if self.text == "bug":
            raise TypeError("a bug")

    def close(self):
        self.closed = True


def write(folder, text):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "saved_model.pb").write_text(text)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr("bert_keras.serving.versions._POLL_SECONDS", 0.01)
    monkeypatch.setattr(Loaded, "texts", ())
    write(tmp_path / "demo" / "1", "one")
    return tmp_path / "demo"


def look_twice(versions):
    versions.check_folder()
    versions.check_folder()


def seen(versions):
    """The text that is served, and the states of all versions."""
    states = {int(each["version"]): each["state"] for each in versions.statuses(LATEST)}
    with versions.serving(LATEST) as (_, served):
        return served.text, states


def wait_for(happened):
    end = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_latest_version_replaces_the_old_one_and_back(folder):
    versions = Versions(folder, load=Loaded)
    with versions.serving(LATEST) as (_, old):
        pass
    for text in ("t", "tw", "two"):  # a copy that is not complete yet
        write(folder / "2", text)
        versions.check_folder()
        assert seen(versions) == ("one", {1: "AVAILABLE"})
    versions.check_folder()
    assert seen(versions) == ("two", {2: "AVAILABLE", 1: "END"})
    assert old.closed
    with pytest.raises(Refusal, match=r"^Servable not found for request: Specific\(demo, 1\)$"):
        versions.serving(Call("demo", 1)).__enter__()
    shutil.rmtree(folder / "2")
    look_twice(versions)
    assert seen(versions) == ("one", {2: "END", 1: "AVAILABLE"})
    shutil.rmtree(folder / "1")
    look_twice(versions)
    with pytest.raises(Refusal, match=r"Servable not found for request: Latest\(demo\)") as refusal:
        seen(versions)
    assert refusal.value.status == 404


def test_a_broken_version_is_tried_again_only_after_its_files_change(folder):
    versions = Versions(folder, load=Loaded)
    write(folder / "2", "bad")
    (folder / "3").mkdir()  # without files
    for _ in range(5):
        versions.check_folder()
    (folder / "3").rmdir()
    look_twice(versions)
    look_twice(versions)
    assert Loaded.texts == ("one", "bad")
    assert seen(versions) == ("one", {2: "END", 1: "AVAILABLE"})
    status = {"error_code": "DATA_LOSS", "error_message": "it is bad"}
    assert versions.statuses(Call("demo", 2)) == [
        {"version": "2", "state": "END", "status": status}
    ]
    write(folder / "2", "good")
    look_twice(versions)
    assert seen(versions) == ("good", {2: "AVAILABLE", 1: "END"})


def test_the_watch_goes_on_after_a_bug_and_while_the_folder_is_away(folder, caplog):
    versions = Versions(folder, load=Loaded)
    versions.watch()
    with contextlib.closing(versions):
        write(folder / "2", "bug")
        wait_for(lambda: seen(versions) == ("one", {2: "END", 1: "AVAILABLE"}))
        folder.rename(folder.with_name("moved"))
        time.sleep(0.1)
        assert seen(versions)[0] == "one"
        folder.with_name("moved").rename(folder)
        write(folder / "3", "three")
        wait_for(lambda: seen(versions)[0] == "three")
    (record,) = caplog.records
    assert "cannot check" in record.message and record.exc_info
    status = versions.statuses(Call("demo", 2))[0]["status"]
    assert status == {"error_code": "UNKNOWN", "error_message": "a bug"}


def test_running_requests_finish_before_a_version_is_closed(folder):
    versions = Versions(folder, load=Loaded)
    write(folder / "2", "two")
    with versions.serving(LATEST) as (_, old):
        thread = threading.Thread(target=look_twice, args=[versions])
        thread.start()
        wait_for(lambda: seen(versions) == ("two", {2: "AVAILABLE", 1: "UNLOADING"}))
        assert not old.closed
    thread.join(10)
    assert old.closed and seen(versions)[1][1] == "END"


def test_a_version_that_is_loaded_after_the_end_is_closed(folder, monkeypatch):
    loaded, go = [], threading.Event()

    def load(version):
        loaded.append(Loaded(version))
        assert version.name == "1" or go.wait(10)
        return loaded[-1]

    monkeypatch.setattr("bert_keras.serving.versions._STOP_SECONDS", 0)
    versions = Versions(folder, load=load)
    versions.watch()
    write(folder / "2", "two")
    wait_for(lambda: len(loaded) == 2)
    versions.close()
    go.set()
    wait_for(lambda: loaded[1].closed)


def test_chosen_versions(folder):
    write(folder / "2", "two")
    write(folder / "3", "three")
    versions = Versions(folder, load=Loaded, numbers=[1, 2])
    assert seen(versions) == ("two", {2: "AVAILABLE", 1: "AVAILABLE"})
    with versions.serving(Call("demo", 1)) as (number, served):
        assert (number, served.text) == (1, "one")
    shutil.rmtree(folder / "1")
    look_twice(versions)
    assert seen(versions) == ("two", {2: "AVAILABLE", 1: "END"})


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
        Versions(folder.parent / name, load=Loaded, numbers=numbers)
