"""Converts models in memory between keras_hub and this package."""

from typing import Any

import keras

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.keras_hub import (
    CLASSES,
    HUB_CLASSES,
    checkpoint_of,
    hub_model,
    set_computation,
)
from bert_keras.errors import check
from bert_keras.models import MODELS
from bert_keras.models.pretrained import Pretrained, named_weights, stored_weight


def from_keras_hub(model: keras.Model, *, preprocessor: Any = None) -> Pretrained:
    """Converts a model of keras_hub to the model of this package with the same outputs.

    Args:
        model: A backbone, text classifier or masked-LM model of BERT, RoBERTa, ALBERT or
            DistilBERT, such as a `keras_hub.models.BertTextClassifier`.
        preprocessor: A preprocessor or tokenizer of keras_hub; None takes that of a task model. A
            backbone has none.

    Returns:
        A `BertEncoder`, `BertClassifier` or `BertMaskedLM` with the weights, the tokenizer and the
        maximum length. The classifier returns logits, also if that of keras_hub has an activation.

    Raises:
        InputError: `model` is of another class, is quantized, or has a tokenizer of other rules.

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
    check(
        name in HUB_CLASSES,
        f"{name} has no counterpart in bert_keras; expected a model of keras_hub.models: "
        f"{', '.join(HUB_CLASSES)}",
    )
    checkpoint = checkpoint_of(model, preprocessor or getattr(model, "preprocessor", None))
    converted = MODELS[checkpoint.metadata.model].from_checkpoint(
        checkpoint, metadata=checkpoint.metadata, source=f"keras_hub's {name}"
    )
    print(converted.load_report)
    return converted


def to_keras_hub(model: Pretrained) -> Any:
    """Converts a model of this package to the model of keras_hub with the same outputs.

    The model of keras_hub gets our form of GELU and our LayerNorm epsilon. Its own files cannot
    state these; the function prints what changes if keras_hub saves the model and loads it again.

    Args:
        model: A `BertEncoder`, `BertClassifier` or `BertMaskedLM` of one of the families BERT,
            RoBERTa, ALBERT and DistilBERT.

    Returns:
        A model of `keras_hub.models`: a backbone, or a text classifier or masked-LM model with its
        preprocessor if `model` has a tokenizer.

    Raises:
        InputError: keras_hub has no model of this kind.

    Example:

    ```python
    classifier = to_keras_hub(BertClassifier.from_pretrained("film-critic"))
    probabilities = classifier.predict(["a good film"])
    ```
    """
    check(
        (name := type(model).__name__) in CLASSES,
        f"{name} has no counterpart in keras_hub; expected a {', '.join(CLASSES)}, such as the "
        "encoder of this model: to_keras_hub(model.encoder)",
    )
    if not model.built:
        model.build()
    tensors = {name: stored_weight(weight) for name, weight in named_weights(model).items()}
    checkpoint = Checkpoint(
        metadata=model.stored_metadata(model.tokenizer),
        tensors=tensors,
        vocabulary=None if model.tokenizer is None else model.tokenizer.vocabulary,
    )
    converted, notes = hub_model(checkpoint)
    set_computation(converted, model.config)
    for note in notes:
        print(f"{'note':<12}after keras_hub saves and loads the model: {note}")
    return converted
