"""Exports a model or a smaller variant of it for TF Serving."""

from collections.abc import Sequence
from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.exporting.model_folder import export_model, text_model
from bert_keras.exporting.variants.export_variant import MAX_SCORE_LOSS, export_variant
from bert_keras.files import StrPath
from bert_keras.models.pretrained import Pretrained
from bert_keras.text.tokenizer import TextTokenizer


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
    folder.

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
    if variant is None and (data, task, max_score_loss) != (None, None, MAX_SCORE_LOSS):
        raise InputError(
            "data, task and max_score_loss have no effect without a variant; leave them out or "
            "choose a variant"
        )
    described = text_model(model, tokenizer=tokenizer, labels=labels, max_length=max_length)
    if variant is None:
        return export_model(described, path, num_texts=num_texts, dimensions=dimensions)
    if data is None:
        raise InputError(f"the variant {variant} needs data, labelled examples to score it on")
    return export_variant(
        described,
        path,
        variant=variant,
        data=str(data),
        task=task,
        num_texts=num_texts,
        dimensions=dimensions,
        max_score_loss=max_score_loss,
    )
