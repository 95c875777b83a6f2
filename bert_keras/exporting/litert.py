"""Writes a model in LiteRT's format."""

import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from tensorflow.core.framework.types_pb2 import DataType

from bert_keras.errors import require
from bert_keras.exporting.servable import Signature, input_specs
from bert_keras.serving.verify import to_arrays

# Runs pickled requests of a version folder in a process without TensorFlow and Keras.
_PROGRAM = """
import pickle, sys
from pathlib import Path
import numpy as np
from bert_keras.serving.litert import LiteModel
model = LiteModel(Path(sys.argv[1]))
requests = pickle.load(sys.stdin.buffer)
arrays = lambda inputs: {name: np.array(values) for name, values in inputs.items()}
outputs = [model.predict(each["signature"], arrays(each["inputs"])) for each in requests]
assert not {"tensorflow", "keras"} & {*sys.modules}
pickle.dump(outputs, sys.stdout.buffer)
"""


def write_litert(
    model: keras.Model, specs: Mapping[str, tf.TensorSpec], path: Path, *, is_int8: bool = False
) -> None:
    """Converts a Keras model to a LiteRT file whose inputs have the sizes of each call.

    Args:
        model: The model, which is called with the inputs of `specs` by name.
        specs: Specs of int32 tensors; dimensions that are None may have any size.
        path: The file to write.
        is_int8: Whether to store the kernels of dense layers and the embeddings in 8 bits. LiteRT
            then multiplies them with activations that it rounds to 8 bits at run time.
    """
    require("ai_edge_litert", what="the format litert", extra="litert")

    def logits(**inputs):
        outputs = model(inputs, training=False)
        return outputs if isinstance(outputs, dict) else {"logits": outputs}

    traceable: Any = tf.function(logits, autograph=False)
    function = traceable.get_concrete_function(**specs)
    module: Any = tf.Module()
    module.weights = [each.value for each in model.weights]
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], module)
    if is_int8:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    path.write_bytes(converter.convert())


def signature_definitions(signatures: Mapping[str, Signature]) -> dict[str, dict]:
    """Returns the SignatureDefs of signatures as TF Serving's metadata response shows them."""

    def infos(name: str, specs: Mapping[str, Any]) -> dict[str, dict]:
        return {
            each: {
                "dtype": DataType.Name(spec.dtype.as_datatype_enum),
                "tensor_shape": {
                    "dim": [{"size": str(size or -1), "name": ""} for size in spec.shape],
                    "unknown_rank": False,
                },
                "name": f"{name}_{each}:0",
            }
            for each, spec in sorted(specs.items())
        }

    return {
        name: {
            "inputs": infos(name, input_specs(signature)),
            "outputs": infos(name, signature.structured_outputs),
            "method_name": "tensorflow/serving/predict",
            "defaults": {},
        }
        for name, signature in signatures.items()
    }


def run_without_tensorflow(folder: str | os.PathLike, requests: Sequence[dict]) -> list[dict]:
    """Returns the outputs, nested lists by name, of requests to a folder's LiteRT model.

    Raises RuntimeError if the model fails in a process without TensorFlow and Keras.
    """
    process = subprocess.run(
        [sys.executable, "-c", _PROGRAM, os.fspath(folder)],
        input=pickle.dumps(list(requests)),
        capture_output=True,
    )
    if process.returncode:
        message = process.stderr.decode(errors="replace").strip()[-1000:]
        raise RuntimeError(f"the LiteRT model fails in a fresh process: {message}")
    outputs = [to_arrays(each) for each in pickle.loads(process.stdout)]
    return [{name: array.tolist() for name, array in each.items()} for each in outputs]
