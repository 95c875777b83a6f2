"""Encoder and task models; importing this package registers every layer with Keras."""

from bert_keras.models.encoder import BertEncoder as BertEncoder
from bert_keras.models.feature_tagger import BertFeatureTagger as BertFeatureTagger
from bert_keras.models.pretrainer import BertMaskedLM as BertMaskedLM
from bert_keras.models.pretrainer import BertPretrainer as BertPretrainer
from bert_keras.models.task_models import BertClassifier as BertClassifier
from bert_keras.models.task_models import BertMultipleChoice as BertMultipleChoice
from bert_keras.models.task_models import BertQuestionAnswering as BertQuestionAnswering
from bert_keras.models.task_models import BertTokenClassifier as BertTokenClassifier
