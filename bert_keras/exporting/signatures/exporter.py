"""Defines `Exporter`, the interface between model_folder.py and the signature modules.

Each signature module defines an `EXPORTER`. The table in bert_keras/architectures.py names the
signature module of each model class.
"""

from collections.abc import Callable
from typing import NamedTuple

from bert_keras.config import ModelMetadata
from bert_keras.exporting.servable import ServableModel
from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs


class Exporter(NamedTuple):
    """Builds the `ServableModel` of a model, with settings from its metadata."""

    # (model, reader, tokenizer, **settings) -> ServableModel
    make: Callable[..., ServableModel]
    # (metadata, model folder) -> settings; raises InputError for a model that cannot be served
    settings: Callable[[ModelMetadata, str], dict] = lambda metadata, source: {}
    # Converts text to the model's inputs inside the graph
    reader: type[TextToInputs] = TextToInputs
