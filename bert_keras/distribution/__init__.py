"""How one step runs on one device or many, and on a batch whole or in parts."""

from typing import TYPE_CHECKING

import keras

if TYPE_CHECKING or keras.backend.backend() == "tensorflow":
    from bert_keras.distribution.step import WholeBatchStep
else:

    class WholeBatchStep(keras.Model):
        """Keras' own step, on one device."""
