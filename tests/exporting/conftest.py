"""Fixtures of the tests of exports, such as a check of names, dtypes and shapes of signatures."""

import json
import os
from pathlib import Path

import pytest
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from bert_keras.exporting import saved_model
from bert_keras.exporting.verify import run_in_fresh_process, run_requests

FROZEN = Path(__file__).with_name("signatures.json")


@pytest.fixture(scope="module", autouse=True)
def verified_in_this_process():
    """Runs the samples of an export in this process, which saves seconds.

    Tests of the fresh process use `verified_in_fresh_process`.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saved_model, "run_in_fresh_process", run_requests)
        yield


@pytest.fixture
def not_verified(monkeypatch):
    """Writes an export without running its samples, because other tests do."""
    monkeypatch.setattr(saved_model, "run_in_fresh_process", lambda folder, requests: [])


@pytest.fixture
def verified_in_fresh_process(monkeypatch):
    """Runs the samples of an export in a fresh process, as users do."""
    monkeypatch.setattr(saved_model, "run_in_fresh_process", run_in_fresh_process)


@pytest.fixture
def assert_frozen():
    """Compares the signatures of a written folder with those that signatures.json has for `name`.

    Clients depend on them. To change them on purpose, and to see the change in the diff:

        REWRITE_SIGNATURES=1 pytest tests/exporting
    """

    def compare(name: str, folder: Path) -> None:
        actual, frozen = signatures_of(folder), json.loads(FROZEN.read_text("utf-8"))
        if os.environ.get("REWRITE_SIGNATURES"):
            text = json.dumps({**frozen, name: actual}, indent=1, sort_keys=True)
            FROZEN.write_text(f"{text}\n", "utf-8")
        else:
            assert actual == frozen[name]

    return compare


def signatures_of(folder: Path) -> dict[str, dict]:
    (meta_graph,) = SavedModel.FromString((folder / "saved_model.pb").read_bytes()).meta_graphs

    def described(infos) -> dict[str, str]:
        return {
            name: f"{tf.dtypes.as_dtype(info.dtype).name} "
            f"{[dim.size for dim in info.tensor_shape.dim]}"
            for name, info in infos.items()
        }

    return {
        name: {
            "method": signature.method_name,
            "inputs": described(signature.inputs),
            "outputs": described(signature.outputs),
        }
        for name, signature in meta_graph.signature_def.items()
        if name != "__saved_model_init_op"
    }
