import pytest
import tensorflow as tf

from bert_keras.exporting.verify import run_in_fresh_process, run_requests


@pytest.fixture
def doubler(tmp_path):
    module = tf.Module()
    module.double = tf.function(
        lambda x, name: {"y": 2 * x, "name": name},
        input_signature=[tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.string)],
    )
    tf.saved_model.save(module, str(tmp_path), signatures={"double": module.double})
    return tmp_path


def test_each_request_returns_plain_lists_without_keras(doubler, tmp_path_factory, monkeypatch):
    path = tmp_path_factory.mktemp("path")
    for name in ("keras", "jax"):
        (path / f"{name}.py").write_text("raise SystemExit('imported')")
    monkeypatch.setenv("PYTHONPATH", str(path))
    requests = [
        {"signature": "double", "inputs": {"x": [1, 2], "name": ["é", ""]}},
        {"signature": "double", "inputs": {"x": [], "name": []}},
        {"signature": "double", "inputs": {"x": [3], "name": ["né".encode()]}},
    ]
    expected = [{"y": [2, 4], "name": ["é", ""]}, {"y": [], "name": []}, {"y": [6], "name": ["né"]}]
    assert run_requests(doubler, requests) == expected
    assert run_in_fresh_process(doubler, requests) == expected


@pytest.mark.slow
def test_a_folder_that_does_not_load_raises_an_error(tmp_path):
    with pytest.raises(RuntimeError, match=r"(?s)fails in a fresh process: .*SavedModel"):
        run_in_fresh_process(tmp_path, [])
