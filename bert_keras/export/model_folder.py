"""A model folder of a fine-tuning run in, the next version under saved_models/NAME out."""

import os
from pathlib import Path

from bert_keras.convert.formats import open_text_checkpoint
from bert_keras.errors import InputError
from bert_keras.export.saved_model import export_classifier
from bert_keras.models.classifier import WINDOW_POOLINGS
from bert_keras.models.loading import load_model


def export_model(
    model_folder: str | os.PathLike, folder: str | os.PathLike, *, num_texts: int | None = None
) -> Path:
    """Write `folder` = saved_models/NAME/VERSION from a classifier of any checkpoint format, of one
    text or two: as its card says unless `num_texts` does, one where neither does. A model that was
    trained on windows of long texts is served so.

    Raises InputError where `model_folder` holds no classifier, and what `export_classifier` raises.
    """
    checkpoint = open_text_checkpoint(model_folder)
    card = checkpoint.card
    if card.model != "BertClassifier":
        raise InputError(f"{model_folder} holds a {card.model}; only a BertClassifier is exported")
    reads_windows = card.task.get("long_texts") in WINDOW_POOLINGS
    return export_classifier(
        load_model(model_folder),
        folder,
        vocabulary=checkpoint.vocabulary,
        lowercase=card.lowercase,
        labels=card.labels,
        max_length=card.max_length,
        num_texts=num_texts or len(card.text_columns) or 1,
        problem_type=card.problem_type,
        stride=card.task.get("stride", 0) if reads_windows else None,
    )


def next_version(place: str | os.PathLike) -> int:
    """One more than the largest version in saved_models/NAME; 1 where there is none."""
    place = Path(place)
    versions = [int(p.name) for p in place.glob("*") if p.name.isdigit()] if place.is_dir() else []
    return max(versions, default=0) + 1
