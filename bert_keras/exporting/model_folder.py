"""Exports a trained model to a version folder, saved_models/NAME/VERSION."""

import os
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import keras

from bert_keras.architectures import ARCHITECTURES
from bert_keras.checkpoints.formats import open_text_checkpoint
from bert_keras.errors import InputError
from bert_keras.exporting.saved_model import export_metadata, write_saved_model
from bert_keras.exporting.signatures.classifier import served_classifier
from bert_keras.exporting.signatures.exporter import Exporter
from bert_keras.exporting.variants.variant import Variant
from bert_keras.models import load_model
from bert_keras.text.fast_tokenizer import tokenizer_of
from bert_keras.text.tokenizer import TextTokenizer
from bert_keras.text.vocab import Vocabulary


def export_model(
    model_folder: str | os.PathLike,
    folder: str | os.PathLike,
    *,
    num_texts: int | None = None,
    variant: type[Variant] | None = None,
) -> Path:
    """Exports a model of any checkpoint format as a SavedModel.

    A classifier that was trained on windows of long texts also reads windows when it is served.

    Args:
        model_folder: A folder with weights, metadata and a vocabulary.
        folder: The version folder, saved_models/NAME/VERSION, which must not exist yet.
        num_texts: The number of texts that a classifier takes, 1 or 2; None takes the number that
            the model was trained on, or 1 if the metadata does not state it.
        variant: The variant to export; None exports the float32 model.

    Returns:
        The path of `folder`.

    Raises:
        InputError: The model in `model_folder` has no exporter, or its signatures refuse a setting.
    """
    checkpoint = open_text_checkpoint(model_folder)
    metadata = checkpoint.metadata
    module = ARCHITECTURES[metadata.model].exporter
    if not module:
        known = sorted(name for name, row in ARCHITECTURES.items() if row.exporter)
        raise InputError(
            f"{model_folder} contains a {metadata.model}; expected one of {', '.join(known)}"
        )
    exporter: Exporter = import_module(module).EXPORTER
    settings = exporter.settings(metadata, str(model_folder))
    if num_texts is not None:
        if "num_texts" not in settings:
            raise InputError(
                f"{model_folder} contains a {metadata.model}; only a classifier takes a "
                "number of texts"
            )
        settings["num_texts"] = num_texts
    model = load_model(model_folder)
    return write_saved_model(
        model if variant is None else variant(model),
        folder,
        make=partial(exporter.make, **settings),
        reader=exporter.reader,
        tokenizer=cast(TextTokenizer, checkpoint.tokenizer),  # a text checkpoint has a tokenizer
        max_length=metadata.max_length,
        metadata=export_metadata(metadata, model_folder=model_folder),
    )


def export_classifier(
    model: keras.Model,
    folder: str | os.PathLike,
    *,
    vocabulary: Vocabulary,
    lowercase: bool,
    max_length: int,
    **settings: Any,
) -> Path:
    """Exports a Keras classifier of any origin as a SavedModel.

    Args:
        model: A Keras model that takes `input_ids`, `input_mask` and `segment_ids` and returns
            logits; see `served_classifier`.
        folder: The version folder, saved_models/NAME/VERSION, which must not exist yet.
        vocabulary: The vocabulary of the model.
        lowercase: Whether the tokenizer converts words to lower case.
        max_length: The largest number of tokens of a text or pair.
        **settings: `labels` and other arguments of `served_classifier`.

    Returns:
        The path of the folder.

    Raises:
        InputError: The folder exists, or `served_classifier` refuses the model or a setting.

    Example:

    ```python
    model = BertClassifier.from_pretrained("film-critic")
    export_classifier(
        model,
        "saved_models/film-critic/1",
        vocabulary=model.tokenizer.vocabulary,
        lowercase=True,
        max_length=64,
        labels=("negative", "positive"),
    )
    ```
    """
    return write_saved_model(
        model,
        folder,
        make=partial(served_classifier, **settings),
        tokenizer=tokenizer_of(vocabulary, lowercase=lowercase),
        max_length=max_length,
    )
