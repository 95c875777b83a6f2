"""A SavedModel is loaded and run, or the error has TensorFlow's code and message."""

import shutil

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.exporting.verify import loaded
from bert_keras.serving.app import create_app
from bert_keras.serving.calls import Refusal
from bert_keras.serving.model import LoadError, ServedModel
from bert_keras.serving.responses import error_body


@pytest.fixture
def broken(models, tmp_path):
    return shutil.copytree(models / "keras_tiny" / "1", tmp_path / "broken" / "1")


def test_folders_of_any_name_are_loaded(models, tmp_path):
    folder = shutil.copytree(models / "keras_tiny" / "1", tmp_path / "<[a]>\\ '?\"" / "1")
    ServedModel(folder).close()
    with loaded(folder):
        pass


def test_incomplete_models_are_not_loaded(broken):
    data = broken / "variables" / "variables.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(LoadError) as error:
        ServedModel(broken)
    assert (error.value.code, str(error.value)) == (
        "OUT_OF_RANGE",
        "Read less bytes than requested",
    )
    (broken / "saved_model.pb").write_bytes(b"no graph")
    with pytest.raises(LoadError) as error:
        ServedModel(broken)
    assert error.value.code == "DATA_LOSS"
    (broken / "saved_model.pb").unlink()
    with pytest.raises(LoadError) as error:
        ServedModel(broken)
    assert error.value.code == "NOT_FOUND"


def test_a_server_does_not_start_with_an_incomplete_model(broken):
    (broken / "saved_model.pb").write_bytes(b"no graph")
    with pytest.raises(InputError, match=r"broken/1 cannot be loaded as a SavedModel \(.+\); expo"):
        create_app(broken.parent)


@pytest.mark.parametrize(
    ("name", "inputs", "are_rows"),
    [
        ("serving_default", {"sentences": np.array([b"a", b"b"], object)}, True),
        ("serving_default", {"sentences": np.array([[b"a", b"b"]], object)}, False),
        ("serving_default", {"sentences": np.array(b"a", object)}, False),
        ("multi", {"a": np.zeros([3, 2]), "b": np.zeros(3)}, True),
        ("multi", {"a": np.zeros([3, 5]), "b": np.zeros(3)}, False),
        ("agg", {"a": np.zeros([3, 2])}, False),
        ("scalar", {"s": np.zeros([3])}, False),
    ],
)
def test_row_wise_signatures(texty, name, inputs, are_rows):
    assert texty.is_row_wise(name, inputs) == are_rows


@pytest.fixture(scope="module")
def texty(models):
    model = ServedModel(models / "texty" / "1")
    yield model
    model.close()


def test_a_run_has_a_time_limit(models):
    model = ServedModel(models / "odd" / "1", seconds=0.3)
    assert model.predict("slow", {"n": np.int32([3])})["y"].tolist() == [3]
    with pytest.raises(Refusal) as refusal:
        model.predict("slow", {"n": np.int32([2**31 - 1])})
    assert refusal.value.status == 504
    model.close()


def test_an_op_whose_message_is_not_utf8(tmp_path):
    import tensorflow as tf

    module = tf.Module()
    module.number = tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])(
        lambda text: {"number": tf.strings.to_number(text)}
    )
    tf.saved_model.save(module, tmp_path / "1", signatures={"number": module.number})
    model = ServedModel(tmp_path / "1")
    with pytest.raises(Refusal, match="could not correctly convert string: ") as refusal:
        model.predict("number", {"text": np.array([b"n\xff"], object)})
    assert refusal.value.status == 400
    assert b"n\xff" in error_body(str(refusal.value))  # byte for byte, as TF Serving quotes it
    assert model.predict("number", {"text": np.array([b"2"], object)})["number"].tolist() == [2]
    model.close()
