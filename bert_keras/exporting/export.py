"""Writes a model as a SavedModel for TF Serving or in LiteRT's format, and verifies it."""

import dataclasses
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.framework.types_pb2 import DataType
from tensorflow_serving.apis.predict_pb2 import PredictRequest
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog, PredictLog
from tqdm import tqdm

from bert_keras.checkpoints.checkpoint import require_vocabulary
from bert_keras.config import ModelMetadata
from bert_keras.errors import InputError, check_count, check_least
from bert_keras.exporting import servable
from bert_keras.exporting.servable import TEXT_SIGNATURE, Signature, input_specs
from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs
from bert_keras.exporting.verify import run_in_fresh_process, to_arrays
from bert_keras.files import StrPath, atomic_folder, write_json
from bert_keras.kinds.kind import Kind
from bert_keras.kinds.known import KINDS
from bert_keras.serving import version_folder
from bert_keras.serving.version_folder import FORMATS, METADATA
from bert_keras.text.fast_tokenizer import write_vocabulary
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import TextTokenizer

_LIBRARIES = ("bert-keras", "tensorflow", "tensorflow-text", "keras")
# Largest allowed difference, relative to the larger of 1 and the expected value. A graph adds
# numbers in another order than eager ops: 6e-6 was measured for a trained model with six layers.
_TOLERANCE = 1e-4
# A text with many kinds of characters, which the graph must tokenize as in training
_MIXED = "Café [MASK] İSTANBUL ß ﬁ ΟΔΟΣ 東京 한국 a\u200bb Cafe\u0301 \x00\ufffd 😀\tend\n"
# One instance, by name of the input: the request that `bert-keras export` prints
_EXAMPLE: dict[str, Any] = {
    "text": "A short sentence by Anna Lee.",
    "text_pair": "Anna Lee wrote a sentence.",
    "question": "Who wrote the sentence?",
    "context": "A short sentence by Anna Lee.",
    "choices": ["She wrote it.", "She ate it."],
}


class ExportPlan(NamedTuple):
    """How a model is exported."""

    exporter: servable.Exporter
    settings: dict[str, Any]  # keyword arguments of `exporter.make`
    metadata: ModelMetadata
    tokenizer: TextTokenizer


def export_plan(
    metadata: ModelMetadata,
    tokenizer: TextTokenizer,
    path: StrPath,
    *,
    source: str,
    max_length: int | None = None,
    num_texts: int | None = None,
) -> ExportPlan:
    """Returns how a model is exported.

    Args:
        metadata: The metadata of the model.
        tokenizer: The tokenizer of the model.
        path: The version folder that will be written.
        source: What error messages call the model.
        max_length: The most tokens of a row; None for the length in the metadata.
        num_texts: The number of texts of a classifier, 1 or 2; None for the number in the metadata.
    """
    check_count("max_length", max_length)
    version_folder.check_version(Path(path))
    kind = KINDS.get(metadata.model, Kind)
    if not kind.signatures or (kind.signatures == "masked_lm" and metadata.config.is_causal):
        causal = "causal " * metadata.config.is_causal
        raise InputError(
            f"{source} is a {causal}{metadata.model}, which is not served; convert it with "
            "bert-keras convert MODEL NEW_FOLDER --model-class BertEncoder"
        )
    if max_length is not None:
        metadata = dataclasses.replace(metadata, max_length=max_length)
    exporter = import_module(f"bert_keras.exporting.signatures.{kind.signatures}").EXPORTER
    settings = exporter.settings(metadata)
    if num_texts is not None:
        settings["num_texts"] = num_texts
        if num_texts != len(metadata.text_columns):
            metadata = dataclasses.replace(metadata, text_columns=())
    return ExportPlan(exporter, settings, metadata, tokenizer)


def plan_of_model(
    model: Any,
    path: StrPath,
    *,
    tokenizer: TextTokenizer | None = None,
    labels: Sequence[str] = (),
    **options: Any,
) -> ExportPlan:
    """Returns how a model in memory is exported.

    Args:
        model: A model of bert_keras.
        path: The version folder that will be written.
        tokenizer: The tokenizer; None for the model's own.
        labels: The names of the labels; empty for the model's own.
        **options: `max_length` and `num_texts` of `export_plan`.
    """
    tokenizer = require_vocabulary(tokenizer or model.tokenizer, source="the model")
    metadata = model.stored_metadata(tokenizer, labels=labels)
    return export_plan(metadata, tokenizer, path, source="the model", **options)


