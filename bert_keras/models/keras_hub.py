"""Converts models between keras_hub and this package.

A model passes through a preset folder in a temporary directory, so that the tables of
`checkpoints/keras_hub` and the saving and loading of keras_hub itself do all of the work.
"""

import functools
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import keras

from bert_keras.checkpoints.formats import open_checkpoint
from bert_keras.checkpoints.keras_hub.families import CLASSES, HUB_FAMILIES
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.families import family_of
from bert_keras.family import Family
from bert_keras.models import MODELS
from bert_keras.models.pretrained import Pretrained, save_model

_ACTIVATIONS = {
    "gelu": keras.activations.gelu,
    "gelu_tanh": functools.partial(keras.activations.gelu, approximate=True),
}


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
    known = [hub.class_name(kind) for hub in HUB_FAMILIES.values() for kind in CLASSES]
    if name not in known or not hasattr(model, "save_to_preset"):
        raise InputError(
            f"{name} has no counterpart in bert_keras; expected a model of one of the classes "
            f"{', '.join(known)} of keras_hub.models"
        )
    with TemporaryDirectory() as folder:
        model.save_to_preset(folder)
        if preprocessor is not None:
            preprocessor.save_to_preset(folder)
        source = f"keras_hub's {name}"
        try:
            checkpoint = open_checkpoint(folder)
        except InputError as error:
            raise InputError(str(error).replace(folder, source)) from error
        converted = MODELS[checkpoint.metadata.model].from_checkpoint(
            checkpoint, metadata=checkpoint.metadata, source=source
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
    import keras_hub

    if (name := type(model).__name__) not in CLASSES:
        raise InputError(
            f"{name} has no counterpart in keras_hub; expected a {', '.join(CLASSES)}, such as the "
            "encoder of this model: to_keras_hub(model.encoder)"
        )
    with TemporaryDirectory() as parent:
        folder = Path(parent) / "preset"
        metadata, tokenizer = model.stored_metadata(model.tokenizer), model.tokenizer
        vocabulary = None if tokenizer is None else tokenizer.vocabulary
        notes = save_model(
            model, folder, metadata=metadata, vocabulary=vocabulary, format="keras-hub"
        )
        hub = HUB_FAMILIES[cast(Family, family_of(model.config)).kind]
        theirs = getattr(keras_hub.models, hub.class_name(metadata.model))
        converted = theirs.from_preset(str(folder))
    _set_computation(converted, model.config)
    for note in notes:
        print(f"{'note':<12}after keras_hub saves and loads the model: {note}")
    return converted


def _set_computation(model, config: BertConfig) -> None:
    """Gives a model of keras_hub the GELU and the LayerNorm epsilons of a configuration."""
    backbone, epsilon = getattr(model, "backbone", model), config.layer_norm_epsilon
    norms = [backbone.embeddings_layer_norm]
    for block in keras.tree.flatten(backbone.transformer_layers):
        norms += [block._self_attention_layer_norm, block._feedforward_layer_norm]
        block._feedforward_intermediate_dense.activation = _ACTIVATIONS[config.activation]
    for norm in norms:
        norm.epsilon = epsilon
    if (head := getattr(model, "masked_lm_head", None)) is not None:
        activation = config.masked_lm_activation or config.activation
        head._intermediate_dense.activation = _ACTIVATIONS[activation]
        head._intermediate_layer_norm.epsilon = config.masked_lm_epsilon or epsilon
