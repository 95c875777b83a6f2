"""Writes a model's signatures as a SavedModel, and verifies that TF Serving will load it.

The file serving_ops_2_20.txt lists the ops that TensorFlow 2.20 and tensorflow-text 2.20 register.
TF Serving 2.20 is built from these two. The list omits the three ops that call Python. This command
writes the list in an environment with the two packages:

    python -c "
    import tensorflow, tensorflow_text
    from tensorflow.core.framework.op_def_pb2 import OpList
    from tensorflow.python.client.pywrap_tf_session import TF_GetAllOpList, TF_GetBuffer
    ops = OpList.FromString(TF_GetBuffer(TF_GetAllOpList())).op
    print(*sorted(op.name for op in ops if 'PyFunc' not in op.name), sep='\\n')"
"""

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tqdm import tqdm

from bert_keras.config import ModelMetadata
from bert_keras.errors import InputError, check
from bert_keras.exporting.servable import (
    TEXT_SIGNATURE,
    Exporter,
    Signature,
    checked_tensors,
    input_specs,
    on_examples,
)
from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs
from bert_keras.exporting.variants.variant import Variant
from bert_keras.exporting.verify import run_in_fresh_process, to_arrays
from bert_keras.exporting.version_folder import (
    LARGEST_VERSION,
    METADATA,
    file_digests,
    is_version,
)
from bert_keras.exporting.warmup import (
    requests_of,
    sample_texts,
    warmup_requests_for,
    write_warmup,
)
from bert_keras.files import StrPath, atomic_folder, json_object, write_json
from bert_keras.runs.outcome import MODEL, RECIPE, SCORES
from bert_keras.text.fast_tokenizer import write_vocabulary
from bert_keras.text.tokenizer import TextTokenizer

_LIBRARIES = ("bert-keras", "tensorflow", "tensorflow-text", "keras")
# Largest allowed difference, relative to the larger of 1 and the expected value. A graph adds
# numbers in another order than eager ops: 6e-6 was measured for a trained model with six layers.
_TOLERANCE = 1e-4


def write_saved_model(
    model: keras.Model | Variant,
    folder: StrPath,
    *,
    exporter: Exporter,
    settings: Mapping[str, Any],
    tokenizer: TextTokenizer,
    max_length: int,
    metadata: Mapping | None = None,
) -> Path:
    """Writes a float32 model, or a variant of one, as a SavedModel and verifies it.

    The SavedModel stores each weight once and the vocabulary as an asset. Its folder assets.extra
    holds TF Serving's warm-up requests and the metadata, with the digests of the files.

    The folder appears after these checks: TF Serving 2.20 has all ops of the graph; the graph has
    the tokens of training; a fresh process loads the SavedModel as TF Serving does; there, the
    outputs of `tensors` are those of the Keras model, and other signatures have the outputs that
    they have here (not checked for a `Variant`); all warm-up requests succeed.

    Raises:
        InputError: The folder, the model, the tokenizer and the Keras backend do not fit each
            other; a weight is not finite; or TF Serving lacks an op of the graph.
        RuntimeError: The written SavedModel does not give the expected outputs.
    """
    folder, is_variant = Path(folder), isinstance(model, Variant)
    _check_arguments(model, folder, num_tokens=len(tokenizer.vocabulary))
    with (
        atomic_folder(folder) as partial_folder,
        tempfile.TemporaryDirectory() as scratch,
        tqdm(total=3, desc="export", unit=" steps") as bar,
    ):
        reader = exporter.reader(
            write_vocabulary(tokenizer.vocabulary, Path(scratch)),
            lowercase=tokenizer.lowercase,
            max_length=max_length,
        )
        signatures, from_tensors = exporter.make(model, reader, **settings)
        num_texts = len(input_specs(signatures[TEXT_SIGNATURE]))
        least, most = tokenizer.vocabulary.num_specials(num_texts) + 1, model.config.max_positions
        is_valid = least <= max_length <= most
        check(is_valid, f"max_length is {max_length}; expected {least} to {most}")
        signatures["examples"] = on_examples(signatures[TEXT_SIGNATURE], input_name="examples")
        signatures["tensors"] = checked_tensors(
            signatures["tensors"],
            max_positions=most,
            vocab_size=model.config.vocab_size,
            cls_id=tokenizer.vocabulary.cls_id,
        )
        texts = sample_texts(max_length=max_length)
        _check_tokens(texts, reader, tokenizer)
        requests = requests_of(signatures, texts, tokenizer=tokenizer, max_length=max_length)
        samples = [*requests.values()]
        expected = [] if is_variant else _expected(samples, signatures, from_tensors)
        weights = model.stored if is_variant else [each.value for each in model.weights]
        _save(os.fspath(partial_folder), signatures, weights=weights, text_to_inputs=reader)
        bar.update()
        check_ops(partial_folder)
        warmup = warmup_requests_for(signatures, tokenizer=tokenizer, max_length=max_length)
        write_warmup(partial_folder, warmup, name=folder.resolve().parent.name)
        write_metadata(partial_folder, metadata or {})
        bar.update()
        outputs = run_in_fresh_process(partial_folder, [*samples, *warmup])
        for sample, served, arrays in zip(samples, outputs, expected, strict=False):
            check_outputs(served, arrays, signature=sample["signature"])
        bar.update()
    return folder


