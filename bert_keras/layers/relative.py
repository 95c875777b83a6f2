"""Relative positions: a value or a vector for each distance of two tokens, in groups."""

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_keras.layers import Tensor
from bert_keras.layers.attention import align_distances
from bert_keras.layers.primitives import BertLayer, Dropout

_FARTHEST = 128  # T5 and MPNet have one group for all distances from here on


class _Distances(BertLayer):
    """A table with a row for each group of distances.

    Args:
        num_buckets: The number of groups.
        max_positions: The largest number of tokens.
    """

    def __init__(
        self, num_buckets: int, *, max_positions: int, initializer_stddev: float, **kwargs
    ):
        super().__init__(**kwargs)
        self.num_buckets, self.max_positions = num_buckets, max_positions
        self.initializer_stddev = initializer_stddev

    def _build_table(self, num_rows: int, size: int):
        initial = keras.initializers.TruncatedNormal(stddev=self.initializer_stddev)
        self.table = self.add_weight((num_rows, size), initial, autocast=False, name="table")

    def _rows(self, groups: np.ndarray, first: Any, count: Any):
        """Looks up `count` distances from `first` on; `groups` begins with -max_positions."""
        index = ops.arange(count, dtype="int32") + (first + self.max_positions)
        # Packed rows may be longer, but no two tokens of a sequence are farther apart.
        index = ops.clip(index, 0, len(groups) - 1)
        groups = ops.take(ops.convert_to_tensor(groups.astype("int32")), index, axis=0)
        return ops.take(self.table, groups, axis=0)


@keras.saving.register_keras_serializable(package="bert_keras")
class RelativeBias(_Distances):
    """The bias [1, N, T, T] of attention that each head adds for the distance of two tokens.

    Call it with any tensor [B, T]. Source: Raffel et al. 2020 (T5), section 2.1, as in MPNet.
    """

    def __init__(self, num_buckets: int, *, num_heads: int, **kwargs):
        super().__init__(num_buckets, **kwargs)
        self.num_heads = num_heads

    def build(self, input_shape: tuple | None = None):
        self._build_table(self.num_buckets, self.num_heads)

    def call(self, inputs: Tensor):
        length = ops.shape(inputs)[1]
        rows_RN = self._rows(self._groups(), 1 - length, 2 * length)
        rows_NTR = ops.repeat(ops.transpose(rows_RN)[:, None], length, axis=1)
        return ops.cast(align_distances(rows_NTR, length), self.compute_dtype)[None]

    def _groups(self) -> np.ndarray:
        """Returns the group of each distance (key - query) from -max_positions to max_positions."""
        # Half of the groups are for later keys. Half of each half are for one distance each.
        half, exact = self.num_buckets // 2, self.num_buckets // 4
        distances = np.arange(-self.max_positions, self.max_positions + 1)
        far = np.maximum(np.abs(distances), 1).astype("float32")
        far = np.log(far / exact) / np.float32(math.log(_FARTHEST / exact)) * (half - exact)
        far = np.minimum(exact + far.astype("int32"), half - 1)
        groups = np.where(np.abs(distances) < exact, np.abs(distances), far)
        return groups + half * (distances > 0)


@keras.saving.register_keras_serializable(package="bert_keras")
class RelativeEmbeddings(_Distances):
    """The vectors [2 x T + 1, D] of the distances (query - key) from -T to T, with LayerNorm.

    Call it with any tensor [B, T]. Source: He et al. 2021 (DeBERTa) and its code.
    """

    def __init__(
        self,
        num_buckets: int,
        *,
        hidden_size: int,
        layer_norm_epsilon: float,
        dropout_rate: float,
        **kwargs,
    ):
        super().__init__(num_buckets, **kwargs)
        self.hidden_size = hidden_size
        self.norm = self._norm("norm", epsilon=layer_norm_epsilon)
        self.dropout = Dropout(dropout_rate, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape: tuple | None = None):
        self._build_table(2 * self.num_buckets, self.hidden_size)
        self.norm.build((None, self.hidden_size))

    def call(self, inputs: Tensor, training: bool = False):
        length = ops.shape(inputs)[1]
        rows_RD = self._rows(self._groups(), -length, 2 * length + 1)
        return self.dropout(self.norm(rows_RD), training=training)

    def _groups(self) -> np.ndarray:
        """Returns the group of each distance (query - key) from -max_positions to max_positions."""
        half = self.num_buckets // 2  # of the groups of each sign are for one distance each
        distances = np.arange(-self.max_positions, self.max_positions + 1)
        far = np.maximum(np.abs(distances), half).astype("float32")
        scale = np.log(np.float32((self.max_positions - 1) / half))
        far = half + np.ceil(np.log(far / half) / scale * (half - 1)).astype("int64")
        groups = np.where(np.abs(distances) <= half, distances, np.sign(distances) * far)
        return np.clip(groups + self.num_buckets, 0, 2 * self.num_buckets - 1)
