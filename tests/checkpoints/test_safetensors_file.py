import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from bert_keras.checkpoints.safetensors_file import metadata, stored_tensors, write_tensors
from bert_keras.checkpoints.tensors import STRIP, StoredTensor
from bert_keras.errors import InputError


def lazy(arrays):
    return {name: StoredTensor(array.shape, lambda a=array: a) for name, array in arrays.items()}


@pytest.fixture
def arrays():
    random = np.random.default_rng(0)
    shapes = {"b": (3, 4), "a": (5,), "ß": (), "c": (2, 0), "d": (2 * STRIP + 3, 7), "e": (7, 3)}
    return {name: random.normal(size=s).astype(np.float32) for name, s in shapes.items()}


@pytest.mark.parametrize("told", [None, {"format": "pt"}])
def test_the_bytes_are_those_of_the_library(tmp_path, arrays, told):
    write_tensors(tmp_path / "ours", lazy(arrays), metadata=told)
    save_file(arrays, tmp_path / "theirs", told)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert metadata(tmp_path / "ours") == (told or {})
    assert load_file(tmp_path / "ours")["d"].tobytes() == arrays["d"].tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_arrays_come_whole_or_transposed(tmp_path, arrays, dtype):
    arrays = {name: array.astype(dtype) for name, array in arrays.items()}
    save_file(arrays, tmp_path / "x.safetensors")
    stored = stored_tensors(tmp_path / "x.safetensors")
    for name, array in arrays.items():
        expected = array.astype(np.float32)
        assert (stored[name].shape, stored[name].dtype) == (array.shape, dtype)
        np.testing.assert_array_equal(stored[name].read(), expected)
        if array.ndim == 2:
            turned = stored[name].transposed()
            assert turned.shape == turned.read().shape == array.shape[::-1]
            assert turned.read().flags.c_contiguous
            np.testing.assert_array_equal(turned.read(), expected.T)


def test_nothing_is_read_before_it_is_asked_for(tmp_path, arrays):
    save_file(arrays, tmp_path / "x.safetensors")
    stored = stored_tensors(tmp_path / "x.safetensors")["d"].transposed()
    with (tmp_path / "x.safetensors").open("r+b") as file:
        file.truncate(800)
    with pytest.raises(InputError, match=r"x.safetensors has become shorter while it was read"):
        stored.read()


@pytest.mark.parametrize("dtype", ["int8", "bool", "int32"])
def test_numbers_that_are_no_weights(tmp_path, dtype):
    save_file({"a": np.ones(3, dtype)}, tmp_path / "x.safetensors")
    with pytest.raises(InputError, match=r"x.safetensors: a is of .*; expected F32, F64, F16"):
        stored_tensors(tmp_path / "x.safetensors")
