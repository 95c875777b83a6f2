"""A trained classifier and its vocabulary come in; a folder that TF Serving loads goes out."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.export.serving_ops import check_ops
from bert_keras.export.signatures import TEXT_INPUTS, ServedClassifier, signatures
from bert_keras.export.text_in_graph import TextToInputs
from bert_keras.export.verify import answers_in_fresh_process
from bert_keras.progress import progress
from bert_keras.storage import tensorflow_writes, whole_folder
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import Vocabulary

TOLERANCE = 1e-5  # of a probability, between the Keras model and its SavedModel


def export_classifier(
    model: keras.Model,
    folder: str | os.PathLike,
    *,
    vocabulary: Vocabulary,
    lowercase: bool,
    labels: Sequence[str],
    max_length: int,
    num_texts: int = 1,
) -> Path:
    """Write saved_models/NAME/VERSION with the signatures `serving_default` and `tensors`.

    `model` takes a dict of int32 `input_ids`, `input_mask`, `segment_ids` [B,T] and returns logits
    [B,N], in the order of `labels`. `serving_default` takes raw `text`, with `num_texts` 2 also
    `text_pair`, of up to `max_length` pieces. Weights are stored once, the vocabulary is an asset.

    The folder takes its name only after its ops were found in TF Serving 2.20 and a fresh process
    loaded it TF Serving's way and gave the probabilities of `model` to 1e-5. Raises InputError for
    a folder that is there or is no version number, for parts that do not fit each other and for
    ops that a server lacks; RuntimeError where the written folder does not answer as `model` does.
    """
    folder = Path(folder)
    _check_parts(model, folder, vocabulary=vocabulary, num_texts=num_texts)
    with (
        whole_folder(folder) as beside,
        tempfile.TemporaryDirectory() as scratch,
        progress(stage="export", unit="steps", total=3) as bar,
    ):
        requests, expected = _sample_answers(
            model,
            tokenizer=WordPieceTokenizer(vocabulary, lowercase=lowercase),
            max_length=max_length,
            num_texts=num_texts,
        )
        if expected[0].shape[1] != len(labels):
            raise InputError(f"{len(labels)} labels came with {expected[0].shape[1]} logits")
        vocabulary_file = Path(scratch) / "vocab.txt"
        vocabulary.save(vocabulary_file)
        reader = TextToInputs(vocabulary_file, lowercase=lowercase, max_length=max_length)
        with tensorflow_writes(folder):
            tf.saved_model.save(
                ServedClassifier(model, text_to_inputs=reader),
                os.fspath(beside),
                signatures=signatures(
                    model, text_to_inputs=reader, labels=labels, num_texts=num_texts
                ),
            )
        bar.update()
        check_ops(beside)
        bar.update()
        answers = answers_in_fresh_process(beside, requests)
        for request, answer, probabilities in zip(requests, answers, expected, strict=True):
            _compare(answer, probabilities, labels=labels, signature=request["signature"])
        bar.update()
    return folder


def _check_parts(model: keras.Model, folder: Path, *, vocabulary: Vocabulary, num_texts: int):
    if not (folder.name.isascii() and folder.name.isdigit()):
        raise InputError(
            f"{folder} does not end in a version number; expected such as saved_models/NAME/1"
        )
    if num_texts not in (1, 2):
        raise InputError(f"num_texts is {num_texts}; expected 1 or 2")
    if keras.config.backend() != "tensorflow":
        raise InputError(f"Keras runs on {keras.config.backend()}; export needs its TensorFlow")
    if model.compute_dtype != "float32":
        raise InputError(
            f"the model computes in {model.compute_dtype}; load its weights into a float32 model"
        )
    config = getattr(model, "config", None)
    if config is not None and len(vocabulary) > config.vocab_size:
        raise InputError(
            f"the vocabulary has {len(vocabulary)} pieces, the model {config.vocab_size}; "
            "give the vocabulary that it was trained with"
        )


def _sample_answers(
    model: keras.Model, *, tokenizer: WordPieceTokenizer, max_length: int, num_texts: int
) -> tuple[list[dict], list[np.ndarray]]:
    """Requests to both signatures, and the probabilities [B,N] that `model` has for each."""
    texts = [
        "A short sentence.",
        "",
        "words, more than fit; " * max_length,
        "Café [MASK] İSTANBUL ß ﬁ ΟΔΟΣ 東京 한국 a\u200bb \x00\ufffd 😀\tend\n",
    ]
    columns = (texts, texts[1:] + texts[:1])[:num_texts]
    requests, expected = [], []
    for rows in (slice(None), slice(1)):
        chosen = [column[rows] for column in columns]
        ids = [tokenizer.ids_batch(column) for column in chosen]
        inputs = pack(*ids, vocabulary=tokenizer.vocabulary, max_length=max_length)
        with tf.device("CPU:0"):
            logits = model(inputs, training=False)
        tensors = {name: array.tolist() for name, array in inputs.items()}
        requests += [
            {
                "signature": "serving_default",
                "inputs": dict(zip(TEXT_INPUTS, chosen, strict=False)),
            },
            {"signature": "tensors", "inputs": tensors},
        ]
        expected += 2 * [tf.nn.softmax(logits).numpy()]
    return requests, expected


def _compare(answer: dict, probabilities: np.ndarray, *, labels: Sequence[str], signature: str):
    served = np.array(answer["probabilities"], np.float32)
    difference = np.abs(served - probabilities).max()
    if not difference <= TOLERANCE:
        raise RuntimeError(
            f"{signature} answers with probabilities that are {difference:.1e} off the Keras "
            f"model's; expected at most {TOLERANCE:.0e}"
        )
    named = [labels[index] for index in served.argmax(axis=1)]
    if answer["label"] != named or answer["labels"] != [list(labels)] * len(served):
        raise RuntimeError(f"{signature} answers with labels that do not fit its probabilities")
