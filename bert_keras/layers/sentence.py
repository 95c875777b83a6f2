"""The head of a sentence encoder: pools hidden states, then applies dense layers and a scaling."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from bert_keras.config import DenseModule, EmbeddingConfig
from bert_keras.layers import Tensor
from bert_keras.layers.primitives import BertLayer, activate, states_at

_LEAST_COUNT = 1e-9  # divisor of the mean of no tokens, as in sentence-transformers
_LEAST_NORM = 1e-12  # divisor of shorter vectors, as in torch.nn.functional.normalize


@keras.saving.register_keras_serializable(package="bert_keras")
class SentenceHead(BertLayer):
    """Computes embeddings from hidden states as `EmbeddingConfig` says.

    Maps [B, T, D] to [B, E] in float32 or wider.

    Args:
        embedding: An EmbeddingConfig, or the result of its `to_dict`.
        initializer_stddev: The standard deviation of the kernel initializer.

    Call arguments:
        hidden: Hidden states [B, T, D].
        input_mask: Int [B, T], 1 for a token and 0 for padding. The vector of a row without tokens
            is 0.
    """

    def __init__(self, embedding: Any, *, initializer_stddev: float, **kwargs):
        super().__init__(**kwargs)
        if not isinstance(embedding, EmbeddingConfig):
            embedding = EmbeddingConfig.from_dict(embedding)
        self.embedding = embedding
        self.initializer_stddev = initializer_stddev

    def build(self, hidden_shape: tuple):
        sizes = self.embedding.sizes(hidden_shape[-1])
        self.dense_layers = []
        for size, module in zip(sizes, self.embedding.modules, strict=False):
            if isinstance(module, DenseModule):
                name, dtype = f"dense_{len(self.dense_layers)}", self.variable_dtype
                layer = self._dense(name, size, module.units, has_bias=module.has_bias, dtype=dtype)
                self.dense_layers.append(layer)
        self.built = True

    def call(self, hidden: Tensor, input_mask: Tensor):
        dtype = keras.backend.result_type(hidden.dtype, "float32")
        vector_BE = pool(ops.cast(hidden, dtype), input_mask, modes=self.embedding.pooling)
        dense_layers = iter(self.dense_layers)
        for module in self.embedding.modules:
            if not isinstance(module, DenseModule):
                vector_BE = normalize(vector_BE)
                continue
            vector_BE = next(dense_layers)(vector_BE)
            if module.activation != "identity":
                vector_BE = activate(vector_BE, activation=module.activation)
        return vector_BE

    def get_config(self):
        own = {"embedding": self.embedding.to_dict(), "initializer_stddev": self.initializer_stddev}
        return super().get_config() | own


def pool(hidden_BTD: Tensor, input_mask_BT: Tensor, *, modes: Sequence[str]):
    """Pools hidden states to vectors [B, len(modes) x D]; `modes` are names in TEXT_POOLINGS."""
    is_real_BT = ops.cast(input_mask_BT, "bool")
    weights_BT = ops.cast(is_real_BT, hidden_BTD.dtype)
    has_tokens_B1 = ops.any(is_real_BT, axis=1, keepdims=True)

    def pool_one(mode):
        if mode == "cls":
            first_B1 = ops.argmax(ops.cast(is_real_BT, "int32"), axis=1, keepdims=True)
            return ops.where(has_tokens_B1, states_at(hidden_BTD, ops.cast(first_B1, "int32")), 0.0)
        if mode == "max":
            states_BTD = ops.where(is_real_BT[..., None], hidden_BTD, -float("inf"))
            return ops.where(has_tokens_B1, ops.max(states_BTD, axis=1), 0.0)
        sum_BD = ops.einsum("bt,btd->bd", weights_BT, hidden_BTD)
        count_B1 = ops.maximum(ops.sum(weights_BT, axis=1, keepdims=True), _LEAST_COUNT)
        return sum_BD / (count_B1 if mode == "mean" else ops.sqrt(count_B1))

    vectors = [pool_one(mode) for mode in modes]
    return vectors[0] if len(vectors) == 1 else ops.concatenate(vectors, axis=-1)


def normalize(vector_BE: Tensor):
    """Scales each vector to length 1; the vector 0 and its gradient stay finite."""
    squares_B1 = ops.sum(ops.square(vector_BE), axis=-1, keepdims=True)
    return vector_BE / ops.sqrt(ops.maximum(squares_B1, _LEAST_NORM**2))
