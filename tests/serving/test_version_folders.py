"""A folder that cannot be served is refused with the sentence that says what to do."""

import pytest

from bert_keras.errors import InputError
from bert_keras.serving.version_folders import (
    chosen_versions,
    files_of,
    version_folders,
)


def test_the_largest_number_is_the_chosen_versions(models):
    assert chosen_versions(models / "half_plus_two").keys() == {124}
    assert version_folders(models / "half_plus_two").keys() == {123, 124}
    chosen = chosen_versions(models / "half_plus_two", [123])
    assert [folder.name for folder in chosen.values()] == ["00000123"]


def test_folders_without_a_servable_version(models, tmp_path):
    with pytest.raises(InputError, match="missing is not a folder; expected saved_models/NAME"):
        chosen_versions(tmp_path / "missing")
    with pytest.raises(InputError, match=r"holds no version folder .* export a model first"):
        chosen_versions(tmp_path)
    with pytest.raises(InputError, match=r"holds no version folder .* give its parent folder"):
        chosen_versions(models / "texty" / "1")
    (tmp_path / "3").mkdir()
    with pytest.raises(InputError, match=r"3 is not a SavedModel: it has no saved_model\.pb"):
        chosen_versions(tmp_path)
    with pytest.raises(InputError, match="holds no version 4; it holds 123, 124"):
        chosen_versions(models / "half_plus_two", [4])


def test_files_differ_while_they_grow(tmp_path):
    (tmp_path / "variables").mkdir()
    (tmp_path / "variables" / "data").write_bytes(b"1")
    before = files_of(tmp_path)
    assert before == files_of(tmp_path)
    (tmp_path / "variables" / "data").write_bytes(b"12")
    assert files_of(tmp_path) != before
    assert files_of(tmp_path / "gone") == frozenset()
