"""A model folder of any kind in, the next version under saved_models/NAME out."""

import os
from functools import partial
from importlib import import_module
from pathlib import Path

from bert_keras.architectures import ARCHITECTURES, MASKED_LM
from bert_keras.checkpoints.formats import open_text_checkpoint
from bert_keras.errors import InputError
from bert_keras.export.metadata import metadata_of
from bert_keras.export.saved_model import write_saved_model
from bert_keras.export.servable import Exporter
from bert_keras.export.variants import Variant
from bert_keras.models.loading import load_model


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

    Raises InputError where `model_folder` holds no model that is served, and what the
    architecture's exporter raises.
    """
    checkpoint = open_text_checkpoint(model_folder)
    card = checkpoint.card
    module = ARCHITECTURES[card.model].exporter
    if not module:
        known = sorted(name for name, row in ARCHITECTURES.items() if row.exporter)
        raise InputError(f"{model_folder} holds a {card.model}; expected one of {', '.join(known)}")
    if card.config.is_causal and card.model == MASKED_LM.name:
        raise InputError(
            f"{model_folder} reads from left to right and fills no [MASK]; fine-tune it, or serve "
            "its vectors: bert-keras convert --model {ENCODER.name}"
        )
    exporter: Exporter = import_module(module).EXPORTER
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
