import pytest

from bert_keras.errors import InputError
from bert_keras.exporting.version_folder import check_model_name, is_version, next_version


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a/", "a:predict"])
def test_names_that_do_not_fit_a_url_are_refused(name):
    with pytest.raises(InputError, match=r"the model's name is .*; expected a folder name"):
        check_model_name(name)


@pytest.mark.parametrize("name", ["sst2", "größe", "a b", "-x", "..."])
def test_other_names_are_accepted(name):
    check_model_name(name)


def test_the_next_version_follows_the_largest(tmp_path):
    assert next_version(tmp_path / "none") == 1
    for name in ("2", "0010", "x", "²", "-50", str(2**63)):
        (tmp_path / name).mkdir()
    assert next_version(tmp_path) == 11
    assert is_version(str(2**63 - 1)) and not is_version(str(2**63))
