"""LiteRT (formerly TensorFlow Lite) models from SavedModels."""

import os
import shutil
import warnings
from pathlib import Path

import tensorflow as tf

from bert_keras.export.saved_model import METADATA
from bert_keras.export.servable import traced
from bert_keras.export.variants.measuring import Ask

MODEL = "model.tflite"


def write_litert(saved_model: str | os.PathLike, folder: str | os.PathLike) -> Path:
    """Writes `folder` with model.tflite beside the vocabulary and metadata of `saved_model`.

    The model takes the inputs of the signature `tensors`, of any size, and returns its numeric
    outputs. Weights and the products with them are in 8 bits.
    """
    saved_model, folder = Path(saved_model), Path(folder)
    loaded = tf.saved_model.load(os.fspath(saved_model))
    tensors = loaded.signatures["tensors"]

    def numbers(**inputs):
        return {n: v for n, v in tensors(**inputs).items() if v.dtype != tf.string}

    _, inputs = tensors.structured_input_signature
    converter = tf.lite.TFLiteConverter.from_concrete_functions([traced(numbers, **inputs)], loaded)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    folder.mkdir(parents=True)
    (folder / MODEL).write_bytes(converter.convert())
    shutil.copytree(saved_model / "assets", folder / "assets")
    (folder / METADATA).parent.mkdir()
    shutil.copy(saved_model / METADATA, folder / METADATA)
    return folder


def litert_ask(folder: str | os.PathLike) -> Ask:
    """Returns what answers as the signature `tensors` of the SavedModel, without its texts."""
    # The successor of the interpreter, ai-edge-litert, is another package of 22 MB.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*tf.lite.Interpreter is deprecated")
        interpreter = tf.lite.Interpreter(
            os.fspath(Path(folder) / MODEL), num_threads=os.cpu_count()
        )
    run = interpreter.get_signature_runner()
    return lambda inputs: run(**inputs)
