"""Defines the encoder and the task models; importing it registers their classes with Keras."""

import os
from importlib import import_module

from bert_keras.architectures import ARCHITECTURES
from bert_keras.checkpoints.formats import open_checkpoint
from bert_keras.models.discriminator import BertDiscriminator as BertDiscriminator
from bert_keras.models.encoder import BertEncoder as BertEncoder
from bert_keras.models.feature_tagger import BertFeatureTagger as BertFeatureTagger
from bert_keras.models.pretrained import Pretrained
from bert_keras.models.pretrainer import BertMaskedLM as BertMaskedLM
from bert_keras.models.pretrainer import BertPretrainer as BertPretrainer
from bert_keras.models.replaced_tokens import (
    BertReplacedTokenPretrainer as BertReplacedTokenPretrainer,
)
from bert_keras.models.sentence_encoder import BertSentenceEncoder as BertSentenceEncoder
from bert_keras.models.task_models import BertClassifier as BertClassifier
from bert_keras.models.task_models import BertMultipleChoice as BertMultipleChoice
from bert_keras.models.task_models import BertQuestionAnswering as BertQuestionAnswering
from bert_keras.models.task_models import BertTokenClassifier as BertTokenClassifier

MODELS: dict[str, type[Pretrained]] = {
    row.name: getattr(import_module(row.module), row.name) for row in ARCHITECTURES.values()
}


def load_model(path: str | os.PathLike) -> Pretrained:
    """Loads the model of a checkpoint.

    Args:
        path: A folder of any checkpoint format, or a preset of KerasHub; see `open_checkpoint`.

    Returns:
        The model of the class that the checkpoint contains, with `metadata` (model metadata) and
        its `tokenizer`.

    Raises:
        InputError: `path` holds no known checkpoint, or weights are missing, unexpected or of
            another shape.

    Example:

    ```python
    model = load_model("film-critic")
    print(model.metadata.labels)
    ```
    """
    checkpoint = open_checkpoint(path)
    return MODELS[checkpoint.metadata.model].from_checkpoint(
        checkpoint, metadata=checkpoint.metadata, source=path
    )
