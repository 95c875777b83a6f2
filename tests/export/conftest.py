"""What the tests of exports share: a check of names, dtypes, shapes and methods of signatures."""

import json
import os
from pathlib import Path

import pytest
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from bert_keras.export import saved_model
from bert_keras.export.verify import answer, answers_in_fresh_process

FROZEN = Path(__file__).with_name("signatures.json")


@pytest.fixture(scope="module", autouse=True)
def verified_here():
    """An export asks its samples in this process, TF Serving's way too: seconds less.

    Tests of the fresh process take `verified_freshly`.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saved_model, "answers_in_fresh_process", answer)
        yield


@pytest.fixture
def not_verified(monkeypatch):
    """An export of which other tests verify the like is written and not asked."""
    monkeypatch.setattr(saved_model, "answers_in_fresh_process", lambda folder, requests: [])


@pytest.fixture
def verified_freshly(monkeypatch):
    """An export asks its samples as a user's does."""
    monkeypatch.setattr(saved_model, "answers_in_fresh_process", answers_in_fresh_process)


@pytest.fixture
def assert_frozen():
    """Compares the signatures of a written folder with those that signatures.json has for `name`.

    They are a promise to clients. To change it on purpose, and to see the change in the diff:

        REWRITE_SIGNATURES=1 pytest tests/export
    """

    def compare(name: str, folder: Path) -> None:
        found, frozen = signatures_of(folder), json.loads(FROZEN.read_text("utf-8"))
        if os.environ.get("REWRITE_SIGNATURES"):
            text = json.dumps({**frozen, name: found}, indent=1, sort_keys=True)
            FROZEN.write_text(f"{text}\n", "utf-8")
        else:
            assert found == frozen[name]

    return compare


def signatures_of(folder: Path) -> dict[str, dict]:
    (meta_graph,) = SavedModel.FromString((folder / "saved_model.pb").read_bytes()).meta_graphs

    def told(infos) -> dict[str, str]:
        return {
            name: f"{tf.dtypes.as_dtype(info.dtype).name} "
            f"{[dim.size for dim in info.tensor_shape.dim]}"
            for name, info in infos.items()
        }

    return {
        name: {
            "method": signature.method_name,
            "inputs": told(signature.inputs),
            "outputs": told(signature.outputs),
        }
        for name, signature in meta_graph.signature_def.items()
        if name != "__saved_model_init_op"
    }
