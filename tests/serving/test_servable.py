"""A version is available after its warm-up requests have run; if one fails, it is not loaded."""

import shutil
from functools import partial

import pytest
from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef, TensorInfo

from bert_keras.exporting.warmup import WARMUP, write_warmup
from bert_keras.serving.calls import Call, Refusal
from bert_keras.serving.limits import Limits
from bert_keras.serving.model import LoadError
from bert_keras.serving.monitoring import Monitoring
from bert_keras.serving.servable import LoadedVersion, warm_up
from bert_keras.serving.versions import Versions

LOAD = partial(LoadedVersion, limits=Limits(), monitoring=Monitoring("odd"))
DOUBLED = {"signature": "strict", "inputs": {"x": [1.0, 2.0]}}
NEGATIVE = {"signature": "strict", "inputs": {"x": [-1.0]}}


class Model:
    """Records its requests and raises an error with `status` if it is set."""

    def __init__(self, status=None):
        self.status, self.asked = status, []
        self.signatures = {"strict": SignatureDef(inputs={"x": TensorInfo(dtype="DT_FLOAT")})}

    def predict(self, signature_name, tensors):
        self.asked.append((signature_name, tensors["x"].tolist()))
        if self.status:
            raise Refusal("no", status=self.status)


@pytest.fixture
def folder(models, tmp_path):
    return shutil.copytree(models / "odd" / "1", tmp_path / "odd" / "1")


def test_every_warm_up_request_is_run(folder):
    other = {"signature": "strict", "inputs": {"x": [3.0]}}
    write_warmup(folder, [DOUBLED, other, {"signature": "words", "inputs": {}}], name="odd")
    model = Model()
    warm_up(model, folder)
    assert model.asked == [("strict", [1.0, 2.0]), ("strict", [3.0])]


def test_a_folder_without_warm_up_requests_is_accepted(folder):
    warm_up(model := Model(), folder)
    assert not model.asked


def test_a_slow_warm_up_request_is_not_an_error(folder):
    write_warmup(folder, [DOUBLED, DOUBLED], name="odd")
    warm_up(model := Model(status=504), folder)
    assert len(model.asked) == 2


@pytest.mark.parametrize(
    ("status", "code"), [(400, "INVALID_ARGUMENT"), (429, "RESOURCE_EXHAUSTED"), (500, "UNKNOWN")]
)
def test_a_failing_warm_up_request_is_an_error(folder, status, code):
    write_warmup(folder, [DOUBLED], name="odd")
    with pytest.raises(LoadError, match=r"^a warm-up request of strict fails: no$") as error:
        warm_up(Model(status=status), folder)
    assert error.value.code == code


def test_the_old_version_is_served_if_a_warm_up_request_of_the_new_one_fails(folder):
    write_warmup(folder, [DOUBLED], name="odd")
    versions = Versions(folder.parent, load=LOAD)
    new = shutil.copytree(folder, folder.parent / "2")
    write_warmup(new, [DOUBLED, NEGATIVE], name="odd")
    versions.check_folder()
    versions.check_folder()
    new, old = versions.statuses(Call("odd", None, None, "status"))
    assert (new["state"], old["state"]) == ("END", "AVAILABLE")
    assert new["status"]["error_code"] == "INVALID_ARGUMENT"
    assert "a warm-up request of strict fails: " in new["status"]["error_message"]
    assert "negative" in new["status"]["error_message"]
    versions.close()


@pytest.mark.parametrize(
    ("signature", "inputs", "message"),
    [
        ("words", {"x": [1.0]}, "a warm-up request of words fails: its inputs are x"),
        ("gone", {"x": [1.0]}, 'signature name: "gone" not found in signature def'),
        ("strict", {"x": ["text"]}, "a warm-up request of strict fails: "),
    ],
)
def test_warm_up_requests_of_another_model_are_errors(folder, tmp_path, signature, inputs, message):
    """This happens if the files of a folder come from two exports."""
    import tensorflow as tf

    written = tmp_path / "written"
    module = tf.Module()
    dtype = tf.constant(inputs["x"]).dtype
    module.same = tf.function(input_signature=[tf.TensorSpec([None], dtype, "x")])(
        lambda x: {"y": tf.identity(x)}
    )
    tf.saved_model.save(module, written, signatures={signature: module.same})
    write_warmup(written, [{"signature": signature, "inputs": inputs}], name="odd")
    shutil.copytree(written / "assets.extra", folder / "assets.extra")
    with pytest.raises(LoadError) as error:
        LOAD(folder)
    assert message in str(error.value)


def test_an_incomplete_warm_up_file_is_an_error(folder):
    write_warmup(folder, [DOUBLED], name="odd")
    path = folder / WARMUP
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(LoadError, match="does not contain complete PredictionLogs") as error:
        LOAD(folder)
    assert error.value.code == "DATA_LOSS"
