"""A folder that cannot be served is refused with a message that says what to do."""

import pytest

from bert_keras.errors import InputError
from bert_keras.serving.version_folders import (
    chosen_versions,
    file_states,
    version_folders,
)


def test_the_largest_version_number_is_chosen(models):
    assert chosen_versions(models / "half_plus_two").keys() == {124}
    assert version_folders(models / "half_plus_two").keys() == {123, 124}
    chosen = chosen_versions(models / "half_plus_two", [123])
    assert [folder.name for folder in chosen.values()] == ["00000123"]


def test_folders_without_a_servable_version_are_refused(models, tmp_path):
    with pytest.raises(InputError, match="missing is not a folder; expected saved_models/NAME"):
        chosen_versions(tmp_path / "missing")
    with pytest.raises(
        InputError, match=r"contains no version folder .* which bert-keras export writes"
    ):
        chosen_versions(tmp_path)
    with pytest.raises(InputError, match=r"contains no version folder .* give its parent folder"):
        chosen_versions(models / "texty" / "1")
    (tmp_path / "3").mkdir()
    with pytest.raises(InputError, match=r"3 is not a SavedModel: it has no saved_model\.pb"):
        chosen_versions(tmp_path)
    with pytest.raises(InputError, match="does not contain version 4; it contains 123, 124"):
        chosen_versions(models / "half_plus_two", [4])


def test_file_states_differ_while_a_file_grows(tmp_path):
    (tmp_path / "variables").mkdir()
    (tmp_path / "variables" / "data").write_bytes(b"1")
    before = file_states(tmp_path)
    assert before == file_states(tmp_path)
    (tmp_path / "variables" / "data").write_bytes(b"12")
    assert file_states(tmp_path) != before
    assert file_states(tmp_path / "gone") == frozenset()
