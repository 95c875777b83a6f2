import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from bert_keras.checkpoints.safetensors_file import header_strings, stored_tensors, write_tensors
from bert_keras.checkpoints.tensors import STRIP_ROWS, StoredTensor
from bert_keras.errors import InputError


def lazy(arrays):
    return {name: StoredTensor(array.shape, lambda a=array: a) for name, array in arrays.items()}


@pytest.fixture
def arrays():
    random = np.random.default_rng(0)
    shapes = {
        "b": (3, 4),
        "a": (5,),
        "ß": (),
        "c": (2, 0),
        "d": (2 * STRIP_ROWS + 3, 7),
        "e": (7, 3),
    }
    return {name: random.normal(size=s).astype(np.float32) for name, s in shapes.items()}


@pytest.mark.parametrize("strings", [None, {"format": "pt"}])
def test_the_bytes_equal_those_of_safetensors(tmp_path, arrays, strings):
    write_tensors(tmp_path / "ours", lazy(arrays), metadata=strings)
    save_file(arrays, tmp_path / "theirs", strings)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert header_strings(tmp_path / "ours") == (strings or {})
    assert load_file(tmp_path / "ours")["d"].tobytes() == arrays["d"].tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_arrays_are_read_and_transposed(tmp_path, arrays, dtype):
    arrays = {name: array.astype(dtype) for name, array in arrays.items()}
    save_file(arrays, tmp_path / "x.safetensors")
    stored = stored_tensors(tmp_path / "x.safetensors")
    for name, array in arrays.items():
        expected = array.astype(np.float32)
        assert (stored[name].shape, stored[name].dtype) == (array.shape, dtype)
        np.testing.assert_array_equal(stored[name].read(), expected)
        if array.ndim == 2:
            transpose = stored[name].transposed()
            assert transpose.shape == transpose.read().shape == array.shape[::-1]
            assert transpose.read().flags.c_contiguous
            np.testing.assert_array_equal(transpose.read(), expected.T)


def test_arrays_are_read_lazily(tmp_path, arrays):
    save_file(arrays, tmp_path / "x.safetensors")
    stored = stored_tensors(tmp_path / "x.safetensors")["d"].transposed()
    with (tmp_path / "x.safetensors").open("r+b") as file:
        file.truncate(800)
    with pytest.raises(InputError, match=r"x.safetensors became shorter while it was read"):
        stored.read()


@pytest.mark.parametrize("dtype", ["int8", "bool", "int32"])
def test_unsupported_dtypes_are_refused(tmp_path, dtype):
    save_file({"a": np.ones(3, dtype)}, tmp_path / "x.safetensors")
    with pytest.raises(InputError, match=r"x.safetensors: a has the dtype .*; expected F32"):
        stored_tensors(tmp_path / "x.safetensors")
