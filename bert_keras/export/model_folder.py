"""A model folder of any kind in, the next version under saved_models/NAME out."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bert_keras.checkpoints.card import ModelCard
from bert_keras.checkpoints.formats import open_text_checkpoint
from bert_keras.errors import InputError
from bert_keras.export.classifier import served_classifier
from bert_keras.export.embeddings import served_embeddings
from bert_keras.export.masked_lm import served_masked_lm
from bert_keras.export.masks_in_graph import MaskedTextToInputs
from bert_keras.export.metadata import metadata_of
from bert_keras.export.multiple_choice import served_multiple_choice
from bert_keras.export.question_answering import served_question_answering
from bert_keras.export.saved_model import write_saved_model
from bert_keras.export.servable import Servable
from bert_keras.export.text_in_graph import TextToInputs
from bert_keras.export.token_labels import served_token_labels
from bert_keras.export.variants import Variant
from bert_keras.models.loading import load_model
from bert_keras.models.task_models import WINDOW_POOLINGS
from bert_keras.tasks.catalog import task_of


class Exporter(NamedTuple):
    """`make` takes the model, a `reader` of text, a tokenizer, and `settings` of its card."""

    make: Callable[..., Servable]
    settings: Callable[[ModelCard], dict] = lambda card: {}
    reader: type[TextToInputs] = TextToInputs


def _classifier_settings(card: ModelCard) -> dict:
    reads_windows = card.task.get("long_texts") in WINDOW_POOLINGS
    return {
        "labels": card.labels,
        "num_texts": len(card.text_columns) or 1,
        "problem_type": card.problem_type,
        "stride": card.task.get("stride", 0) if reads_windows else None,
    }


def _task_settings(usual: str) -> Callable[[ModelCard], dict]:
    """Of the task that the model was trained on; of the `usual` one where it is from elsewhere."""
    return lambda card: {
        "task": task_of(card, name=str(card.task.get("name", usual)), source="the checkpoint")
    }


EXPORTERS: dict[str, Exporter] = {
    "BertClassifier": Exporter(served_classifier, _classifier_settings),
    "BertEncoder": Exporter(served_embeddings),
    "BertMaskedLM": Exporter(served_masked_lm, reader=MaskedTextToInputs),
    "BertMultipleChoice": Exporter(served_multiple_choice),
    "BertPretrainer": Exporter(served_masked_lm, reader=MaskedTextToInputs),
    "BertQuestionAnswering": Exporter(served_question_answering, _task_settings("squad1")),
    "BertTokenClassifier": Exporter(served_token_labels, lambda card: {"labels": card.labels}),
}


def export_model(
    model_folder: str | os.PathLike,
    folder: str | os.PathLike,
    *,
    num_texts: int | None = None,
    variant: type[Variant] | None = None,
) -> Path:
    """Write `folder` = saved_models/NAME/VERSION from a model of any checkpoint format, or of a
    `variant` of it. A classifier is of one text or two as its card says unless `num_texts` does, of
    one where neither does; one that was trained on windows of long texts is served so.

    Raises InputError where `model_folder` holds no model that is served, and what the functions in
    EXPORTERS raise.
    """
    checkpoint = open_text_checkpoint(model_folder)
    card = checkpoint.card
    if card.model not in EXPORTERS:
        raise InputError(
            f"{model_folder} holds a {card.model}; expected one of {', '.join(EXPORTERS)}"
        )
    if card.config.is_causal and card.model == "BertMaskedLM":
        raise InputError(
            f"{model_folder} reads from left to right and fills no [MASK]; fine-tune it, or serve "
            "its vectors: bert-keras convert --model BertEncoder"
        )
    exporter = EXPORTERS[card.model]
    settings = exporter.settings(card)
    if num_texts is not None:
        if "num_texts" not in settings:
            raise InputError(
                f"{model_folder} holds a {card.model}; the number of texts is a classifier's"
            )
        settings["num_texts"] = num_texts
    model = load_model(model_folder)
    return write_saved_model(
        model if variant is None else variant(model),
        folder,
        make=partial(exporter.make, **settings),
        reader=exporter.reader,
        vocabulary=checkpoint.vocabulary,
        lowercase=card.lowercase,
        max_length=card.max_length,
        metadata=metadata_of(card, model_folder=model_folder),
    )
