import os

import keras
import numpy as np
import pytest

from bert_keras.checkpoints.safetensors_file import stored_tensors, write_tensors
from bert_keras.checkpoints.tensors import StoredTensor, empty, tensor
from bert_keras.errors import InputError


def test_a_variable_shares_the_memory_of_an_array():
    array = empty((1000, 7))
    assert (array.dtype, array.shape, array.ctypes.data % 64) == (np.float32, (1000, 7), 0)
    array[:] = 1
    shared = tensor(array)
    array[0, 0] = 5  # what nobody may do: it shows that the two are one
    assert shared.numpy()[0, 0] == 5
    variable = keras.Variable(shared)
    variable.assign_add(keras.ops.ones((1000, 7)))
    assert variable.numpy()[1, 1] == 2


@pytest.mark.parametrize("kind", ["off the border", "read only", "transposed"])
def test_other_arrays_are_copied(kind):
    array = empty((8, 8))
    array[:] = np.arange(64).reshape(8, 8)
    other = {"off the border": array[1:, 1:], "transposed": array.T}.get(kind, array)
    other.flags.writeable = kind != "read only"
    np.testing.assert_array_equal(keras.Variable(tensor(other)), other)


def test_empty_and_scalar_shapes():
    assert tensor(empty((0, 3))).shape == (0, 3)
    assert empty(()).shape == ()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64"])
def test_other_dtypes_are_read_as_float32(tmp_path, dtype):
    import ml_dtypes
    from safetensors.numpy import save_file

    dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    values = np.arange(-6, 6).reshape(3, 4)
    save_file({"a": values.astype(dtype), "b": np.ones((), dtype)}, tmp_path / "x.safetensors")
    stored = stored_tensors(tmp_path / "x.safetensors")
    assert (stored["a"].shape, stored["b"].shape) == ((3, 4), ())
    assert stored["a"].read().dtype == np.float32
    np.testing.assert_array_equal(stored["a"].read(), values)


def test_missing_and_damaged_files_are_refused(tmp_path):
    path = tmp_path / "x.safetensors"
    with pytest.raises(InputError, match=r"x.safetensors does not exist; expected a file"):
        stored_tensors(path)
    ones = np.ones((100, 10), np.float32)
    write_tensors(path, {"a": StoredTensor(ones.shape, lambda: ones)})
    stored = stored_tensors(path)
    os.truncate(path, 1000)
    with pytest.raises(InputError, match=r"became shorter while it was read; copy it again"):
        stored["a"].read()
    with pytest.raises(
        InputError, match=r"x.safetensors is damaged \(.*\); copy or write it again"
    ):
        stored_tensors(path)
    path.write_bytes(b"")
    with pytest.raises(InputError, match=r"x.safetensors is damaged"):
        stored_tensors(path)
