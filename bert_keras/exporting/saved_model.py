"""Writes a model's signatures as a SavedModel, and verifies that TF Serving will load it."""

import json
import os
import tempfile
from collections.abc import Callable, Collection, Mapping
from importlib.metadata import version
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from bert_keras.config import ModelMetadata
from bert_keras.errors import InputError
from bert_keras.exporting.servable import ServableModel, check_outputs
from bert_keras.exporting.serving_ops import check_ops
from bert_keras.exporting.signatures.derived import on_examples, with_checked_tensors
from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs
from bert_keras.exporting.variants.variant import Variant
from bert_keras.exporting.verify import run_in_fresh_process
from bert_keras.exporting.version_folder import LARGEST_VERSION, METADATA, is_version
from bert_keras.exporting.warmup import warmup_requests_for, write_warmup
from bert_keras.files import atomic_folder, json_object, write_text
from bert_keras.progress import progress
from bert_keras.runs.outcome import MODEL, RECIPE, SCORES
from bert_keras.text.fast_tokenizer import write_vocabulary
from bert_keras.text.tokenizer import TextTokenizer

_LIBRARIES = ("bert-keras", "tensorflow", "tensorflow-text", "keras")


class ServedModule(tf.Module):
    """The object that is saved: the text ops and the variables, without the Keras model.

    A tracked Keras model would store its weights twice or store them where TF Serving's loader
    does not find them.
    """

    def __init__(self, model: keras.Model | Variant, *, text_to_inputs: TextToInputs):
        super().__init__()
        is_variant = isinstance(model, Variant)
        self.weights = model.stored if is_variant else [each.value for each in model.weights]
        self.text_to_inputs = text_to_inputs


def write_saved_model(
    model: keras.Model | Variant,
    folder: str | os.PathLike,
    *,
    make: Callable[..., ServableModel],
    tokenizer: TextTokenizer,
    max_length: int,
    reader: type[TextToInputs] = TextToInputs,
    metadata: Mapping | None = None,
) -> Path:
    """Writes a model as a SavedModel and verifies it.

    The SavedModel stores each weight once and the vocabulary as an asset. Its folder assets.extra
    holds TF Serving's warm-up requests and the metadata.

    The function writes to a temporary folder and renames it after these checks: TF Serving 2.20 has
    all ops of the graph; a fresh process loads the SavedModel as TF Serving does; its outputs for
    the sample requests equal the expected ones (not checked for a `Variant`); all warm-up requests
    succeed.

    Args:
        model: A float32 model, or a variant of one.
        folder: The version folder, saved_models/NAME/VERSION, which must not exist yet.
        make: Takes the model, an instance of `reader` and the tokenizer, and returns signatures and
            samples. `write_saved_model` adds the signature `examples`, which takes tf.Examples and
            returns the outputs of `serving_default`.
        tokenizer: The tokenizer of the model.
        max_length: Largest number of tokens of a text or pair, special tokens included.
        reader: The class that converts text to the model's inputs inside the graph.
        metadata: The metadata to store, as returned by `export_metadata`.

    Returns:
        The path of `folder`.

    Raises:
        InputError: `folder` exists or its name is not a version number; the model, the tokenizer
            and the Keras backend do not fit each other; a weight is not finite; or TF Serving lacks
            an op of the graph.
        RuntimeError: The written SavedModel does not give the expected outputs.
    """
    folder = Path(folder)
    _check_arguments(model, folder, num_tokens=len(tokenizer.vocabulary))
    with (
        atomic_folder(folder) as partial_folder,
        tempfile.TemporaryDirectory() as scratch,
        progress(stage="export", unit="steps", total=3) as bar,
    ):
        vocabulary_file = write_vocabulary(tokenizer.vocabulary, Path(scratch))
        text_to_inputs = reader(
            vocabulary_file, lowercase=tokenizer.lowercase, max_length=max_length
        )
        servable = with_checked_tensors(
            make(model, text_to_inputs, tokenizer),
            max_positions=model.config.max_positions,
            cls_id=tokenizer.vocabulary.cls_id,
        )
        signatures, samples = on_examples(servable, signature="examples", input_name="examples")
        module = ServedModule(model, text_to_inputs=text_to_inputs)
        tf.saved_model.save(module, os.fspath(partial_folder), signatures=signatures)
        _name_methods(partial_folder, signatures)
        bar.update()
        check_ops(partial_folder)
        if metadata is not None:
            write_metadata(partial_folder, metadata)
        warmup = warmup_requests_for(partial_folder, tokenizer=tokenizer, max_length=max_length)
        write_warmup(partial_folder, warmup, name=folder.resolve().parent.name)
        bar.update()
        requests = [*(sample.request for sample in samples), *warmup]
        outputs = run_in_fresh_process(partial_folder, requests)
        if not isinstance(model, Variant):
            for served, sample in zip(outputs, samples, strict=False):
                check_outputs(served, sample)
        bar.update()
    return folder


def _name_methods(folder: Path, signatures: Collection[str]) -> None:
    """Sets the method name of `classify` and `regress`.

    TF Serving's classification and regression APIs accept only signatures with these method names.
    """
    updater = tf.compat.v1.saved_model.signature_def_utils.MethodNameUpdater(os.fspath(folder))
    for name in {"classify", "regress"} & {*signatures}:
        updater.replace_method_name(name, f"tensorflow/serving/{name}")
    updater.save()


def _check_arguments(model: keras.Model | Variant, folder: Path, *, num_tokens: int) -> None:
    if not is_version(folder.name):
        raise InputError(
            f"{folder} does not end in a version number, 0 to {LARGEST_VERSION}; expected a path "
            "such as saved_models/NAME/1"
        )
    if keras.config.backend() != "tensorflow":
        raise InputError(
            f"the backend of Keras is {keras.config.backend()}; an export needs tensorflow"
        )
    if model.compute_dtype != "float32":
        raise InputError(
            f"the model computes in {model.compute_dtype}; load its weights into a float32 model"
        )
    if num_tokens > model.config.vocab_size:
        raise InputError(
            f"the vocabulary has {num_tokens} tokens and the model has {model.config.vocab_size}; "
            "use the vocabulary that the model was trained with"
        )
    for weight in model.weights:
        if not np.isfinite(weight.numpy()).all():
            raise InputError(
                f"the weight {weight.path} contains NaN or infinity, as after a training that "
                "diverged; export another checkpoint"
            )


def export_metadata(metadata: ModelMetadata, *, model_folder: Path | None) -> dict:
    """Collects the metadata that is stored with a SavedModel.

    Args:
        metadata: The metadata of the model.
        model_folder: The folder that the model was loaded from; None for a model in memory.

    Returns:
        A dict with `card`, the fields of the model's metadata; `training`, the recipe and scores if
        `model_folder` belongs to a training run; `versions`, the versions of the libraries.
    """
    files = ()
    if model_folder is not None and model_folder.name == MODEL:
        files = (model_folder.parent / RECIPE, model_folder.parent / SCORES)
    return {
        "card": metadata.to_dict(),
        "training": {path.stem: json_object(path) for path in files if path.is_file()},
        "versions": {name: version(name) for name in _LIBRARIES},
    }


def write_metadata(folder: str | os.PathLike, metadata: Mapping) -> None:
    """Writes the metadata file of a SavedModel; an existing one is replaced."""
    text = json.dumps(metadata, indent=2, ensure_ascii=False)
    write_text(Path(folder) / METADATA, f"{text}\n")
