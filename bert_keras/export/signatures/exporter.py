"""The contract between model_folder.py and the signature modules.

Each signature module ends with its `EXPORTER`. The row of a model class in
bert_keras/architectures.py names the module.
"""

from collections.abc import Callable
from typing import NamedTuple

from bert_keras.checkpoints.card import ModelCard
from bert_keras.export.servable import Servable
from bert_keras.export.text_ops.text_to_inputs import TextToInputs


class Exporter(NamedTuple):
    """Makes a Servable of a model, with settings from its metadata."""

    # (model, reader, tokenizer, **settings) -> Servable
    make: Callable[..., Servable]
    # (metadata, model folder) -> settings; raises InputError for a model that cannot be served
    settings: Callable[[ModelCard, str], dict] = lambda card, source: {}
    # makes the model's inputs of text, in the graph
    reader: type[TextToInputs] = TextToInputs
