"""Exports a model or a smaller variant of it for TF Serving, and verifies what it wrote."""

import dataclasses
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis.predict_pb2 import PredictRequest
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog, PredictLog
from tqdm import tqdm

from bert_keras.checkpoints.formats import open_text_checkpoint
from bert_keras.data.schema import PREDICTION_FEATURES
from bert_keras.errors import InputError, answers_typos, check, check_count, check_name
from bert_keras.exporting.servable import (
    EXPORTERS,
    TEXT_SIGNATURE,
    Exporter,
    Signature,
    checked_tensors,
    input_specs,
)
from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs
from bert_keras.exporting.variants.export_variant import (
    MAX_SCORE_DROP,
    SAVED_MODELS,
    Scoring,
    export_variant,
)
from bert_keras.exporting.variants.variant import Variant, replaced_attributes
from bert_keras.exporting.verify import run_in_fresh_process, to_arrays
from bert_keras.exporting.version_folder import METADATA, WARMUP, check_version, file_digests
from bert_keras.files import StrPath, atomic_folder, write_json
from bert_keras.models import load_model
from bert_keras.models.pretrained import Pretrained
from bert_keras.renamed import accepts_former_names
from bert_keras.runs.settings import Changes
from bert_keras.runs.task_data import variant_examples
from bert_keras.text.fast_tokenizer import write_vocabulary
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import TextTokenizer

_LIBRARIES = ("bert-keras", "tensorflow", "tensorflow-text", "keras")
# Largest allowed difference, relative to the larger of 1 and the expected value. A graph adds
# numbers in another order than eager ops: 6e-6 was measured for a trained model with six layers.
_TOLERANCE = 1e-4
_EXAMPLE = {  # one instance, by name of the input: the request that `bert-keras export` prints
    "text": "A short sentence by Anna Lee.",
    "text_pair": "Anna Lee wrote a sentence.",
    "question": "Who wrote the sentence?",
    "context": "A short sentence by Anna Lee.",
    "choices": ["She wrote it.", "She ate it."],
}


