"""A trained classifier and its vocabulary come in; a folder that TF Serving loads goes out."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import keras

from bert_keras.checkpoints.card import ModelCard
from bert_keras.errors import InputError
from bert_keras.export.answers import answer_of
from bert_keras.export.classifier_samples import samples
from bert_keras.export.classifier_signatures import signatures, window_signatures
from bert_keras.export.examples import API_INPUT, on_examples
from bert_keras.export.saved_model import write_saved_model
from bert_keras.export.servable import Exporter, Servable
from bert_keras.export.text_in_graph import TextToInputs
from bert_keras.models.task_models import WINDOW_POOLINGS
from bert_keras.text.tokenizer import TextTokenizer
from bert_keras.text.vocab import Vocabulary


def export_classifier(
    model: keras.Model,
    folder: str | os.PathLike,
    *,
    vocabulary: Vocabulary,
    lowercase: bool,
    max_length: int,
    **settings,
) -> Path:
    """Write saved_models/NAME/VERSION of a classifier that may come from elsewhere: `settings` as
    `served_classifier` takes them. Raises as that and `write_saved_model` do.
    """
    return write_saved_model(
        model,
        folder,
        make=partial(served_classifier, **settings),
        vocabulary=vocabulary,
        lowercase=lowercase,
        max_length=max_length,
    )


def served_classifier(
    model: keras.Model,
    reader: TextToInputs,
    tokenizer: TextTokenizer,
    *,
    labels: Sequence[str],
    num_texts: int = 1,
    problem_type: str = "",
    stride: int | None = None,
) -> Servable:
    """`serving_default`, `tensors` and that of TF Serving's own API for such models, `classify` or
    `regress`.

    `model` takes a dict of int32 `input_ids`, `input_mask`, `segment_ids` [B,T] and returns logits
    [B,N], in the order of `labels`; `problem_type`, as a ModelCard says it, tells what they are:
    see export/answers.py. `serving_default` takes raw `text`, with `num_texts` 2 also `text_pair`,
    of up to as many pieces as `reader` takes. More are cut or, with a `stride`, read by a
    BertClassifier in windows as bert_keras/tasks/texts.py makes them. Raises InputError for
    settings that do not fit each other.
    """
    if num_texts not in (1, 2):
        raise InputError(f"num_texts is {num_texts}; expected 1 or 2")
    if stride is not None and (type(stride) is not int or stride < 1):
        raise InputError(f"stride is {stride!r}; expected the number of pieces, at least 1")
    if stride is not None and not hasattr(model, "window_pooling"):
        raise InputError(f"stride is {stride} and a {type(model).__name__} reads no windows")
    answer = answer_of(labels, problem_type=problem_type)
    asked = samples(
        model,
        answer=answer,
        num_labels=len(labels),
        tokenizer=tokenizer,
        max_length=reader.max_length,
        num_texts=num_texts,
        stride=stride,
    )
    sign = signatures if stride is None else partial(window_signatures, stride=stride)
    signed = sign(model, text_to_inputs=reader, answer=answer, num_texts=num_texts)
    return on_examples(
        Servable(signed, asked),
        signature=answer.api,
        input_name=API_INPUT,
        outputs=answer.api_outputs,
    )


def _settings(card: ModelCard) -> dict:
    reads_windows = card.task.get("long_texts") in WINDOW_POOLINGS
    return {
        "labels": card.labels,
        "num_texts": len(card.text_columns) or 1,
        "problem_type": card.problem_type,
        "stride": card.task.get("stride", 0) if reads_windows else None,
    }


EXPORTER = Exporter(served_classifier, settings=_settings)
