from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from bert_keras.errors import InputError
from bert_keras.exporting.version_folder import (
    check_model_name,
    export_next_version,
    is_version,
    next_version,
)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a/", "a:b", "a\n", "\udcff"])
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


def test_exports_at_the_same_time_get_different_versions(tmp_path):
    barrier = Barrier(4)

    def export(folder):
        assert folder.parent.name == "sst2"
        folder.mkdir(parents=True)
        (folder / "saved_model.pb").touch()
        barrier.wait()  # all end at the same time

    with ThreadPoolExecutor() as pool:
        jobs = [pool.submit(export_next_version, export, tmp_path / "sst2") for _ in range(4)]
    versions = sorted(job.result().name for job in jobs)
    assert versions == sorted(path.name for path in (tmp_path / "sst2").iterdir()) == [*"1234"]


def test_a_failed_export_leaves_no_folder(tmp_path):
    with pytest.raises(ZeroDivisionError):
        export_next_version(lambda folder: 1 / 0, tmp_path / "models" / "sst2")
    assert not [*tmp_path.iterdir()]
