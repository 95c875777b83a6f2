"""The pooled vector in, logits over labels out: the head of NSP and of every GLUE task."""

import keras

from bert_keras.layers.projection import projection


@keras.saving.register_keras_serializable(package="bert_keras")
class ClassificationHead(keras.layers.Layer):
    """Dropout and one dense layer (section 4.1). [B, D] -> logits [B, num_labels].

    The next-sentence head of pretraining is this with two labels and no dropout, the head of
    multiple choice (section 4.4) this with one. Logits have the dtype of the weights: float32
    under a mixed policy, where so small a layer costs nothing.
    """

    def __init__(
        self, num_labels: int, *, dropout_rate: float, initializer_stddev: float, **kwargs
    ):
        super().__init__(**kwargs)
        self.num_labels = num_labels
        self.dropout_rate = dropout_rate
        self.initializer_stddev = initializer_stddev
        self.dropout = keras.layers.Dropout(dropout_rate, dtype=self.dtype_policy, name="dropout")

    def build(self, pooled_shape):
        self.dense = projection(
            self.num_labels,
            initializer_stddev=self.initializer_stddev,
            dtype=self.variable_dtype,
            name="dense",
        )
        self.dense.build(pooled_shape)
        self.built = True

    def call(self, pooled, training=False):
        return self.dense(self.dropout(pooled, training=training))

    def compute_output_shape(self, pooled_shape):
        return (*pooled_shape[:-1], self.num_labels)

    def get_config(self):
        return {
            **super().get_config(),
            "num_labels": self.num_labels,
            "dropout_rate": self.dropout_rate,
            "initializer_stddev": self.initializer_stddev,
        }
