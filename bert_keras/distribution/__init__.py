"""Train and test steps over the global batch, for one device or many and for batches in parts."""

from typing import TYPE_CHECKING

import keras

if TYPE_CHECKING or keras.backend.backend() == "tensorflow":
    from bert_keras.distribution.step import GlobalBatchStep
else:

    class GlobalBatchStep(keras.Model):
        """Same as keras.Model: without TensorFlow, training uses Keras' own step on one device."""