def _save(folder: str, signatures: Mapping[str, Signature], **tracked) -> None:
    """Saves signatures with their variables and text ops, but without the Keras model.

    A tracked Keras model would store its weights twice, or store them where TF Serving's loader
    does not find them.
    """
    module = tf.Module()
    for name, value in tracked.items():
        setattr(module, name, value)
    tf.saved_model.save(module, folder, signatures=signatures)
    # TF Serving's classification and regression APIs accept only these method names.
    updater = tf.compat.v1.saved_model.signature_def_utils.MethodNameUpdater(folder)
    for name in {"classify", "regress"} & {*signatures}:
        updater.replace_method_name(name, f"tensorflow/serving/{name}")
    updater.save()


def _check_arguments(model: keras.Model | Variant, folder: Path, *, num_tokens: int) -> None:
    check(
        is_version(folder.name),
        f"{folder} does not end in a version number, 0 to {LARGEST_VERSION}; expected a path such "
        "as saved_models/NAME/1",
    )
    # Python's loader of SavedModels, unlike TF Serving's, reads them as patterns.
    check(
        not {"[", "\\"} & {*os.path.abspath(folder)},
        f"{folder} contains '[' or a backslash, which TensorFlow cannot load; choose another path",
    )
    backend = keras.config.backend()
    check(backend == "tensorflow", f"the backend of Keras is {backend}; an export needs tensorflow")
    check(
        model.compute_dtype == "float32",
        f"the model computes in {model.compute_dtype}; load its weights into a float32 model",
    )
    check(
        num_tokens <= model.config.vocab_size,
        f"the vocabulary has {num_tokens} tokens and the model has {model.config.vocab_size}; use "
        "the vocabulary that the model was trained with",
    )
    for weight in model.weights:
        check(
            np.isfinite(weight.numpy()).all(),
            f"the weight {weight.path} contains NaN or infinity, as after a training that "
            "diverged; export another checkpoint",
        )


def check_ops(folder: StrPath) -> None:
    """Raises InputError if the graph of a SavedModel contains an op that TF Serving 2.20 lacks."""
    saved_model = SavedModel.FromString((Path(folder) / "saved_model.pb").read_bytes())
    # TensorFlow lists the ops of the graph and of its functions when it saves them.
    used = {
        op.name
        for meta_graph in saved_model.meta_graphs
        for op in meta_graph.meta_info_def.stripped_op_list.op
    }
    served = (files("bert_keras.exporting") / "serving_ops_2_20.txt").read_text().split()
    if refused := sorted(used - {*served}):
        raise InputError(
            f"the graph contains {', '.join(refused)}, which TF Serving 2.20 does not have; "
            "build the model without these ops"
        )


def _check_tokens(texts: Sequence[str], reader: TextToInputs, tokenizer: TextTokenizer) -> None:
    """Raises RuntimeError if the graph tokenizes a text differently from the tokenizer."""
    tokens = TextToInputs.tokens(reader, tf.constant(texts)).to_list()
    for text, ids, expected in zip(texts, tokens, tokenizer.ids_batch(texts), strict=True):
        if ids != expected:
            raise RuntimeError(f"the graph tokenizes {text[:99]!r} differently from training")


def _expected(
    samples: Sequence[dict], signatures: Mapping[str, Signature], from_tensors: Callable
) -> list[dict[str, np.ndarray]]:
    """Returns the outputs of requests in this process: those of `tensors` by the Keras model."""

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


def check_outputs(served: Mapping, expected: Mapping[str, np.ndarray], *, signature: str) -> None:
    """Raises RuntimeError if the outputs of a SavedModel, nested lists by name, are not expected.

    Floats may differ by `_TOLERANCE`.
    """
    for name, values in expected.items():
        array = np.array(served[name], values.dtype)
        output = f"the output {name} of the signature {signature}"
        if array.shape != values.shape:
            raise RuntimeError(f"{output} has the shape {array.shape}; expected {values.shape}")
        if values.dtype.kind == "f":
            difference = np.abs(array - values) / np.maximum(np.abs(values), 1)
            if not difference.max(initial=0) <= _TOLERANCE:
                raise RuntimeError(
                    f"{output} differs by {difference.max():.1e} from the Keras model's; expected "
                    f"at most {_TOLERANCE:.0e}"
                )
        elif (array != values).any():
            raise RuntimeError(f"{output} differs from the Keras model's")


def export_metadata(metadata: ModelMetadata, *, model_folder: Path | None) -> dict:
    """Returns the metadata that is stored with a SavedModel.

    This is `card`, the fields of the model's metadata; `training`, the recipe and scores if
    `model_folder` belongs to a training run; `versions`, the versions of the libraries.
    """
    paths = ()
    if model_folder is not None and model_folder.name == MODEL:
        paths = (model_folder.parent / RECIPE, model_folder.parent / SCORES)
    return {
        "card": metadata.to_dict(),
        "training": {path.stem: json_object(path) for path in paths if path.is_file()},
        "versions": {name: version(name) for name in _LIBRARIES},
    }


def write_metadata(folder: Path, metadata: Mapping) -> None:
    """Writes the metadata of a SavedModel with the digests of its other files."""
    write_json(folder / METADATA, {**metadata, "files": file_digests(folder)})
