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
    """Runs the samples of an export in this process, which saves seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saved_model, "run_in_fresh_process", run_requests)
        yield


@pytest.fixture
def not_verified(monkeypatch):
    """Writes an export without running its samples, because other tests do."""
    monkeypatch.setattr(saved_model, "run_in_fresh_process", lambda folder, requests: [])
    monkeypatch.setattr(saved_model, "_expected", lambda *_: [])


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
            FROZEN.write_text(one_line_a_signature({**frozen, name: actual}), "utf-8")
        else:
            assert actual == frozen[name]

    return compare


def one_line_a_signature(models: dict[str, dict]) -> str:
    texts = []
    for name, signatures in sorted(models.items()):
        lines = [f'  "{n}": {json.dumps(s, sort_keys=True)}' for n, s in sorted(signatures.items())]
        texts.append(f' "{name}": {{\n' + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(texts) + "\n}\n"


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
