"""Exports a model or a smaller variant of it for TF Serving."""

import dataclasses
import os
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import keras
from typing_extensions import deprecated

from bert_keras.checkpoints.formats import open_text_checkpoint
from bert_keras.config import ModelMetadata
from bert_keras.errors import InputError, check, check_name
from bert_keras.exporting.saved_model import export_metadata, write_saved_model
from bert_keras.exporting.servable import EXPORTERS, Exporter
from bert_keras.exporting.signatures import classifier
from bert_keras.exporting.variants.export_variant import (
    LITERT,
    MAX_SCORE_LOSS,
    SAVED_MODELS,
    export_variant,
    scoring,
)
from bert_keras.exporting.variants.variant import Variant
from bert_keras.files import StrPath
from bert_keras.models import load_model
from bert_keras.models.pretrained import Pretrained
from bert_keras.text.fast_tokenizer import tokenizer_of
from bert_keras.text.tokenizer import TextTokenizer
from bert_keras.text.vocab import Vocabulary


def export(  # noqa: PLR0913 - public; each argument is optional
    model: StrPath | Pretrained,
    path: StrPath,
    *,
    tokenizer: TextTokenizer | None = None,
    labels: Sequence[str] = (),
    max_length: int | None = None,
    num_texts: int | None = None,
    dimensions: int | None = None,
    variant: str | None = None,
    data: StrPath | None = None,
    task: str | None = None,
    max_score_loss: float = MAX_SCORE_LOSS,
) -> Path:
    """Writes a model of any head as a SavedModel that takes texts, and verifies it.

    `bert-keras export` and `model.export` call this function. The SavedModel contains the text
    processing, its signatures and warm-up requests for TF Serving. A fresh process loads it as
    TF Serving does and compares its outputs with those of the Keras model. An error leaves no
    version.

    Args:
        model: The folder of a model in any checkpoint format, with a vocabulary; or a model in
            memory.
        path: The version folder, saved_models/NAME/VERSION, which must not exist yet.
        tokenizer: The tokenizer of a model in memory; by default `model.tokenizer`.
        labels: The labels of a model in memory; by default those of its metadata.
        max_length: The largest number of tokens of a text or pair, special tokens included; by
            default that of the model's metadata.
        num_texts: The number of texts that a classifier takes, 1 or 2; by default the number that
            the model was trained on, or 1 if its metadata does not state it.
        dimensions: The number of values to keep of each embedding of a BertSentenceEncoder; by
            default all.
        variant: "float16", "bfloat16", "int8" or "litert", which is written only if it improves on
            float32; by default the model is written in float32.
        data: Labelled examples to score a variant on: a file of the task, or a data folder or
            `tfds:NAME` with a split "dev".
        task: The name of the task that scores a variant; by default the task of the fine-tuning.
        max_score_loss: The points, of 100, by which the score of a variant may drop.

    Returns:
        The path of the version folder.

    Raises:
        InputError: The model has no vocabulary or cannot be served, an argument does not fit it,
            `path` exists or is not a version folder, or the variant is not better than float32.
        RuntimeError: The SavedModel does not give the outputs of the Keras model.

    Example:

    ```python
    export("film-critic", "saved_models/film-critic/1")
    ```
    """
    check(
        variant is not None or (data, task, max_score_loss) == (None, None, MAX_SCORE_LOSS),
        "data, task and max_score_loss have no effect without a variant; leave them out or choose "
        "a variant",
    )
    if variant is not None:
        check_name(variant, (*SAVED_MODELS, LITERT), what="variant")
        check(data is not None, f"the variant {variant} needs data, labelled examples to score it")
        check(max_score_loss >= 0, f"max_score_loss is {max_score_loss}; expected 0 or more points")
    if isinstance(model, Pretrained):
        source, folder, load = "the model", None, lambda: model
        tokenizer = tokenizer or model.tokenizer
        if tokenizer is None:
            raise InputError(f"{source} has no vocabulary; give its tokenizer: tokenizer=...")
        metadata = model.stored_metadata(tokenizer, labels=labels)
    else:
        check(
            tokenizer is None and not labels,
            "tokenizer and labels are for a model in memory; a model folder contains its own",
        )
        checkpoint = open_text_checkpoint(model)
        source, folder, load = os.fspath(model), Path(model), partial(load_model, model)
        metadata, tokenizer = checkpoint.metadata, checkpoint.tokenizer
    if max_length is not None:
        metadata = dataclasses.replace(metadata, max_length=max_length)
    exporter, settings = _exporter(metadata, source, num_texts=num_texts, dimensions=dimensions)

    def write(path: StrPath, *, variant: type[Variant] | None = None) -> Path:
        loaded = load()
        return write_saved_model(
            loaded if variant is None else variant(loaded),
            path,
            exporter=exporter,
            settings=settings,
            tokenizer=tokenizer,
            max_length=metadata.max_length,
            metadata=export_metadata(metadata, model_folder=folder),
        )

    if variant is None:
        return write(path)
    scored = scoring(metadata, source, name=task, data=str(data), tokenizer=tokenizer)
    return export_variant(path, scored, write=write, variant=variant, max_score_loss=max_score_loss)


def _exporter(metadata: ModelMetadata, source: str, **options: int | None) -> tuple[Exporter, dict]:
    """Returns the exporter of a model and the settings of its signatures."""
    check(
        metadata.model in EXPORTERS,
        f"{source} is a {metadata.model}; expected one of {', '.join(sorted(EXPORTERS))}; convert "
        "it with bert-keras convert --model BertEncoder",
    )
    exporter: Exporter = import_module(EXPORTERS[metadata.model]).EXPORTER
    settings = exporter.settings(metadata, source)
    chosen = {name: value for name, value in options.items() if value is not None}
    for name in chosen:
        check(name in settings, f"a {metadata.model} takes no {name}")
    return exporter, {**settings, **chosen}


@deprecated("use export or model.export; export_classifier goes with version 0.4")
def export_classifier(
    model: keras.Model,
    folder: StrPath,
    *,
    vocabulary: Vocabulary,
    lowercase: bool,
    max_length: int,
    **settings: Any,
) -> Path:
    """Exports a Keras classifier as a SavedModel. Deprecated: use `export` or `model.export`.

    Args:
        model: Takes `input_ids`, `input_mask` and `segment_ids` and returns logits.
        folder: The version folder, saved_models/NAME/VERSION, which must not exist yet.
        vocabulary: The vocabulary of the model.
        lowercase: Whether the tokenizer converts words to lower case.
        max_length: The largest number of tokens of a text or pair.
        **settings: `labels`, and `num_texts` and `problem_type` if needed.

    Returns:
        The path of the folder.

    Raises:
        InputError: The folder exists, or the model or a setting does not fit.

    Example:

    ```python
    settings = {"lowercase": True, "max_length": 64, "labels": ("negative", "positive")}
    export_classifier(model, "saved_models/critic/1", vocabulary=vocabulary, **settings)
    ```
    """
    return write_saved_model(
        model,
        folder,
        exporter=classifier.EXPORTER,
        settings=settings,
        tokenizer=tokenizer_of(vocabulary, lowercase=lowercase),
        max_length=max_length,
    )