def write_version(
    model: keras.Model,
    plan: ExportPlan,
    folder: StrPath,
    *,
    formats: Sequence[str] = FORMATS[:1],
    is_int8: bool = False,
) -> Path:
    """Writes a float32 model as a version folder and verifies it.

    The folder appears only if these checks succeed. The graph must tokenize as in training. A fresh
    process loads each format as a server does, and all sample and warm-up requests must succeed
    there. The outputs of `tensors` must be the outputs of the Keras model, and the other signatures
    must have the same outputs as in this process; neither is checked in 8 bits.

    Args:
        model: The model.
        plan: How it is exported.
        folder: The version folder, which must not exist yet.
        formats: Names in `FORMATS`.
        is_int8: Whether the LiteRT model computes in 8 bits.

    Raises:
        InputError: The model cannot be exported.
        RuntimeError: A check fails.
    """
    folder, tokenizer = Path(folder), plan.tokenizer
    max_length, vocabulary = plan.metadata.max_length, tokenizer.vocabulary
    found = (keras.config.backend(), model.compute_dtype)
    if found != ("tensorflow", "float32"):
        expected = "KERAS_BACKEND=tensorflow and a float32 model"
        raise InputError(f"an export needs {expected}; found {' and '.join(found)}")
    if len(vocabulary) > (size := model.config.vocab_size):
        raise InputError(f"the vocabulary has {len(vocabulary)} tokens, and the model only {size}")
    with (
        atomic_folder(folder) as partial_folder,
        tempfile.TemporaryDirectory() as scratch,
        tqdm(total=1 + len(formats), desc="export", unit=" steps") as bar,
    ):
        reader = plan.exporter.reader(
            write_vocabulary(vocabulary, Path(scratch)),
            lowercase=tokenizer.lowercase,
            max_length=max_length,
            shortens_first=vocabulary.shortens_first,
        )
        with servable.set_while_tracing([getattr(model, "encoder", model)], "skips_padding"):
            signatures, from_tensors = plan.exporter.make(model, reader, **plan.settings)
        text_inputs = [*input_specs(signatures[TEXT_SIGNATURE])]
        least, most = vocabulary.num_specials(len(text_inputs)) + 1, model.config.max_positions
        check_least(plan.metadata, least, "max_length", most=most)
        signatures["tensors"] = servable.checked_tensors(
            signatures["tensors"], config=model.config, cls_id=vocabulary.cls_id
        )
        sentences = (f"Anna {n} met Bob {n * n} in Lyon." for n in range(max_length // 2 + 1))
        texts = [_EXAMPLE["text"], "", _MIXED, " ".join(sentences)]
        ids_in_graph = TextToInputs.tokens(reader, tf.constant(texts)).to_list()
        for text, found, ids in zip(texts, ids_in_graph, tokenizer.ids_batch(texts), strict=True):
            if found != ids:
                raise RuntimeError(f"the graph tokenizes {text[:99]!r} differently from training")
        samples = _requests(signatures, texts, tokenizer=tokenizer, max_length=max_length)
        # A long text would warm up little more: after a short one, the first two of 452 tokens take
        # 0.92 s, and the next 0.85 s (BERT-base).
        warmup = _requests(signatures, texts[:1], tokenizer=tokenizer, max_length=max_length)
        expected = [] if is_int8 else _expected(samples, signatures, from_tensors)
        bar.update()
        instance = {name: _EXAMPLE[name] for name in text_inputs}
        if "masked_lm_positions" in input_specs(signatures["tensors"]):
            instance["text"] = "A short [MASK] by Anna Lee."
        example_inputs = {name: [value] for name, value in instance.items()}
        example = {"signature": TEXT_SIGNATURE, "inputs": example_inputs}
        stored = {
            "card": plan.metadata.to_dict(),
            "versions": {name: version(name) for name in _LIBRARIES},
            "example": {"instance": instance},
        }
        outputs: list[dict] = []
        for format in FORMATS:
            if format not in formats:
                continue
            requests = [*samples, example]
            if format == "litert":
                stored["signatures"] = signature_definitions(signatures)
                write_vocabulary(vocabulary, partial_folder / "assets")
                specs = input_specs(signatures["tensors"])
                write_litert(model, specs, partial_folder / version_folder.LITERT, is_int8=is_int8)
                write_json(partial_folder / METADATA, stored)
            else:
                module: Any = tf.Module()
                # A tracked Keras model would store its weights twice, or store them where TF
                # Serving's loader does not find them.
                module.weights = [each.value for each in model.weights]
                module.text_to_inputs = reader
                tf.saved_model.save(module, os.fspath(partial_folder), signatures=signatures)
                write_warmup(partial_folder, warmup, name=folder.resolve().parent.name)
                requests = [*samples, *warmup, example]
            outputs = run_in_fresh_process(partial_folder, requests, format=format)
            check_outputs(outputs, samples, expected)
            bar.update()
        stored["example"]["prediction"] = {name: rows[0] for name, rows in outputs[-1].items()}
        stored["crc32c"] = version_folder.file_checksums(partial_folder)
        write_json(partial_folder / METADATA, stored)
    return folder


def write_litert(
    model: keras.Model, specs: Mapping[str, tf.TensorSpec], path: Path, *, is_int8: bool = False
) -> None:
    """Converts a Keras model to a LiteRT file whose inputs have the sizes of each call.

    Args:
        model: The model, which is called with the inputs of `specs` by name.
        specs: Specs of int32 tensors; dimensions that are None may have any size.
        is_int8: Whether to store the kernels of dense layers and the embeddings in 8 bits. LiteRT
            then multiplies them with activations that it rounds to 8 bits at run time.
    """

    def logits(**inputs):
        outputs = model(inputs, training=False)
        return outputs if isinstance(outputs, dict) else {"logits": outputs}

    traceable: Any = tf.function(logits, autograph=False)
    attentions = [block.attention for block in getattr(model, "encoder", model).blocks]
    with servable.set_while_tracing(attentions, "only_basic_ops"):
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


def _requests(
    signatures: Mapping[str, Signature],
    texts: Sequence[str],
    *,
    tokenizer: TextTokenizer,
    max_length: int,
) -> list[dict]:
    """Creates a request of N texts for each signature, in the form of `run_in_fresh_process`."""
    first_ids = tokenizer.ids_batch(texts)
    second_ids = [*first_ids[1:], *first_ids[:1]]
    has_pairs = len(input_specs(signatures[TEXT_SIGNATURE])) == 2
    ids = [first_ids, second_ids] if has_pairs else [first_ids]
    tensors = pack(*ids, vocabulary=tokenizer.vocabulary, max_length=max_length)
    tensors["masked_lm_positions"] = np.ones([len(texts), 1], np.int32)
    requests = []
    for signature_name, signature in signatures.items():
        inputs: dict[str, Any] = {}
        for number, (name, spec) in enumerate(input_specs(signature).items()):
            rotated_texts = [*texts[number:], *texts[:number]]  # each input has a different order
            has_choices = spec.shape.rank == (3 if name in tensors else 2)  # two for each instance
            if name in tensors:
                rows = tensors[name]
                next_rows = np.roll(rows, 1, axis=0)
                inputs[name] = np.stack([rows, next_rows], axis=1) if has_choices else rows
            elif has_choices:
                inputs[name] = [[*pair] for pair in zip(rotated_texts, texts, strict=True)]
            else:
                inputs[name] = rotated_texts
        requests.append({"signature": signature_name, "inputs": inputs})
    return requests


def write_warmup(folder: str | os.PathLike, requests: Sequence[dict], *, name: str) -> None:
    """Adds the requests without which TF Serving does not load a version of the model `name`."""
    path = Path(folder) / version_folder.WARMUP
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(os.fspath(path)) as writer:
        for request in requests:
            message = PredictRequest()
            message.model_spec.name = name
            message.model_spec.signature_name = request["signature"]
            for input_name, values in request["inputs"].items():
                message.inputs[input_name].CopyFrom(tf.make_tensor_proto(values))
            log = PredictionLog(predict_log=PredictLog(request=message))
            writer.write(log.SerializeToString(deterministic=True))


def _expected(
    samples: Sequence[dict], signatures: Mapping[str, Signature], from_tensors: Callable
) -> list[dict[str, np.ndarray]]:
    """Returns the outputs of requests in this process; the Keras model computes `tensors`."""

    def outputs_of(signature: str, inputs: Mapping) -> Mapping:
        function = from_tensors if signature == "tensors" else signatures[signature]
        return function(**{name: tf.constant(values) for name, values in inputs.items()})

    tensor_float_32 = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(False)
    try:
        with tf.device("CPU:0"):
            return [to_arrays(outputs_of(**each)) for each in samples]
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(tensor_float_32)


def check_outputs(
    outputs: Sequence[Mapping], samples: Sequence[dict], expected: Sequence[Mapping]
) -> None:
    """Raises RuntimeError if an output, a nested list, differs by more than `_TOLERANCE`."""
    for sample, served, arrays in zip(samples, outputs, expected, strict=False):
        for name, values in arrays.items():
            array = np.array(served[name], values.dtype)
            output = f"the output {name} of the signature {sample['signature']}"
            if array.shape != values.shape:
                raise RuntimeError(f"{output} has the shape {array.shape}; expected {values.shape}")
            if values.dtype.kind == "f":
                difference = np.abs(array - values) / np.maximum(np.abs(values), 1)
                if not difference.max(initial=0) <= _TOLERANCE:
                    raise RuntimeError(f"{output} differs by {difference.max():.1e} from Keras")
            elif (array != values).any():
                raise RuntimeError(f"{output} differs from Keras")
