"""Asks a SavedModel as TF Serving loads it, in a fresh process or in this one.

A reload in the process that wrote a model proves nothing: TF Serving loads the TF1 session way, and
that fails on some graphs that `tf.saved_model.load` reads well.

As a program, `verify.py FOLDER` loads a model so, imports neither Keras nor bert_keras, and turns
JSON on stdin into JSON on stdout: a list of {"signature": name, "inputs": {name: nested list}} into
a list of {output name: nested list}. Bytes are {"b64": base64}.
"""

import base64
import contextlib
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast


def answers_in_fresh_process(folder: str | os.PathLike, requests: Sequence[dict]) -> list[dict]:
    """Returns one dict of outputs for each request, as nested lists. Runs on the CPU.

    Raises:
        RuntimeError: The process cannot load or answer; with the end of its error output.
    """
    done = subprocess.run(
        [sys.executable, "-P", __file__, os.fspath(folder)],
        input=json.dumps(list(requests), default=_coded),
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "PYTHONUTF8": "1"},
    )
    if done.returncode:
        raise RuntimeError(
            f"the SavedModel does not answer in a fresh process: {done.stderr.strip()[-1000:]}"
        )
    return json.loads(done.stdout)


def answer(folder: str | os.PathLike, requests: Sequence[dict]) -> list[dict]:
    """The same, in this process."""
    with loaded(folder) as ask:
        return [
            {name: array.tolist() for name, array in plain(ask(request)).items()}
            for request in requests
        ]


@contextlib.contextmanager
def loaded(folder: str | os.PathLike) -> Iterator[Callable[[dict], dict]]:
    """Yields a function from a request to an array for each output, in this process."""
    import numpy as np
    import tensorflow as tf

    register_text_ops()
    v1 = tf.compat.v1
    with contextlib.closing(v1.Session(graph=v1.Graph())) as session:
        with without_deprecation_notes():
            loaded = v1.saved_model.loader.load(session, ["serve"], os.fspath(folder))
        signatures = loaded.signature_def

        def ask(request: dict) -> dict:
            signature = signatures[request["signature"]]
            feeds = {
                signature.inputs[name].name: np.array(
                    values, tf.dtypes.as_dtype(signature.inputs[name].dtype).as_numpy_dtype
                )
                for name, values in request["inputs"].items()
            }
            fetches = {name: info.name for name, info in signature.outputs.items()}
            return session.run(fetches, feeds)

        yield ask


def plain(outputs: Mapping[str, Any]) -> dict:
    """Arrays of `outputs`, with text as str."""
    import numpy as np

    arrays = {name: np.asarray(tensor) for name, tensor in outputs.items()}
    return {
        name: np.vectorize(bytes.decode, otypes=[object])(array) if array.dtype == object else array
        for name, array in arrays.items()
    }


def register_text_ops() -> None:
    """Registers tensorflow-text's ops, which TF Serving has too; its Python would import Keras."""
    import tensorflow as tf

    package = Path(cast(Any, find_spec("tensorflow_text")).origin).parent
    tf.load_library(str(package / "python" / "ops"))


@contextlib.contextmanager
def without_deprecation_notes() -> Iterator[None]:
    """Silences TensorFlow on its TF1 loader, which it calls deprecated; TF Serving loads so."""
    logger = logging.getLogger("tensorflow")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _coded(value):
    """Bytes and arrays, which JSON lacks."""
    is_bytes = isinstance(value, bytes)
    return {"b64": base64.b64encode(value).decode()} if is_bytes else value.tolist()


def _decoded(value: dict) -> dict | bytes:
    return base64.b64decode(value["b64"]) if list(value) == ["b64"] else value


if __name__ == "__main__":
    # TensorFlow imports these where it finds them, and would take twice as long.
    cast(dict[str, Any], sys.modules).update(keras=None, jax=None)
    sys.stdout.write(json.dumps(answer(sys.argv[1], json.load(sys.stdin, object_hook=_decoded))))
