"""Versions are loaded, warmed up, run and unloaded as in TF Serving, in any state of a folder."""

import contextlib
import shutil
import time

import pytest

from bert_keras.files import write_json
from bert_keras.serving.limits import Limits
from bert_keras.serving.model import LoadError
from bert_keras.serving.rest_api import Call, Refusal
from bert_keras.serving.version_folder import METADATA
from bert_keras.serving.versions import Versions, load_version
from tests.factories import wait_for

LATEST = Call("demo")


class Loaded:
    """A model with the text of its file; "bad" cannot be loaded, "bug" shows a bug."""

    def __init__(self, folder):
        self.text, self.closed = (folder / "saved_model.pb").read_text(), False
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
def folder(tmp_path):
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
    with pytest.raises(Refusal):
        versions.serving(Call("demo", 1)).__enter__()
    shutil.rmtree(folder / "2")
    look_twice(versions)
    assert seen(versions) == ("one", {2: "END", 1: "AVAILABLE"})
    shutil.rmtree(folder / "1")
    look_twice(versions)
    with pytest.raises(Refusal) as refusal:
        seen(versions)
    assert refusal.value.status == 404


def test_a_broken_version_is_tried_again_only_after_its_files_change(folder):
    loads = []
    versions = Versions(folder, load=lambda path: loads.append(path.name) or Loaded(path))
    write(folder / "2", "bad")
    (folder / "3").mkdir()  # without files
    look_twice(versions)
    (folder / "3").rmdir()
    look_twice(versions)
    assert loads == ["1", "2"]
    assert seen(versions) == ("one", {2: "END", 1: "AVAILABLE"})
    status = {"error_code": "DATA_LOSS", "error_message": "it is bad"}
    expected = {"version": "2", "state": "END", "status": status}
    assert versions.statuses(Call("demo", 2)) == [expected]
    write(folder / "2", "good")
    look_twice(versions)
    assert seen(versions) == ("good", {2: "AVAILABLE", 1: "END"})


def test_the_watch_goes_on_after_a_bug_and_while_the_folder_is_away(folder, caplog):
    versions = Versions(folder, load=Loaded)
    versions.watch(seconds=0.01)
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


@pytest.mark.parametrize("instance", [{"x": "text"}, {"y": 1.0}])
def test_a_version_whose_example_fails_is_not_loaded(models, tmp_path, instance):
    folder = shutil.copytree(models / "half_plus_three" / "123", tmp_path / "half" / "1")
    write_json(folder / METADATA, {"example": {"instance": {"x": [1.0]}}})
    load_version(folder, limits=Limits(), on_run=print).close()
    write_json(folder / METADATA, {"example": {"instance": instance}})
    with pytest.raises(LoadError) as error:
        load_version(folder, limits=Limits(), on_run=print)
    assert error.value.code == "INVALID_ARGUMENT"
