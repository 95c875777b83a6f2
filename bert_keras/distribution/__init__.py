"""How one step runs on one device or many, and on a batch whole or in parts."""

import keras

if keras.backend.backend() == "tensorflow":
    from bert_keras.distribution.step import WholeBatchStep
else:

    class WholeBatchStep:
        """Nothing: Keras' own step, on one device."""
