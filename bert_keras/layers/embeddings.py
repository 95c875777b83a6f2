"""The sum of token, position and segment embeddings, which another encoder can share."""

import keras
from keras import ops

from bert_keras.layers import Tensor
from bert_keras.layers.primitives import IS_JAX, BertLayer, Dropout


@keras.saving.register_keras_serializable(package="bert_keras")
class BertEmbeddings(BertLayer):
    """Sum of learned token, position and segment embeddings, with LayerNorm and dropout.

    If the size E of the tables differs from the hidden size D, a projection to D follows dropout.
    Sources: Devlin et al. 2018, section 3, and, for the projection, Lan et al. 2019, section 3.1.

    Args:
        vocab_size: The rows V of the token table.
        hidden_size: The size D of the output.
        max_positions: The rows of the position table, without `position_offset`.
        num_segments: The rows of the segment table; 0 for no segments.
        dropout_rate: The dropout rate of the sum.
        embedding_size: The size E of the tables; 0 means D, without a projection.
        position_offset: The row of the first position in the position table.
        has_positions: Whether there is a position table; rotary positions need none.
        has_norm: Whether LayerNorm follows the sum.

    Call arguments:
        input_ids: Int [B, T].
        segment_ids: Int [B, T].
        position_ids: Int [B, T], less than `max_positions`; by default 0 to T - 1.

    Returns:
        [B, T, D].
    """

    def __init__(  # noqa: PLR0913 - layers take plain values
        self,
        vocab_size: int,
        hidden_size: int,
        *,
        max_positions: int,
        num_segments: int,
        dropout_rate: float,
        layer_norm_epsilon: float,
        initializer_stddev: float,
        embedding_size: int = 0,
        position_offset: int = 0,
        has_positions: bool = True,
        has_biases: bool = True,
        has_norm: bool = True,
        norm_kind: str = "layer",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocab_size, self.num_segments = vocab_size, num_segments
        self.hidden_size, self.embedding_size = hidden_size, embedding_size
        self.max_positions, self.position_offset = max_positions, position_offset
        self.has_positions, self.has_biases = has_positions, has_biases
        self.initializer_stddev, self.norm_kind = initializer_stddev, norm_kind
        self.projection = None
        self.norm = self._norm("norm", epsilon=layer_norm_epsilon) if has_norm else None
        self.dropout = Dropout(dropout_rate, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape: tuple | None = None):
        size = self.embedding_size or self.hidden_size

        def table(name: str, rows: int):
            # Without autocast, because the gradient of a row is a sum over all its tokens.
            initial = keras.initializers.TruncatedNormal(stddev=self.initializer_stddev)
            return self.add_weight((rows, size), initial, autocast=False, name=name)

        self.token_table = table("token", self.vocab_size)
        if self.has_positions:
            self.position_table = table("position", self.position_offset + self.max_positions)
        if self.num_segments:
            self.segment_table = table("segment", self.num_segments)
        if self.norm is not None:
            self.norm.build((None, None, size))
        if self.embedding_size:
            self.projection = self._dense("projection", size, self.hidden_size)

    def call(
        self,
        input_ids: Tensor,
        segment_ids: Tensor,
        position_ids: Tensor = None,
        training: bool = False,
    ):
        sum_BTE = self.sum_tables(input_ids, segment_ids, position_ids, training=training)
        return sum_BTE if self.projection is None else self.projection(sum_BTE)

    def sum_tables(
        self, input_ids: Tensor, segment_ids: Tensor, position_ids: Tensor, *, training: bool
    ):
        """Returns the output before the projection, [B, T, E].

        Args:
            input_ids, segment_ids, position_ids, training: As in a call of the layer.
        """
        sum_BTE = ops.take(self.token_table, _to_integers(input_ids), axis=0)
        if self.has_positions:
            sum_BTE = sum_BTE + self._look_up_positions(input_ids, position_ids)
        if self.num_segments:
            sum_BTE = sum_BTE + self._look_up_segments(segment_ids)
        normed_BTE = sum_BTE if self.norm is None else self.norm(sum_BTE)
        return self.dropout(normed_BTE, training=training)

    def _look_up_segments(self, segment_ids):
        """Returns the segment embeddings [B, T, E], or [E] if there is only one segment."""
        table = self.segment_table
        if self.num_segments > 2:
            return ops.take(table, _to_integers(segment_ids), axis=0)
        if self.num_segments == 1:
            return table[0]
        # The gradient of a gather would add all tokens to two rows, one by one.
        return ops.where(ops.expand_dims(ops.equal(segment_ids, 1), -1), table[1], table[0])

    def _look_up_positions(self, input_ids, position_ids):
        first = self.position_offset
        if position_ids is not None:
            return ops.take(self.position_table, _to_integers(position_ids) + first, axis=0)
        length = ops.shape(input_ids)[1]
        if IS_JAX and not isinstance(length, int):
            # With a slice of symbolic length, JAX would state the number of rows as a minimum.
            return ops.take(self.position_table, first + ops.arange(length), axis=0)
        return self.position_table[first : first + length]


def _to_integers(ids):
    """Casts ids that cannot index a table to int32, such as floats, as Keras' Embedding does."""
    is_index = keras.backend.standardize_dtype(ids.dtype) in ("int32", "int64")
    return ids if is_index else ops.cast(ids, "int32")


@keras.saving.register_keras_serializable(package="bert_keras")
class SharedEmbeddings(BertLayer):
    """The embeddings of another encoder, with a projection of its own if the hidden size differs.

    Call it like BertEmbeddings. Keras cannot serialize this layer alone, because a copy would no
    longer share the tables.

    Args:
        source: The embeddings of the other encoder, which must be built.
        hidden_size: The size D of the output.
    """

    def __init__(self, source: BertEmbeddings, hidden_size: int, **kwargs):
        super().__init__(**kwargs)
        self.source, self.hidden_size = source, hidden_size
        self.initializer_stddev, self.has_biases = source.initializer_stddev, source.has_biases
        self.projection = None

    def build(self, input_shape: tuple | None = None):
        size = self.token_table.shape[-1]
        if size != self.hidden_size:
            self.projection = self._dense("projection", size, self.hidden_size)

    call = BertEmbeddings.call

    def sum_tables(self, *inputs: Tensor, training: bool):
        return self.source.sum_tables(*inputs, training=training)

    @property
    def token_table(self):
        """The token embedding table [V, E]."""
        return self.source.token_table
