"""Runs requests of a version folder as the local server does, here or in a fresh process."""

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras.files import StrPath
from bert_keras.serving.versions import open_model


def run_in_fresh_process(
    folder: StrPath, requests: Sequence[dict], *, format: str | None = None
) -> list[dict]:
    """Returns outputs, {name: nested list}, of requests, {"signature": name, "inputs": dict}.

    The process imports no Keras, and no TensorFlow for the format "litert". Raises RuntimeError if
    it fails.
    """
    process = subprocess.run(
        [sys.executable, "-P", "-m", __name__],
        input=pickle.dumps((os.fspath(folder), list(requests), format)),
        capture_output=True,
        # TensorFlow imports no Keras with TF_USE_LEGACY_KERAS, which would take seconds.
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_USE_LEGACY_KERAS": "1"},
    )
    if process.returncode:
        message = process.stderr.decode(errors="replace").strip()[-1000:]
        raise RuntimeError(f"the exported model fails in a fresh process: {message}")
    return pickle.loads(process.stdout)


def run_requests(
    folder: StrPath, requests: Sequence[dict], *, format: str | None = None
) -> list[dict]:
    """Does the same as `run_in_fresh_process` in this process."""
    encode = np.vectorize(str.encode, otypes=[object])
    outputs = []
    with contextlib.closing(open_model(Path(folder), format=format)) as model:
        for request in requests:
            types = model.inputs[request["signature"]]
            arrays = {
                name: encode(values) if types[name] == "string" else np.array(values, np.int32)
                for name, values in request["inputs"].items()
            }
            outputs.append(to_arrays(model.predict(request["signature"], arrays)))
    return [{name: array.tolist() for name, array in each.items()} for each in outputs]


def to_arrays(outputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Converts outputs to arrays; bytes become str."""
    arrays = {name: np.asarray(tensor) for name, tensor in outputs.items()}
    return {
        name: np.vectorize(bytes.decode, otypes=[object])(array) if array.dtype == object else array
        for name, array in arrays.items()
    }


if __name__ == "__main__":
    folder, requests, format = pickle.load(sys.stdin.buffer)
    pickle.dump(run_requests(folder, requests, format=format), sys.stdout.buffer)
