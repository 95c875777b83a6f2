"""Ids in, the sum of token, position and segment embeddings out, normalised and dropped out."""

import keras
from keras import ops

from bert_keras.encoder.norm import LayerNorm
from bert_keras.errors import InputError


@keras.saving.register_keras_serializable(package="bert_keras")
class BertEmbeddings(keras.layers.Layer):
    """Section 3, "Input/Output Representations": three learned tables, LayerNorm, dropout.

    Call with `input_ids` and `segment_ids`, int [B, T]; returns [B, T, D]. Positions count from 0,
    and a T that is known to be over `max_positions` raises InputError, unless `position_ids`, int
    [B, T] below `max_positions`, are given.
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        *,
        max_positions: int,
        num_segments: int,
        dropout_rate: float,
        layer_norm_epsilon: float,
        initializer_stddev: float,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.max_positions = max_positions
        self.num_segments = num_segments
        self.dropout_rate = dropout_rate
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_stddev = initializer_stddev
        self.norm = LayerNorm(epsilon=layer_norm_epsilon, dtype=self.dtype_policy, name="norm")
        self.dropout = keras.layers.Dropout(dropout_rate, dtype=self.dtype_policy, name="dropout")

    def build(self, input_ids_shape=None, segment_ids_shape=None, position_ids_shape=None):
        def table(name: str, rows: int):
            return self.add_weight(
                name=name,
                shape=(rows, self.hidden_size),
                initializer=keras.initializers.TruncatedNormal(stddev=self.initializer_stddev),
            )

        self.token_table = table("token", self.vocab_size)
        self.position_table = table("position", self.max_positions)
        self.segment_table = table("segment", self.num_segments)
        self.norm.build((None, None, self.hidden_size))
        self.built = True

    def call(self, input_ids, segment_ids, position_ids=None, training=False):
        hidden_BTD = (
            ops.take(self.token_table, input_ids, axis=0)
            + self._positions(input_ids, position_ids)
            + ops.take(self.segment_table, segment_ids, axis=0)
        )
        return self.dropout(self.norm(hidden_BTD), training=training)

    def _positions(self, input_ids, position_ids):
        if position_ids is not None:
            return ops.take(self.position_table, position_ids, axis=0)
        length = ops.shape(input_ids)[1]
        if isinstance(length, int) and length > self.max_positions:
            raise InputError(
                f"a sequence has {length} pieces; the encoder has {self.max_positions} positions: "
                "shorten the text (max_length) or build it with more"
            )
        return self.position_table[:length]

    def compute_output_shape(
        self, input_ids_shape, segment_ids_shape=None, position_ids_shape=None
    ):
        return (*input_ids_shape, self.hidden_size)

    def get_config(self):
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "max_positions": self.max_positions,
            "num_segments": self.num_segments,
            "dropout_rate": self.dropout_rate,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_stddev": self.initializer_stddev,
        }
