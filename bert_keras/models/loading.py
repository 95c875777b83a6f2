"""A checkpoint of any format in, the model that it holds out."""

import os

from bert_keras import models
from bert_keras.checkpoints.card import HEADS
from bert_keras.checkpoints.formats import open_checkpoint
from bert_keras.models.pretrained import Pretrained

MODELS: dict[str, type[Pretrained]] = {name: getattr(models, name) for name in HEADS}


def load_model(path: str | os.PathLike) -> Pretrained:
    """With exactly its weights, its `card` and its `tokenizer`."""
    checkpoint = open_checkpoint(path)
    return MODELS[checkpoint.card.model].from_checkpoint(
        checkpoint, card=checkpoint.card, source=path
    )
