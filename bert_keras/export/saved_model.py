"""A trained classifier and its vocabulary come in; a folder that TF Serving loads goes out."""

import os
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.export.answers import Answer, answer_of
from bert_keras.export.samples import samples
from bert_keras.export.serving_ops import check_ops
from bert_keras.export.signatures import ServedClassifier, signatures, window_signatures
from bert_keras.export.text_in_graph import TextToInputs
from bert_keras.export.verify import answers_in_fresh_process
from bert_keras.progress import progress
from bert_keras.storage import tensorflow_writes, whole_folder
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import Vocabulary

# Of a probability, or a score beside 1, between the Keras model and its SavedModel.
TOLERANCE = 1e-5


def export_classifier(
    model: keras.Model,
    folder: str | os.PathLike,
    *,
    vocabulary: Vocabulary,
    lowercase: bool,
    labels: Sequence[str],
    max_length: int,
    num_texts: int = 1,
    problem_type: str = "",
    stride: int | None = None,
) -> Path:
    """Write saved_models/NAME/VERSION with the signatures `serving_default` and `tensors`.

    `model` takes a dict of int32 `input_ids`, `input_mask`, `segment_ids` [B,T] and returns logits
    [B,N], in the order of `labels`; `problem_type`, as a ModelCard says it, tells what they are:
    see export/answers.py. `serving_default` takes raw `text`, with `num_texts` 2 also `text_pair`,
    of up to `max_length` pieces. More are cut or, with a `stride`, read by a BertClassifier in
    windows as bert_keras/tasks/texts.py makes them. Weights are stored once, the vocabulary is an
    asset.

    The folder takes its name only after its ops were found in TF Serving 2.20 and a fresh process
    loaded it TF Serving's way and gave the answers of `model` to 1e-5. Raises InputError for
    a folder that is there or is no version number, for parts that do not fit each other and for
    ops that a server lacks; RuntimeError where the written folder does not answer as `model` does.
    """
    folder = Path(folder)
    _check_parts(model, folder, vocabulary=vocabulary, num_texts=num_texts, stride=stride)
    answer = answer_of(labels, problem_type=problem_type)
    with (
        whole_folder(folder) as beside,
        tempfile.TemporaryDirectory() as scratch,
        progress(stage="export", unit="steps", total=3) as bar,
    ):
        asked = samples(
            model,
            tokenizer=WordPieceTokenizer(vocabulary, lowercase=lowercase),
            max_length=max_length,
            num_texts=num_texts,
            stride=stride,
        )
        if (num_logits := asked[0].logits.shape[1]) != len(labels):
            raise InputError(f"{len(labels)} labels came with {num_logits} logits")
        vocabulary_file = Path(scratch) / "vocab.txt"
        vocabulary.save(vocabulary_file)
        reader = TextToInputs(vocabulary_file, lowercase=lowercase, max_length=max_length)
        make = signatures if stride is None else partial(window_signatures, stride=stride)
        with tensorflow_writes(folder):
            tf.saved_model.save(
                ServedClassifier(model, text_to_inputs=reader),
                os.fspath(beside),
                signatures=make(model, text_to_inputs=reader, answer=answer, num_texts=num_texts),
            )
        bar.update()
        check_ops(beside)
        bar.update()
        answers = answers_in_fresh_process(beside, [sample.request for sample in asked])
        for (request, logits), served in zip(asked, answers, strict=True):
            _compare(served, logits, answer=answer, signature=request["signature"])
        bar.update()
    return folder


def _check_parts(
    model: keras.Model,
    folder: Path,
    *,
    vocabulary: Vocabulary,
    num_texts: int,
    stride: int | None,
):
    if not (folder.name.isascii() and folder.name.isdigit()):
        raise InputError(
            f"{folder} does not end in a version number; expected such as saved_models/NAME/1"
        )
    if num_texts not in (1, 2):
        raise InputError(f"num_texts is {num_texts}; expected 1 or 2")
    if stride is not None and (type(stride) is not int or stride < 1):
        raise InputError(f"stride is {stride!r}; expected the number of pieces, at least 1")
    if stride is not None and not hasattr(model, "window_pooling"):
        raise InputError(f"stride is {stride} and a {type(model).__name__} reads no windows")
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


def _compare(served: dict, logits: tf.Tensor, *, answer: Answer, signature: str):
    expected = answer.outputs(logits)[answer.number].numpy()
    found = np.array(served[answer.number], np.float32)
    difference = (np.abs(found - expected) / np.maximum(np.abs(expected), 1)).max()
    if not difference <= TOLERANCE:
        raise RuntimeError(
            f"{signature} answers with {answer.number} {difference:.1e} off the Keras model's; "
            f"expected at most {TOLERANCE:.0e}"
        )
    if not answer.names_fit(served):
        raise RuntimeError(f"{signature} answers with labels that do not fit its {answer.number}")
