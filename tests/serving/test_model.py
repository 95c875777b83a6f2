"""A SavedModel is loaded, warmed up and run, or the error has TensorFlow's code and message."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.exporting.version_folder import METADATA
from bert_keras.exporting.warmup import WARMUP, write_warmup
from bert_keras.serving.limits import Limits
from bert_keras.serving.model import LoadError, ServedModel
from bert_keras.serving.requests import Refusal
from bert_keras.serving.versions import load_version
from tests.serving.conftest import save, spec

DOUBLED = {"signature": "strict", "inputs": {"x": [1.0, 2.0]}}
NEGATIVE = {"signature": "strict", "inputs": {"x": [-1.0]}}


@pytest.fixture
def tiny(models, tmp_path):
    return shutil.copytree(models / "keras_tiny" / "1", tmp_path / "tiny" / "1")


@pytest.fixture
def odd(models, tmp_path):
    return shutil.copytree(models / "odd" / "1", tmp_path / "odd" / "1")


def load_error(load):
    with pytest.raises(LoadError) as error:
        load()
    return error.value.code, str(error.value)


def test_incomplete_models_are_not_loaded(tiny):
    data = tiny / "variables" / "variables.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-1])
    expected = ("OUT_OF_RANGE", "Read less bytes than requested")
    assert load_error(lambda: ServedModel(tiny)) == expected
    (tiny / "saved_model.pb").write_bytes(b"no graph")
    assert load_error(lambda: ServedModel(tiny))[0] == "DATA_LOSS"
    (tiny / "saved_model.pb").unlink()
    assert load_error(lambda: ServedModel(tiny))[0] == "NOT_FOUND"


def test_a_signature_computes_row_by_row_if_its_shapes_say_so(models):
    model = ServedModel(models / "texty" / "1")
    for name, inputs, expected in (
        ("serving_default", {"sentences": np.array([b"a", b"b"], object)}, True),
        ("serving_default", {"sentences": np.array([[b"a", b"b"]], object)}, False),
        ("multi", {"a": np.zeros([3, 2]), "b": np.zeros(3)}, True),
        ("multi", {"a": np.zeros([3, 5]), "b": np.zeros(3)}, False),
        ("agg", {"a": np.zeros([3, 2])}, False),
        ("scalar", {"s": np.zeros([3])}, False),
    ):
        assert model.is_row_wise(name, inputs) == expected
    model.close()


def test_only_exports_of_this_package_compute_row_by_row(tiny):
    x = {"x": np.zeros([1, 3])}
    assert not ServedModel(tiny).is_row_wise("serving_default", x)
    (tiny / METADATA).parent.mkdir()
    (tiny / METADATA).write_text("{}")
    assert ServedModel(tiny).is_row_wise("serving_default", x)


def test_a_run_has_a_time_limit(odd):
    model = ServedModel(odd, seconds=0.3)
    assert model.predict("slow", {"n": np.int32([3])})["y"].tolist() == [3]
    with pytest.raises(Refusal) as refusal:
        model.predict("slow", {"n": np.int32([2**31 - 1])})
    assert refusal.value.status == 504
    model.close()


def test_an_op_whose_message_is_not_utf8(tmp_path):
    texts = spec("text", tf.string, None)
    save(tmp_path / "1", {"number": (lambda text: {"number": tf.strings.to_number(text)}, texts)})
    model = ServedModel(tmp_path / "1")
    with pytest.raises(Refusal, match="could not correctly convert string: n\ufffd") as refusal:
        model.predict("number", {"text": np.array([b"n\xff"], object)})
    assert refusal.value.status == 400
    assert model.predict("number", {"text": np.array([b"2"], object)})["number"].tolist() == [2]
    model.close()


def test_every_warm_up_request_is_run_and_a_slow_one_is_no_error(odd, monkeypatch):
    def predict(self, name, inputs):
        runs.append(name)
        raise Refusal("slow", status=504)

    write_warmup(odd, [DOUBLED, {"signature": "words", "inputs": {"text": ["a"]}}], name="odd")
    runs = []
    monkeypatch.setattr(ServedModel, "predict", predict)
    load_version(odd, limits=Limits(), on_run=print).close()
    assert runs == ["strict", "words"]


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        (NEGATIVE, "INVALID_ARGUMENT", "a warm-up request of strict fails: .*negative"),
        ({"signature": "words", "inputs": {"x": [1.0]}}, "INVALID_ARGUMENT", "its inputs are x"),
        ({"signature": "gone", "inputs": {"x": [1.0]}}, "INVALID_ARGUMENT", "its inputs are x"),
        ({"signature": "strict", "inputs": {"x": ["text"]}}, "INVALID_ARGUMENT", "strict fails"),
    ],
)
def test_a_version_whose_warm_up_request_fails_is_not_loaded(odd, request_, code, message):
    write_warmup(odd, [DOUBLED, request_], name="odd")
    with pytest.raises(LoadError, match=f"(?s){message}") as error:
        load_version(odd, limits=Limits(), on_run=print)
    assert error.value.code == code


def test_an_incomplete_warm_up_file_is_an_error(odd):
    write_warmup(odd, [DOUBLED], name="odd")
    (odd / WARMUP).write_bytes((odd / WARMUP).read_bytes()[:-3])
    load = lambda: load_version(odd, limits=Limits(), on_run=print)  # noqa: E731
    assert load_error(load)[0] == "DATA_LOSS"
