"""Hidden states in, how well an answer begins and ends at each token out: SQuAD's head."""

import keras
from keras import ops

from bert_keras.layers.projection import projection


@keras.saving.register_keras_serializable(package="bert_keras")
class SpanHead(keras.layers.Layer):
    """A start vector S and an end vector E against every token (section 4.2), no dropout.

    [B, T, D] -> logits {"start": [B, T], "end": [B, T]} in the dtype of the weights. S and E are
    the columns of one kernel. Padding is scored like any token.
    """

    def __init__(self, *, initializer_stddev: float, **kwargs):
        super().__init__(**kwargs)
        self.initializer_stddev = initializer_stddev

    def build(self, hidden_shape):
        self.dense = projection(
            2,
            initializer_stddev=self.initializer_stddev,
            dtype=self.variable_dtype,
            name="dense",
        )
        self.dense.build(hidden_shape)
        self.built = True

    def call(self, hidden):
        length, size = ops.shape(hidden)[1], hidden.shape[-1]
        logits_X2 = self.dense(ops.reshape(hidden, (-1, size)))
        logits_BT2 = ops.reshape(logits_X2, (-1, length, 2))
        return {"start": logits_BT2[:, :, 0], "end": logits_BT2[:, :, 1]}

    def compute_output_shape(self, hidden_shape):
        return {"start": hidden_shape[:-1], "end": hidden_shape[:-1]}

    def get_config(self):
        return {**super().get_config(), "initializer_stddev": self.initializer_stddev}
