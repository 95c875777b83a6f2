"""Converts SavedModels to LiteRT (formerly TensorFlow Lite) models."""

import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import tensorflow as tf

from bert_keras.exporting.servable import traced
from bert_keras.exporting.variants.measuring import Run
from bert_keras.exporting.version_folder import METADATA

MODEL = "model.tflite"


def write_litert(saved_model: str | os.PathLike, folder: str | os.PathLike) -> Path:
    """Writes model.tflite and copies of the vocabulary and metadata of a SavedModel.

    The LiteRT model takes the inputs of the signature `tensors`, of any batch size and length, and
    returns its numeric outputs. The weights and the matrix products with them have 8 bits.

    Args:
        saved_model: The folder of the SavedModel.
        folder: The folder to create.

    Returns:
        The path of `folder`.
    """
    saved_model, folder = Path(saved_model), Path(folder)
    loaded = tf.saved_model.load(os.fspath(saved_model))
    tensors = loaded.signatures["tensors"]

    def numeric(**inputs):
        return {n: v for n, v in tensors(**inputs).items() if v.dtype != tf.string}

    _, inputs = tensors.structured_input_signature
    function: Any = traced(numeric, **inputs)
    # It does not track the tables of the tokenizer, which LiteRT cannot store.
    tracked: Any = tf.Module()
    tracked.weights = list(function.variables)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], tracked)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    folder.mkdir(parents=True)
    (folder / MODEL).write_bytes(converter.convert())
    shutil.copytree(saved_model / "assets", folder / "assets")
    (folder / METADATA).parent.mkdir()
    shutil.copy(saved_model / METADATA, folder / METADATA)
    return folder


def litert_run(folder: str | os.PathLike) -> Run:
    """Returns a function that runs the LiteRT model in `folder`.

    The function has the inputs and outputs of the SavedModel's signature `tensors`, without string
    outputs.
    """
    # tf.lite.Interpreter is deprecated. Its successor, ai-edge-litert, is one more package (22 MB).
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*tf.lite.Interpreter is deprecated")
        interpreter = tf.lite.Interpreter(
            os.fspath(Path(folder) / MODEL), num_threads=os.cpu_count()
        )
        interpreter.allocate_tensors()
    run = interpreter.get_signature_runner()
    return lambda inputs: run(**inputs)
