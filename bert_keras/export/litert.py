"""A SavedModel comes in; the folder of a LiteRT model, formerly TensorFlow Lite, goes out."""

import os
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from bert_keras.export.metadata import METADATA

MODEL = "model.tflite"


def write_litert(saved_model: str | os.PathLike, folder: str | os.PathLike) -> Path:
    """Write `folder` with model.tflite beside the vocabulary and metadata of `saved_model`. The
    model takes what the signature `tensors` does, of any size, and gives its numbers, not its
    texts. Weights are in 8 bits, and so are products of them."""
    saved_model, folder = Path(saved_model), Path(folder)
    loaded = tf.saved_model.load(os.fspath(saved_model))
    answer = loaded.signatures["tensors"]

    @tf.function
    def numbers(**inputs):
        return {n: v for n, v in answer(**inputs).items() if v.dtype != tf.string}

    _, inputs = answer.structured_input_signature
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [numbers.get_concrete_function(**inputs)], loaded
    )
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    folder.mkdir(parents=True)
    (folder / MODEL).write_bytes(converter.convert())
    shutil.copytree(saved_model / "assets", folder / "assets")
    (folder / METADATA).parent.mkdir()
    shutil.copy(saved_model / METADATA, folder / METADATA)
    return folder


def litert_ask(folder: str | os.PathLike):
    """Answers as the signature `tensors` of the SavedModel does, without its texts."""
    with warnings.catch_warnings():  # its heir, ai-edge-litert, reads alone: another 22 MB
        warnings.filterwarnings("ignore", "(?s).*tf.lite.Interpreter is deprecated")
        interpreter = tf.lite.Interpreter(
            os.fspath(Path(folder) / MODEL), num_threads=os.cpu_count()
        )
    run = interpreter.get_signature_runner()

    def ask(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return run(**inputs)

    return ask
