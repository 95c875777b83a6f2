"""A model folder of a fine-tuning run in, the next version under saved_models/NAME out."""

import os
from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.export.saved_model import export_classifier
from bert_keras.models.folder import load_model, read_card, read_vocabulary


def export_model(model_folder: str | os.PathLike, folder: str | os.PathLike) -> Path:
    """Write `folder` = saved_models/NAME/VERSION from what `bert-keras finetune` left.

    Raises InputError where `model_folder` holds no classifier, and what `export_classifier` raises.
    """
    card = read_card(model_folder)
    if card.model != "BertClassifier":
        raise InputError(f"{model_folder} holds a {card.model}; only a BertClassifier is exported")
    return export_classifier(
        load_model(model_folder),
        folder,
        vocabulary=read_vocabulary(model_folder),
        lowercase=card.lowercase,
        labels=card.labels,
        max_length=card.max_length,
        num_texts=len(card.text_columns),
    )


def next_version(place: str | os.PathLike) -> int:
    """One more than the largest version in saved_models/NAME; 1 where there is none."""
    place = Path(place)
    versions = [int(p.name) for p in place.glob("*") if p.name.isdigit()] if place.is_dir() else []
    return max(versions, default=0) + 1
