"""Fixtures of the tests of exports, such as a check of names, dtypes and shapes of signatures."""

import contextlib
import json
import os
from pathlib import Path

import pytest
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from bert_keras.exporting import saved_model
from bert_keras.exporting.variants import export_variant as variant_folder
from bert_keras.exporting.verify import run_in_fresh_process, run_requests
from bert_keras.exporting.version_folder import METADATA

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
def measured(monkeypatch):
    """Sets the measurements of float32 and of the variant."""

    def measured(*, times=(1.0, 0.5), scores=(90.0, 90.0), sizes=(100, 50)):
        scores, sizes = iter(scores), iter(sizes)
        monkeypatch.setattr(
            variant_folder,
            "seconds",
            lambda models, **_: {
                n: {"1 x 5 pieces": t} for n, t in zip(models, times, strict=True)
            },
        )
        monkeypatch.setattr(variant_folder, "score", lambda run, **_: next(scores))
        monkeypatch.setattr(variant_folder, "_num_bytes", lambda folder: next(sizes))

    return measured


@pytest.fixture
def fake_exports(monkeypatch):
    """Replaces each export by a folder with empty metadata, and the loaded model by None."""

    def export(model_folder, folder, **_):
        (folder / METADATA).parent.mkdir(parents=True)
        (folder / METADATA).write_text("{}")
        return folder

    monkeypatch.setattr(variant_folder, "export_model", export)
    monkeypatch.setattr(variant_folder, "loaded", contextlib.nullcontext)


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
