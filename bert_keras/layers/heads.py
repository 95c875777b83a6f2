"""The pooler and the heads of the models; `bert_keras.layers` explains the shape suffixes."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from bert_keras.config import DenseModule, EmbeddingConfig
from bert_keras.layers import Tensor
from bert_keras.layers.primitives import BertLayer, Dropout, LayerNorm, activate, states_at

_LEAST_COUNT = 1e-9  # divisor of the mean of no tokens, as in sentence-transformers
_LEAST_NORM = 1e-12  # divisor of shorter vectors, as in torch.nn.functional.normalize


@keras.saving.register_keras_serializable(package="bert_keras")
class Pooler(keras.layers.Dense):
    """Pooler: a dense layer and an activation, in ModernBERT followed by a LayerNorm.

    Maps [X, D] to [X, units].

    Args:
        layer_norm_epsilon: The number that LayerNorm adds to the variance; 0 omits LayerNorm. Its
            `beta` is omitted if `use_bias` is False.
    """

    def __init__(self, units: int, *, layer_norm_epsilon: float = 0.0, **kwargs):
        super().__init__(units, **kwargs)
        self.layer_norm_epsilon = layer_norm_epsilon
        options = {"center": self.use_bias, "dtype": self.dtype_policy, "name": "norm"}
        has_norm = layer_norm_epsilon > 0
        self.norm = LayerNorm(epsilon=layer_norm_epsilon, **options) if has_norm else None

    def build(self, input_shape: tuple):  # as Dense names it
        super().build(input_shape)
        if self.norm is not None:
            self.norm.build((None, self.units))

    def call(self, inputs: Tensor, training: bool | None = None):
        pooled = super().call(inputs, training=training)
        return pooled if self.norm is None else self.norm(pooled)

    def get_config(self):
        return super().get_config() | {"layer_norm_epsilon": self.layer_norm_epsilon}


def mean_state(hidden_BTD: Tensor, input_mask_BT: Tensor):
    """Returns the mean hidden state [B, D] of the tokens, or 0 for a row of padding."""
    mask_BT = ops.cast(ops.cast(input_mask_BT, "bool"), "float32")
    weights_BT = mask_BT / ops.maximum(ops.sum(mask_BT, axis=1, keepdims=True), 1.0)
    return ops.einsum("bt,btd->bd", ops.cast(weights_BT, hidden_BTD.dtype), hidden_BTD)


@keras.saving.register_keras_serializable(package="bert_keras")
class ClassificationHead(BertLayer):
    """Classification head: dropout and one dense layer (Devlin et al. 2018, section 4.1).

    Maps [B, D] to logits [B, num_labels] in the dtype of the weights. The next-sentence head has
    two labels and no dropout, the head of multiple choice (section 4.4) has one label.
    """

    def __init__(
        self, num_labels: int, *, dropout_rate: float, initializer_stddev: float, **kwargs
    ):
        super().__init__(**kwargs)
        self.num_labels, self.initializer_stddev = num_labels, initializer_stddev
        self.dropout = Dropout(dropout_rate, dtype=self.dtype_policy, name="dropout")

    def build(self, pooled_shape: tuple):
        size, dtype = pooled_shape[-1], self.variable_dtype
        self.dense = self._dense("dense", size, self.num_labels, has_bias=True, dtype=dtype)

    def call(self, pooled: Tensor, training: bool = False):
        return self.dense(self.dropout(pooled, training=training))


@keras.saving.register_keras_serializable(package="bert_keras")
class TokenLabelsHead(ClassificationHead):
    """Applies ClassificationHead to every token (Devlin et al. 2018, section 5.3).

    Maps [B, T, D] to logits [B, T, num_labels]. In ModernBERT, a dense layer, an activation and a
    LayerNorm precede dropout.

    Args:
        dropout_rate: The dropout rate before the logits.
        activation: "" omits the first dense layer and LayerNorm.
        layer_norm_epsilon: 0 omits LayerNorm.
    """

    def __init__(
        self,
        num_labels: int,
        *,
        dropout_rate: float,
        initializer_stddev: float,
        activation: str = "",
        layer_norm_epsilon: float = 1e-12,
        has_biases: bool = True,
        **kwargs,
    ):
        super().__init__(
            num_labels, dropout_rate=dropout_rate, initializer_stddev=initializer_stddev, **kwargs
        )
        self.activation, self.has_biases = activation, has_biases
        has_norm = activation and layer_norm_epsilon
        self.norm = self._norm("norm", epsilon=layer_norm_epsilon) if has_norm else None

    def build(self, hidden_shape: tuple):
        size = hidden_shape[-1]
        if self.activation:
            self.transform = self._dense("transform", size, size)
        if self.norm is not None:
            self.norm.build((None, size))
        super().build(hidden_shape)

    def call(self, hidden: Tensor, training: bool = False):
        states_XD = ops.reshape(hidden, (-1, hidden.shape[-1]))
        if self.activation:
            states_XD = activate(self.transform(states_XD), activation=self.activation)
        if self.norm is not None:
            states_XD = self.norm(states_XD)
        logits_XL = super().call(states_XD, training=training)
        return ops.reshape(logits_XL, (-1, ops.shape(hidden)[1], self.num_labels))


@keras.saving.register_keras_serializable(package="bert_keras")
class SpanHead(TokenLabelsHead):
    """Start and end logits of each token for question answering, without dropout.

    Maps [B, T, D] to {"start": [B, T], "end": [B, T]}, also for padding. The start vector and the
    end vector of the paper (Devlin et al. 2018, section 4.2) are the columns of one kernel. See
    TokenLabelsHead for the arguments.
    """

    def __init__(self, *, initializer_stddev: float, **kwargs):
        super().__init__(2, dropout_rate=0.0, initializer_stddev=initializer_stddev, **kwargs)

    def call(self, hidden: Tensor, training: bool = False):
        logits_BT2 = super().call(hidden, training=training)
        return {"start": logits_BT2[:, :, 0], "end": logits_BT2[:, :, 1]}


@keras.saving.register_keras_serializable(package="bert_keras")
class ReplacedTokenHead(TokenLabelsHead):
    """The logit that each token was replaced, from two dense layers and an activation.

    Maps [B, T, D] to [B, T]. See TokenLabelsHead for the arguments. Source: Clark et al. 2020 and
    its code.
    """

    def __init__(self, *, activation: str, initializer_stddev: float, **kwargs):
        kwargs |= {"activation": activation, "initializer_stddev": initializer_stddev}
        super().__init__(1, dropout_rate=0.0, layer_norm_epsilon=0.0, **kwargs)

    def call(self, hidden: Tensor, training: bool = False):
        return super().call(hidden, training=training)[:, :, 0]


@keras.saving.register_keras_serializable(package="bert_keras")
class MaskedLMHead(BertLayer):
    """Masked-LM head: dense layer, activation, LayerNorm, product with embeddings, bias (A.1).

    The head first gathers the P masked positions and computes only their logits.

    Args:
        ties_decoder: Whether the last product takes the token embedding table; otherwise the head
            has its own `decoder`.

    Call arguments:
        hidden: Hidden states [B, T, D].
        positions: Int [B, P].
        token_table: The token embedding table [V, E]; the dense layer maps D to E.

    Returns:
        Logits [B, P, V] in the dtype of the weights.
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        activation: str,
        layer_norm_epsilon: float,
        initializer_stddev: float,
        has_biases: bool = True,
        ties_decoder: bool = True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocab_size, self.activation = vocab_size, activation
        self.has_biases, self.ties_decoder = has_biases, ties_decoder
        self.initializer_stddev = initializer_stddev
        self.norm = self._norm("norm", epsilon=layer_norm_epsilon)

    def build(self, hidden_shape: tuple, positions_shape: tuple, token_table_shape: tuple):
        size = token_table_shape[-1]
        self.transform = self._dense("transform", hidden_shape[-1], size)
        self.norm.build((None, size))
        if not self.ties_decoder:
            initial = keras.initializers.TruncatedNormal(stddev=self.initializer_stddev)
            self.decoder = self.add_weight((self.vocab_size, size), initial, name="decoder")
        self.output_bias = self.add_weight(
            name="output_bias", shape=(self.vocab_size,), initializer="zeros", autocast=False
        )

    def call(self, hidden: Tensor, positions: Tensor, token_table: Tensor):
        masked_XE = self.transform(states_at(hidden, positions))
        masked_XE = self.norm(activate(masked_XE, activation=self.activation))
        table_VE = ops.cast(token_table if self.ties_decoder else self.decoder, masked_XE.dtype)
        logits_XV = _scores(masked_XE, table_VE)
        logits_XV = ops.cast(logits_XV, self.variable_dtype) + self.output_bias
        return ops.reshape(logits_XV, (-1, ops.shape(positions)[1], self.vocab_size))


@ops.custom_gradient
def _scores(masked_XE, table_VE):
    """Returns the product of each state with each row of the table."""
    # The default gradient belongs to the transposed table, and would be transposed again.

    def gradients(grad_XV):
        return ops.matmul(grad_XV, table_VE), ops.matmul(ops.transpose(grad_XV), masked_XE)

    return ops.matmul(masked_XE, ops.transpose(table_VE)), gradients


@keras.saving.register_keras_serializable(package="bert_keras")
class SentenceHead(BertLayer):
    """Computes embeddings from hidden states as `EmbeddingConfig` says.

    Maps [B, T, D] to [B, E] in float32 or wider.

    Args:
        embedding: An EmbeddingConfig, or the result of its `to_dict`.

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
