"""Writes the SavedModel of a trained model to a version folder, saved_models/NAME/VERSION."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import keras
from typing_extensions import deprecated

from bert_keras.checkpoints.formats import open_text_checkpoint
from bert_keras.config import ModelMetadata
from bert_keras.errors import InputError
from bert_keras.exporting.saved_model import export_metadata, write_saved_model
from bert_keras.exporting.signatures.classifier import served_classifier
from bert_keras.exporting.signatures.exporter import Exporter
from bert_keras.exporting.variants.variant import Variant
from bert_keras.files import StrPath
from bert_keras.models import load_model
from bert_keras.models.pretrained import Pretrained
from bert_keras.text.fast_tokenizer import tokenizer_of
from bert_keras.text.tokenizer import TextTokenizer
from bert_keras.text.vocab import Vocabulary

# Module with the signatures of each model class.
EXPORTERS = {
    "BertEncoder": "bert_keras.exporting.signatures.embeddings",
    "BertSentenceEncoder": "bert_keras.exporting.signatures.embeddings",
    "BertPretrainer": "bert_keras.exporting.signatures.masked_lm",
    "BertMaskedLM": "bert_keras.exporting.signatures.masked_lm",
    "BertClassifier": "bert_keras.exporting.signatures.classifier",
    "BertTokenClassifier": "bert_keras.exporting.signatures.token_classifier",
    "BertQuestionAnswering": "bert_keras.exporting.signatures.question_answering",
    "BertMultipleChoice": "bert_keras.exporting.signatures.multiple_choice",
}


@dataclass(frozen=True, kw_only=True)
class TextModel:
    """A trained model with its tokenizer."""

    source: str  # its folder or its class, for messages
    folder: Path | None  # None if it is in memory
    metadata: ModelMetadata
    tokenizer: TextTokenizer
    load: Callable[[], keras.Model]


def text_model(
    model: StrPath | Pretrained,
    *,
    tokenizer: TextTokenizer | None = None,
    labels: Sequence[str] = (),
    max_length: int | None = None,
) -> TextModel:
    """Opens a model folder, or describes a model in memory; see `export` for the arguments.

    Raises:
        InputError: The model has no tokenizer, or `labels` or `max_length` does not fit it.
    """
    if isinstance(model, Pretrained):
        source, folder, load = "the model", None, lambda: model
        tokenizer = tokenizer or model.tokenizer
        if tokenizer is None:
            raise InputError(f"{source} has no vocabulary; give its tokenizer: tokenizer=...")
        metadata = model.stored_metadata(tokenizer, labels=labels)
    else:
        if tokenizer is not None or labels:
            raise InputError(
                "tokenizer and labels are for a model in memory; a model folder contains its own"
            )
        checkpoint = open_text_checkpoint(model)
        source, folder, load = os.fspath(model), Path(model), partial(load_model, model)
        metadata, tokenizer = checkpoint.metadata, checkpoint.tokenizer
    if max_length is not None:
        metadata = dataclasses.replace(metadata, max_length=max_length)
    return TextModel(
        source=source, folder=folder, metadata=metadata, tokenizer=tokenizer, load=load
    )


def export_model(
    model: TextModel,
    folder: StrPath,
    *,
    num_texts: int | None = None,
    dimensions: int | None = None,
    variant: type[Variant] | None = None,
) -> Path:
    """Writes a model as a SavedModel.

    A classifier that was trained on windows of long texts also reads windows when it is served.

    Args:
        model: The model.
        folder: The version folder, saved_models/NAME/VERSION, which must not exist yet.
        num_texts: The number of texts that a classifier takes, 1 or 2; None takes the number that
            the model was trained on, or 1 if the metadata does not state it.
        dimensions: The number of values to keep of each embedding of a sentence encoder; None keeps
            all.
        variant: The variant to write; None writes the float32 model.

    Returns:
        The path of `folder`.

    Raises:
        InputError: The model has no exporter, or its signatures refuse a setting.
    """
    metadata = model.metadata
    module = EXPORTERS.get(metadata.model)
    if module is None:
        known = sorted(EXPORTERS)
        raise InputError(
            f"{model.source} is a {metadata.model}; expected one of {', '.join(known)}; convert it "
            f"with bert-keras convert --model BertEncoder"
        )
    exporter: Exporter = import_module(module).EXPORTER
    settings = exporter.settings(metadata, model.source)
    for name, value, taker in (
        ("num_texts", num_texts, "a classifier takes a number of texts"),
        ("dimensions", dimensions, "a BertSentenceEncoder takes a number of dimensions"),
    ):
        if value is not None and name not in settings:
            raise InputError(f"{model.source} is a {metadata.model}; only {taker}")
        if value is not None:
            settings[name] = value
    loaded = model.load()
    return write_saved_model(
        loaded if variant is None else variant(loaded),
        folder,
        make=partial(exporter.make, **settings),
        reader=exporter.reader,
        tokenizer=model.tokenizer,
        max_length=metadata.max_length,
        metadata=export_metadata(metadata, model_folder=model.folder),
    )


@deprecated("use export or model.export; export_classifier goes with version 0.3")
def export_classifier(
    model: keras.Model,
    folder: str | os.PathLike,
    *,
    vocabulary: Vocabulary,
    lowercase: bool,
    max_length: int,
    **settings: Any,
) -> Path:
    """Exports a Keras classifier as a SavedModel. Deprecated: use `export` or `model.export`.

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
