"""Encoder and heads put together; importing this registers every layer with Keras."""

from bert_keras.models.encoder import BertEncoder
from bert_keras.models.feature_tagger import BertFeatureTagger
from bert_keras.models.pretrainer import BertMaskedLM, BertPretrainer
from bert_keras.models.task_models import (
    BertClassifier,
    BertMultipleChoice,
    BertQuestionAnswering,
    BertTokenClassifier,
)

__all__ = [
    "BertClassifier",
    "BertEncoder",
    "BertFeatureTagger",
    "BertMaskedLM",
    "BertMultipleChoice",
    "BertPretrainer",
    "BertQuestionAnswering",
    "BertTokenClassifier",
]
