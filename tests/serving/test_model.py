"""A folder that cannot be served is refused with the sentence that says what to do."""

import shutil

import pytest

from bert_keras.errors import InputError
from bert_keras.serving.model import ServedModel, latest_version


def test_the_largest_number_is_the_latest_version(models):
    assert latest_version(models / "half_plus_two").name == "124"


def test_folders_without_a_servable_version(models, tmp_path):
    with pytest.raises(InputError, match="missing is not a folder; expected saved_models/NAME"):
        latest_version(tmp_path / "missing")
    with pytest.raises(InputError, match=r"holds no version folder .* export a model first"):
        latest_version(tmp_path)
    with pytest.raises(InputError, match=r"holds no version folder .* give its parent folder"):
        latest_version(models / "texty" / "1")
    (tmp_path / "3").mkdir()
    with pytest.raises(InputError, match=r"3 is not a SavedModel: it has no saved_model\.pb"):
        latest_version(tmp_path)


def test_broken_saved_models(models, tmp_path):
    broken = tmp_path / "graph" / "1"
    shutil.copytree(models / "keras_tiny" / "1", broken)
    (broken / "saved_model.pb").write_bytes(b"no graph")
    with pytest.raises(InputError, match=r"graph/1 cannot be loaded as a SavedModel \(.+\)"):
        ServedModel(broken.parent)
    broken = tmp_path / "weights" / "1"
    shutil.copytree(models / "keras_tiny" / "1", broken)
    (broken / "variables" / "variables.data-00000-of-00001").write_bytes(b"")
    with pytest.raises(InputError, match=r"weights/1 cannot be loaded as a SavedModel \(.+\)"):
        ServedModel(broken.parent)
