"""Hidden states in, logits over labels for every token out: the head of tagging and NER."""

import keras
from keras import ops

from bert_keras.layers.classification import ClassificationHead


@keras.saving.register_keras_serializable(package="bert_keras")
class TokenLabelsHead(ClassificationHead):
    """ClassificationHead on every token (section 5.3). [B, T, D] -> logits [B, T, num_labels]."""

    def call(self, hidden, training=False):
        length, size = ops.shape(hidden)[1], hidden.shape[-1]
        logits_XL = super().call(ops.reshape(hidden, (-1, size)), training=training)
        return ops.reshape(logits_XL, (-1, length, self.num_labels))
