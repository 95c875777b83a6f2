"""Fixtures of the tests of exports, such as a check of names, dtypes and shapes of signatures."""

import json
import os
from pathlib import Path

import pytest
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from bert_keras.exporting import export as export_module
from bert_keras.exporting.verify import run_requests
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

WORDS = "he she opens the cafe ##s door sings sleeps 東 , . [ ] mask ignore x"
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *WORDS.split()))
TOKENIZER = WordPieceTokenizer(VOCABULARY, lowercase=True)
FROZEN = Path(__file__).with_name("signatures.json")
# The ops of TensorFlow 2.20 and tensorflow-text 2.20, of which TF Serving 2.20 is built, from
# TF_GetAllOpList in an environment with the two packages, without the three that call Python.
SERVING_OPS = {*Path(__file__).with_name("serving_ops_2_20.txt").read_text().split()}


@pytest.fixture(scope="module", autouse=True)
def verified_in_this_process(request):
    """Runs the samples of an export in this process, which saves seconds.

    The tests in signatures/ compare the outputs themselves, so they do not run any samples.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export_module, "run_in_fresh_process", run_requests)
        if request.path.parent.name == "signatures":
            without_verification(patch)
        yield


def without_verification(patch):
    patch.setattr(export_module, "run_in_fresh_process", lambda *_, **__: [{}])
    patch.setattr(export_module, "_expected", lambda *_: [])


@pytest.fixture
def not_verified(monkeypatch):
    """Writes an export without running its samples, because other tests do."""
    without_verification(monkeypatch)


@pytest.fixture
def assert_frozen():
    """Checks the ops of a written folder, and compares its signatures with signatures.json.

    Clients depend on the signatures. To change them on purpose, and to see the change in the diff:

        REWRITE_SIGNATURES=1 pytest tests/exporting
    """

    def compare(name: str, folder: Path) -> None:
        (meta_graph,) = SavedModel.FromString((folder / "saved_model.pb").read_bytes()).meta_graphs
        assert {op.name for op in meta_graph.meta_info_def.stripped_op_list.op} <= SERVING_OPS
        signatures = meta_graph.signature_def.items()
        actual = {n: described(s) for n, s in signatures if n != "__saved_model_init_op"}
        frozen = json.loads(FROZEN.read_text("utf-8"))
        if os.environ.get("REWRITE_SIGNATURES"):
            frozen[name] = actual
            FROZEN.write_text(json.dumps(frozen, indent=1, sort_keys=True) + "\n", "utf-8")
        assert actual == frozen[name]

    return compare


def described(signature) -> str:
    """Returns the names, types and shapes of a signature, as "text string[-1] -> ..."."""

    def tensors(infos) -> str:
        return ", ".join(
            f"{name} {tf.dtypes.as_dtype(info.dtype).name}"
            f"{[dim.size for dim in info.tensor_shape.dim]}"
            for name, info in sorted(infos.items())
        )

    return f"{tensors(signature.inputs)} -> {tensors(signature.outputs)}"