@accepts_former_names(max_score_loss="max_score_drop")
@answers_typos
def export(  # noqa: PLR0913 - public; each argument is optional
    model: StrPath | Pretrained,
    path: StrPath,
    *,
    tokenizer: TextTokenizer | None = None,
    labels: Sequence[str] = (),
    max_length: int | None = None,
    num_texts: int | None = None,
    variant: str | None = None,
    data: StrPath | None = None,
    task: str | None = None,
    changes: Changes = (),
    max_score_drop: float = MAX_SCORE_DROP,
) -> Path:
    """Writes a model of any head as a SavedModel that takes texts, and verifies it.

    `bert-keras export` and `model.export` call this function. The SavedModel contains the text
    processing, its signatures and warm-up requests for TF Serving. A fresh process loads it as
    TF Serving does and compares its outputs with those of the Keras model.

    Args:
        model: A folder with a vocabulary in any checkpoint format, or a model in memory.
        path: The version folder, saved_models/NAME/VERSION, which must not exist yet.
        tokenizer: The tokenizer of a model in memory; by default `model.tokenizer`.
        labels: The labels of a model in memory; by default those of its metadata.
        max_length: The largest number of tokens of a text or pair; by default the metadata's.
        num_texts: The number of texts that a classifier takes, 1 or 2; by default the number that
            the model was trained on, or 1 if its metadata does not state it.
        variant: "float16", "bfloat16" or "int8", whose size, time and score are printed
            next to those of float32; by default the model is written in float32.
        data: Labelled examples to score a variant on: a file of the task, or a data folder or
            `tfds:NAME` with a split "dev".
        task: The name of the task that scores a variant; by default the task of the fine-tuning.
        changes: Settings of this task, such as `{"text_columns": ("review",)}`.
        max_score_drop: The points, of 100, by which the score of a variant may drop.

    Returns:
        The path of the version folder.

    Raises:
        InputError: The model has no vocabulary or cannot be served, an argument does not fit it,
            `path` exists or is not a version folder, or the variant loses too many points.
        RuntimeError: The SavedModel does not give the outputs of the Keras model.

    Example:

    ```python
    export("films", "saved_models/films/1")
    ```
    """
    if variant is None:
        is_default = (data, task, max_score_drop) == (None, None, MAX_SCORE_DROP)
        found = "data, task, changes and max_score_drop have no effect without a variant"
        check(is_default and not changes, found)
    else:
        check_name(variant, SAVED_MODELS, what="variant")
        check(data is not None, f"the variant {variant} needs data, labelled examples to score it")
        check(max_score_drop >= 0, f"max_score_drop is {max_score_drop}; expected 0 or more points")
    check_count("max_length", max_length)
    check_version(Path(path))
    if isinstance(model, Pretrained):
        source, load = "the model", lambda: model
        tokenizer = tokenizer or model.tokenizer
        if tokenizer is None:
            raise InputError("the model has no vocabulary; give its tokenizer: tokenizer=...")
        metadata = model.stored_metadata(tokenizer, labels=labels)
    else:
        found = "tokenizer and labels are for a model in memory"
        check(tokenizer is None and not labels, f"{found}; a model folder contains its own")
        checkpoint = open_text_checkpoint(model)
        source, load = os.fspath(model), partial(load_model, model)
        metadata, tokenizer = checkpoint.metadata, checkpoint.tokenizer
    if max_length is not None:
        metadata = dataclasses.replace(metadata, max_length=max_length)
    check(
        metadata.model in EXPORTERS,
        f"{source} is a {metadata.model}; expected one of {', '.join(sorted(EXPORTERS))}; convert "
        "it with bert-keras convert MODEL NEW_FOLDER --model-class BertEncoder",
    )
    exporter: Exporter = import_module(EXPORTERS[metadata.model]).EXPORTER
    settings = exporter.settings(metadata, source)
    if num_texts is not None:
        check("num_texts" in settings, f"a {metadata.model} takes no num_texts")
        settings["num_texts"] = num_texts

    versions = {name: version(name) for name in _LIBRARIES}

    def write(path: StrPath, *, variant: type[Variant] | None = None) -> Path:
        loaded = load()
        return write_saved_model(
            loaded if variant is None else variant(loaded),
            path,
            exporter=exporter,
            settings=settings,
            tokenizer=tokenizer,
            max_length=metadata.max_length,
            metadata={"card": metadata.to_dict(), "versions": versions},
        )

    if variant is None:
        return write(path)
    arguments = {"source": source, "task": task, "changes": changes}
    known, examples = variant_examples(metadata, str(data), **arguments)
    scored = Scoring(known, examples, known.encode(examples, tokenizer))
    return export_variant(path, scored, write=write, variant=variant, max_score_drop=max_score_drop)


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

    The folder appears after these checks: the graph has the tokens of training; a fresh process
    loads the SavedModel as TF Serving does; there, the outputs of `tensors` are those of the Keras
    model, and other signatures have the outputs that they have here (not checked for a `Variant`);
    all warm-up requests succeed. Raises InputError or RuntimeError.
    """
    folder, is_variant = Path(folder), isinstance(model, Variant)
    _check_arguments(model, num_tokens=len(tokenizer.vocabulary))
    with (
        atomic_folder(folder) as partial_folder,
        tempfile.TemporaryDirectory() as scratch,
        tqdm(total=3, desc="export", unit=" steps") as bar,
    ):
        reader = exporter.reader(
            write_vocabulary(tokenizer.vocabulary, Path(scratch)),
            lowercase=tokenizer.lowercase,
            max_length=max_length,
            shortens_first=tokenizer.vocabulary.shortens_first,
        )
        encoder = getattr(model, "encoder", model)
        with replaced_attributes([encoder], skips_padding=True):  # while signatures are traced
            signatures, from_tensors = exporter.make(model, reader, **settings)
        num_texts = len(input_specs(signatures[TEXT_SIGNATURE]))
        least, most = tokenizer.vocabulary.num_specials(num_texts) + 1, model.config.max_positions
        is_valid = least <= max_length <= most
        check(is_valid, f"max_length is {max_length}; expected {least} to {most}")
        signatures["tensors"] = checked_tensors(
            signatures["tensors"], config=model.config, cls_id=tokenizer.vocabulary.cls_id
        )
        texts = sample_texts(max_length=max_length)
        _check_tokens(texts, reader, tokenizer)
        # A long text would warm up little more: after a short one, the first two of 452 tokens take
        # 0.92 s, and the next 0.85 s (BERT-base).
        samples, warmup = (
            requests_of(signatures, some, tokenizer=tokenizer, max_length=max_length)
            for some in (texts, texts[:1])
        )
        expected = [] if is_variant else _expected(samples, signatures, from_tensors)
        module: Any = tf.Module()
        # A tracked Keras model would store its weights twice, or store them where TF Serving's
        # loader does not find them.
        module.weights = model.stored if is_variant else [each.value for each in model.weights]
        module.text_to_inputs = reader
        tf.saved_model.save(module, os.fspath(partial_folder), signatures=signatures)
        bar.update()
        write_warmup(partial_folder, warmup, name=folder.resolve().parent.name)
        bar.update()
        instance = {name: _EXAMPLE[name] for name in input_specs(signatures[TEXT_SIGNATURE])}
        if "masked_lm_positions" in input_specs(signatures["tensors"]):
            instance["text"] = "A short [MASK] by Anna Lee."
        row = {name: [value] for name, value in instance.items()}
        example = {"signature": TEXT_SIGNATURE, "inputs": row}
        outputs = run_in_fresh_process(partial_folder, [*samples, *warmup, example])
        prediction = {name: values[0] for name, values in outputs[-1].items()}
        answered = {"instance": instance, "prediction": prediction}
        files = file_digests(partial_folder)
        stored = {**(metadata or {}), "example": answered, "files": files}
        write_json(partial_folder / METADATA, stored)
        for sample, served, arrays in zip(samples, outputs, expected, strict=False):
            check_outputs(served, arrays, signature=sample["signature"])
        bar.update()
    return folder


def sample_texts(*, max_length: int) -> list[str]:
    """Returns a plain text, an empty one, one of many kinds of characters, and a long one."""
    mixed = "Café [MASK] İSTANBUL ß ﬁ ΟΔΟΣ 東京 한국 a\u200bb Cafe\u0301 \x00\ufffd 😀\tend\n"
    long = (f"Anna {n} met Bob {n * n} in Lyon." for n in range(max_length // 2 + 1))
    return ["A short sentence by Anna Lee.", "", mixed, " ".join(long)]


def requests_of(
    signatures: Mapping[str, Signature],
    texts: Sequence[str],
    *,
    tokenizer: TextTokenizer,
    max_length: int,
) -> list[dict]:
    """Creates a request of some texts for each signature, in the form of exporting/verify.py."""
    ids = tokenizer.ids_batch(texts)
    pairs = [ids, [*ids[1:], *ids[:1]]][: len(input_specs(signatures[TEXT_SIGNATURE]))]
    tensors = pack(*pairs, vocabulary=tokenizer.vocabulary, max_length=max_length)
    tensors[PREDICTION_FEATURES[0]] = np.ones([len(texts), 1], np.int32)  # masked_lm_positions

    def column(name: str, number: int, rank: int) -> Any:
        if name in tensors:  # two rows are the choices of an instance
            rows = tensors[name]
            return rows if rank == 2 else np.stack([rows, np.roll(rows, 1, axis=0)], axis=1)
        turned = [*texts[number:], *texts[:number]]
        choices = zip(turned, texts, strict=True)
        return turned if rank == 1 else [[*each] for each in choices]

    return [
        {
            "signature": name,
            "inputs": {
                n: column(n, number, spec.shape.rank)
                for number, (n, spec) in enumerate(input_specs(signature).items())
            },
        }
        for name, signature in signatures.items()
    ]


def write_warmup(folder: str | os.PathLike, requests: Sequence[dict], *, name: str) -> None:
    """Adds the requests without which TF Serving does not load a version of the model `name`."""
    path = Path(folder) / WARMUP
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


def _check_arguments(model: keras.Model | Variant, *, num_tokens: int) -> None:
    backend = keras.config.backend()
    remedy = "an export needs KERAS_BACKEND=tensorflow"
    check(backend == "tensorflow", f"the backend of Keras is {backend}; {remedy}")
    found = f"the model computes in {model.compute_dtype}"
    check(model.compute_dtype == "float32", f"{found}; load its weights into a float32 model")
    check(
        num_tokens <= model.config.vocab_size,
        f"the vocabulary has {num_tokens} tokens and the model has {model.config.vocab_size}; use "
        "the vocabulary that the model was trained with",
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
    """Raises RuntimeError unless outputs, nested lists, are those expected, up to `_TOLERANCE`."""
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
