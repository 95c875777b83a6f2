"""Loads models by name; importing this module registers all model classes with Keras."""

from importlib import import_module
from typing import Any

import keras

from bert_keras.checkpoints.formats import open_checkpoint
from bert_keras.checkpoints.keras_hub import HUB_CLASSES, checkpoint_of
from bert_keras.checkpoints.pretrained import build_model
from bert_keras.errors import InputError, check_name, suggest_keyword_names
from bert_keras.files import StrPath
from bert_keras.kinds.known import KINDS
from bert_keras.models.pretrained import Pretrained

# Name of a model class in checkpoints -> the class
MODELS: dict[str, type[Pretrained]] = {
    name: getattr(import_module(kind.module), name) for name, kind in KINDS.items()
}


@suggest_keyword_names
def load_model(name_or_folder: StrPath) -> Pretrained:
    """Loads the model of a checkpoint.

    Args:
        name_or_folder: A folder of any checkpoint format, a name of Hugging Face such as
            "klue/bert-base" or "NAME@REVISION", a preset of KerasHub, or "kaggle://...".

    Returns:
        The model of the class that the checkpoint contains, with `metadata` (model metadata) and
        its `tokenizer`.

    Example:

    ```python
    model = load_model("films")
    print(model.metadata.labels)
    ```
    """
    checkpoint = open_checkpoint(name_or_folder)
    metadata = checkpoint.metadata
    check_name(metadata.model, MODELS, what="model")
    return build_model(MODELS[metadata.model], checkpoint, metadata=metadata, source=name_or_folder)


def from_keras_hub(model: keras.Model, *, preprocessor: Any = None) -> Pretrained:
    """Converts a model of keras_hub to the model of this package with the same outputs.

    Args:
        model: A backbone, text classifier or masked-LM model of BERT, RoBERTa, ALBERT or
            DistilBERT, such as a `keras_hub.models.BertTextClassifier`.
        preprocessor: A preprocessor or tokenizer of keras_hub; by default the preprocessor of a
            task model, and none for a backbone.

    Returns:
        A `BertEncoder`, `BertClassifier` or `BertMaskedLM` with the weights, the tokenizer and the
        maximum length. The classifier returns logits, even if the one of keras_hub does not.

    Example:

    ```python
    import keras_hub

    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=4_000, num_layers=2, num_heads=2, hidden_dim=128, intermediate_dim=512
    )
    encoder = from_keras_hub(backbone)
    ```
    """
    name = type(model).__name__
    if isinstance(model, str):
        raise InputError(f"expected a model in memory; load_model({model!r}) takes a name")
    check_name(name, HUB_CLASSES, what="counterpart in bert_keras")
    checkpoint = checkpoint_of(model, preprocessor or getattr(model, "preprocessor", None))
    metadata, source = checkpoint.metadata, f"keras_hub's {name}"
    converted = build_model(MODELS[metadata.model], checkpoint, metadata=metadata, source=source)
    print(converted.load_report)
    return converted
