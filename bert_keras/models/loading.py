"""A checkpoint of any format in, the model that it holds out."""

import os
from importlib import import_module

from bert_keras.architectures import ARCHITECTURES
from bert_keras.checkpoints.formats import open_checkpoint
from bert_keras.models.pretrained import Pretrained

MODELS: dict[str, type[Pretrained]] = {
    row.name: getattr(import_module(row.module), row.name) for row in ARCHITECTURES.values()
}


def load_model(path: str | os.PathLike) -> Pretrained:
    """With exactly its weights, its `card` and its `tokenizer`."""
    checkpoint = open_checkpoint(path)
    return MODELS[checkpoint.card.model].from_checkpoint(
        checkpoint, card=checkpoint.card, source=path
    )
