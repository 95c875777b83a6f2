"""A checkpoint of any format in, the model that it holds out."""

import os

from bert_keras.convert.formats import open_checkpoint
from bert_keras.encoder.encoder import BertEncoder
from bert_keras.encoder.pretrained import Pretrained
from bert_keras.models.classifier import BertClassifier
from bert_keras.models.pretrainer import BertMaskedLM, BertPretrainer

MODELS = {cls.__name__: cls for cls in (BertEncoder, BertPretrainer, BertMaskedLM, BertClassifier)}


def load_model(path: str | os.PathLike) -> Pretrained:
    """With exactly its weights, its `card` and its `tokenizer`."""
    checkpoint = open_checkpoint(path)
    return MODELS[checkpoint.card.model].from_checkpoint(
        checkpoint, card=checkpoint.card, source=path
    )
