"""Writes a model in LiteRT's format."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from tensorflow.core.framework.types_pb2 import DataType

from bert_keras.exporting.servable import Signature, input_specs, set_while_tracing


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

    def logits(**inputs):
        outputs = model(inputs, training=False)
        return outputs if isinstance(outputs, dict) else {"logits": outputs}

    traceable: Any = tf.function(logits, autograph=False)
    attentions = [block.attention for block in getattr(model, "encoder", model).blocks]
    with set_while_tracing(attentions, "is_plain"):
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
