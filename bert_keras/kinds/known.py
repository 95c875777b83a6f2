"""Lists every kind of model."""

from bert_keras.kinds.choice import Choice
from bert_keras.kinds.classifier import Classifier
from bert_keras.kinds.embedder import Embedder, Encoder
from bert_keras.kinds.kind import Kind
from bert_keras.kinds.masked_lm import Discriminator, MaskedLM, Pretraining, ReplacedTokens
from bert_keras.kinds.span import Span
from bert_keras.kinds.tagger import FeatureTagger, Tagger

_PRETRAINING = (Encoder, Pretraining, MaskedLM, Discriminator, ReplacedTokens)
_TASKS = (Classifier, Tagger, Span, Choice, FeatureTagger, Embedder)
# Name of the model class -> its kind
KINDS: dict[str, type[Kind]] = {kind.model: kind for kind in _PRETRAINING + _TASKS}
