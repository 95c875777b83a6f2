"""Loads a SavedModel as TF Serving does and runs requests, in this process or in a fresh one.

TF Serving loads it into a TF1 session, which fails for some graphs that `tf.saved_model.load`
accepts. The module is also a program without Keras and bert_keras: `verify.py FOLDER` reads pickled
requests and writes their pickled outputs.
"""

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

Run = Callable[[str, Mapping[str, Any]], dict[str, Any]]  # (signature, inputs) -> arrays by name


def run_in_fresh_process(folder: str | os.PathLike, requests: Sequence[dict]) -> list[dict]:
    """Returns outputs, {name: nested list}, of requests, {"signature": name, "inputs": dict}."""
    process = subprocess.run(
        [sys.executable, "-P", __file__, os.fspath(folder)],
        input=pickle.dumps(list(requests)),
        capture_output=True,
        # TensorFlow imports no Keras with TF_USE_LEGACY_KERAS, which would take seconds.
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_USE_LEGACY_KERAS": "1"},
    )
    if process.returncode:
        message = process.stderr.decode(errors="replace").strip()[-1000:]
        raise RuntimeError(f"the SavedModel fails in a fresh process: {message}")
    return pickle.loads(process.stdout)


def run_requests(folder: str | os.PathLike, requests: Sequence[dict]) -> list[dict]:
    """Does the same as `run_in_fresh_process` in this process."""
    with loaded(folder) as run:
        outputs = [to_arrays(run(each["signature"], each["inputs"])) for each in requests]
    return [{name: array.tolist() for name, array in each.items()} for each in outputs]


@contextlib.contextmanager
def loaded(folder: str | os.PathLike) -> Iterator[Run]:
    """Loads a SavedModel and yields a function that runs its signatures."""
    import numpy as np
    import tensorflow as tf
    from tensorflow.python.saved_model.loader_impl import SavedModelLoader

    register_text_ops()
    v1 = tf.compat.v1
    with contextlib.closing(v1.Session(graph=v1.Graph())) as session:
        # `tf.compat.v1.saved_model.loader.load` does the same and warns that it is deprecated.
        meta_graph: Any = SavedModelLoader(os.fspath(folder)).load(session, ["serve"])

        def run(signature: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
            definition, feeds = meta_graph.signature_def[signature], {}
            for name, values in inputs.items():
                info = definition.inputs[name]
                feeds[info.name] = np.array(values, tf.as_dtype(info.dtype).as_numpy_dtype)
            fetches = {name: info.name for name, info in definition.outputs.items()}
            return session.run(fetches, feeds)

        yield run


def to_arrays(outputs: Mapping[str, Any]) -> dict:
    """Converts outputs to arrays; bytes become str."""
    import numpy as np

    arrays = {name: np.asarray(tensor) for name, tensor in outputs.items()}
    return {
        name: np.vectorize(bytes.decode, otypes=[object])(array) if array.dtype == object else array
        for name, array in arrays.items()
    }


def register_text_ops() -> None:
    """Registers the ops of tensorflow-text, which TF Serving contains, without importing Keras."""
    import tensorflow as tf

    package = Path(cast(Any, find_spec("tensorflow_text")).origin).parent
    tf.load_library(str(package / "python" / "ops"))


if __name__ == "__main__":
    pickle.dump(run_requests(sys.argv[1], pickle.load(sys.stdin.buffer)), sys.stdout.buffer)
