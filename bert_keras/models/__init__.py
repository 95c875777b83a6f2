"""Encoder and heads put together; importing this registers every layer with Keras."""

from bert_keras.encoder.encoder import BertEncoder
from bert_keras.models.classifier import BertClassifier
from bert_keras.models.pretrainer import BertMaskedLM, BertPretrainer

__all__ = ["BertClassifier", "BertEncoder", "BertMaskedLM", "BertPretrainer"]
