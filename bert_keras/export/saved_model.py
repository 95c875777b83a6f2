"""A model's signatures, vocabulary and samples come in; a folder that TF Serving loads goes out."""

import os
import tempfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import keras
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.export.checked_tensors import with_checked_tensors
from bert_keras.export.examples import API_METHODS, on_examples
from bert_keras.export.metadata import write_metadata
from bert_keras.export.names import LARGEST_VERSION, is_version
from bert_keras.export.servable import Servable, check_answer
from bert_keras.export.serving_ops import check_ops
from bert_keras.export.text_in_graph import TextToInputs
from bert_keras.export.variants import Variant
from bert_keras.export.verify import answers_in_fresh_process
from bert_keras.export.warmup import warmup_requests_for, write_warmup
from bert_keras.progress import progress
from bert_keras.storage import tensorflow_writes, whole_folder
from bert_keras.text.fast_tokenizer import tokenizer_of, write_vocabulary
from bert_keras.text.tokenizer import TextTokenizer
from bert_keras.text.vocab import Vocabulary


class ServedModule(tf.Module):
    """What is saved: the reader of text and bare variables, never the Keras model itself.

    A tracked Keras model would store its weights twice or leave them where TF Serving's loader
    does not find them.
    """

    def __init__(self, model: keras.Model | Variant, *, text_to_inputs: TextToInputs):
        super().__init__()
        stored = [weight.value for weight in model.weights]
        self.weights = model.stored if isinstance(model, Variant) else stored
        self.text_to_inputs = text_to_inputs


def write_saved_model(
    model: keras.Model | Variant,
    folder: str | os.PathLike,
    *,
    make: Callable[[keras.Model, TextToInputs, TextTokenizer], Servable],
    vocabulary: Vocabulary,
    lowercase: bool,
    max_length: int,
    reader: type[TextToInputs] = TextToInputs,
    metadata: Mapping | None = None,
) -> Path:
    """Write saved_models/NAME/VERSION with the signatures that `make` gives for a `reader` of text
    of up to `max_length` pieces, and `examples`, the same as `serving_default` on tf.Examples.
    Weights are stored once, the vocabulary is an asset; TF Serving's warm-up requests and
    `metadata`, as `metadata_of` makes it, lie in assets.extra.

    The folder takes its name only after its ops were found in TF Serving 2.20 and a fresh process
    loaded it TF Serving's way, gave the answers of the samples (of a Variant that is not exact some
    answers) and some to the warm-up. Raises InputError for a folder that is there or is no version
    number, for parts that do not fit each other and for ops that a server lacks; RuntimeError where
    the written folder answers otherwise.
    """
    folder = Path(folder)
    _check_parts(model, folder, vocabulary=vocabulary)
    with (
        whole_folder(folder) as beside,
        tempfile.TemporaryDirectory() as scratch,
        progress(stage="export", unit="steps", total=3) as bar,
    ):
        vocabulary_file = write_vocabulary(vocabulary, Path(scratch))
        read = reader(vocabulary_file, lowercase=lowercase, max_length=max_length)
        tokenizer = tokenizer_of(vocabulary, lowercase=lowercase)
        servable = with_checked_tensors(
            make(model, read, tokenizer),
            max_positions=model.config.max_positions,
            cls_id=vocabulary.cls_id,
        )
        signatures, samples = on_examples(servable, signature="examples", input_name="examples")
        with tensorflow_writes(folder):
            module = ServedModule(model, text_to_inputs=read)
            tf.saved_model.save(module, os.fspath(beside), signatures=signatures)
            _name_methods(beside, signatures)
        bar.update()
        check_ops(beside)
        if metadata is not None:
            write_metadata(beside, metadata)
        warmup = warmup_requests_for(beside, tokenizer=tokenizer, max_length=max_length)
        write_warmup(beside, warmup, name=folder.resolve().parent.name)
        bar.update()
        requests = [*(sample.request for sample in samples), *warmup]
        answers = answers_in_fresh_process(beside, requests)
        if not isinstance(model, Variant) or model.is_exact:
            for served, sample in zip(answers, samples, strict=False):
                check_answer(served, sample)
        bar.update()
    return folder


def _name_methods(folder: Path, signatures: Collection[str]) -> None:
    """`tf.saved_model.save` calls each signature's method predict."""
    updater = tf.compat.v1.saved_model.signature_def_utils.MethodNameUpdater(os.fspath(folder))
    for name in API_METHODS.keys() & signatures:
        updater.replace_method_name(name, API_METHODS[name])
    updater.save()


def _check_parts(model: keras.Model, folder: Path, *, vocabulary: Vocabulary) -> None:
    if not is_version(folder.name):
        raise InputError(
            f"{folder} does not end in a version number, 0 to {LARGEST_VERSION}; expected such as "
            "saved_models/NAME/1"
        )
    if keras.config.backend() != "tensorflow":
        raise InputError(f"Keras runs on {keras.config.backend()}; export needs its TensorFlow")
    if model.compute_dtype != "float32":
        raise InputError(
            f"the model computes in {model.compute_dtype}; load its weights into a float32 model"
        )
    if len(vocabulary) > model.config.vocab_size:
        raise InputError(
            f"the vocabulary has {len(vocabulary)} pieces, the model {model.config.vocab_size}; "
            "give the vocabulary that it was trained with"
        )
