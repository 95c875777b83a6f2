"""A transformer block; `bert_keras.layers` explains the shape suffixes."""

from contextlib import nullcontext
from functools import partial
from typing import Any

import keras
from keras import ops

from bert_keras.layers import Tensor
from bert_keras.layers.attention import AttentionPattern, KernelPattern, SelfAttention
from bert_keras.layers.primitives import IS_JAX, BertLayer, Dropout, activate


@keras.saving.register_keras_serializable(package="bert_keras")
class FeedForward(BertLayer):
    """The feed-forward network of a block: a dense layer, an activation and a dense layer.

    Maps [X, D] to [X, D]. A gated network computes output(activation(gate) * value), where gate
    and value are the halves of the outputs of the first dense layer (Shazeer 2020). F is the size
    between the two dense layers.

    Args:
        intermediate_size: The size F.
        is_gated: Whether the network is gated.
        has_intermediate_bias: Whether the first dense layer has a bias, as has the second.
    """

    def __init__(
        self,
        intermediate_size: int,
        *,
        activation: str,
        initializer_stddev: float,
        is_gated: bool = False,
        has_biases: bool = True,
        has_intermediate_bias: bool = True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.has_intermediate_bias = has_biases and has_intermediate_bias
        self.intermediate_size, self.activation = intermediate_size, activation
        self.is_gated, self.has_biases = is_gated, has_biases
        self.initializer_stddev = initializer_stddev

    def build(self, hidden_shape: tuple):
        size, inner = hidden_shape[-1], self.intermediate_size
        units = 2 * inner if self.is_gated else inner
        has_bias = self.has_intermediate_bias
        self.intermediate_dense = self._dense("intermediate", size, units, has_bias=has_bias)
        self.output_dense = self._dense("output", inner, size)

    def call(self, hidden: Tensor, training: bool = False):
        activated = partial(activate, activation=self.activation, training=training)
        hidden_XF = self.intermediate_dense(hidden)
        if not self.is_gated:
            return self.output_dense(activated(hidden_XF))
        gate_XF, value_XF = ops.split(hidden_XF, 2, axis=-1)
        return self.output_dense(activated(gate_XF) * value_XF)


@keras.saving.register_keras_serializable(package="bert_keras")
class EncoderBlock(BertLayer):
    """A transformer block: self-attention, then the feed-forward network.

    A sublayer computes LayerNorm(x + Dropout(sublayer(x))) in a post-norm block, and
    x + Dropout(sublayer(LayerNorm(x))) in a pre-norm block.

    Args:
        intermediate_size: The size F between the dense layers of the feed-forward network.
        hidden_dropout_rate: The dropout rate of the outputs of both sublayers.
        attention_dropout_rate: The dropout rate of the attention probabilities.
        has_attention_norm: Whether self-attention has a LayerNorm.
        block_biases: The dense layers with biases, if `has_biases`: "all", "not_gate" (all but the
            first of the feed-forward network) or "none".

    Call arguments:
        hidden: Hidden states [B, T, D], or [X, D] if the pattern has removed padding.

    Returns:
        The new hidden states in the shape of `hidden`, and the attention probabilities that
        `SelfAttention` returns.
    """

    def __init__(  # noqa: PLR0913 - layers take plain values
        self,
        num_heads: int,
        intermediate_size: int,
        *,
        activation: str,
        hidden_dropout_rate: float,
        attention_dropout_rate: float,
        layer_norm_epsilon: float,
        initializer_stddev: float,
        is_pre_norm: bool = False,
        has_attention_norm: bool = True,
        is_gated: bool = False,
        has_biases: bool = True,
        block_biases: str = "all",
        norm_kind: str = "layer",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.is_pre_norm, self.has_biases, self.norm_kind = is_pre_norm, has_biases, norm_kind
        options: dict[str, Any] = {"initializer_stddev": initializer_stddev}
        has_biases = has_biases and block_biases != "none"
        options |= {"has_biases": has_biases, "dtype": self.dtype_policy}
        self.attention = SelfAttention(
            num_heads, dropout_rate=attention_dropout_rate, name="attention", **options
        )
        norm = partial(self._norm, epsilon=layer_norm_epsilon)
        self.attention_norm: Any = norm("attention_norm") if has_attention_norm else None
        options |= {"activation": activation, "is_gated": is_gated}
        options["has_intermediate_bias"] = block_biases == "all"
        self.feed_forward = FeedForward(intermediate_size, name="feed_forward", **options)
        self.feed_forward_norm = norm("feed_forward_norm")
        self.dropout = Dropout(hidden_dropout_rate, dtype=self.dtype_policy, name="dropout")

    def build(self, hidden_shape: tuple):
        norms = [self.attention_norm] if self.attention_norm else []
        for layer in (self.attention, *norms, self.feed_forward, self.feed_forward_norm):
            layer.build(hidden_shape)

    def call(self, hidden: Tensor, pattern: AttentionPattern, training: bool = False):
        # X = B x T. With two dimensions a dense layer and the following residual are fused.
        hidden_XD = ops.reshape(hidden, (-1, hidden.shape[-1]))
        call = self._pre_norm if self.is_pre_norm else self._post_norm
        hidden_XD, probabilities_BNTT = call(hidden_XD, pattern, training=training)
        return ops.reshape(hidden_XD, ops.shape(hidden)), probabilities_BNTT

    def _post_norm(self, hidden_XD, pattern, *, training):
        def add(x_XD, hidden_XD, norm):
            if isinstance(pattern, KernelPattern) and self.norm_kind == "layer":
                return self._add_in_kernel(x_XD, hidden_XD, norm)
            return norm(hidden_XD + self.dropout(x_XD, training=training))

        context_XD, probabilities_BNTT = self.attention(hidden_XD, pattern, training=training)
        hidden_XD = add(context_XD, hidden_XD, self.attention_norm)
        output_XD = self.feed_forward(hidden_XD, training=training)
        return add(output_XD, hidden_XD, self.feed_forward_norm), probabilities_BNTT

    def _add_in_kernel(self, x_XD, hidden_XD, norm):
        from bert_keras.layers.jax_kernels import draw_dropout, dropout_add_norm

        beta = norm.beta if norm.center else ops.zeros_like(norm.gamma)
        gamma, beta = ops.cast(norm.gamma, "float32"), ops.cast(beta, "float32")
        rate, random_key = draw_dropout(self.dropout)
        return dropout_add_norm(x_XD, hidden_XD, gamma, beta, random_key, rate, norm.epsilon)

    def _pre_norm(self, hidden_XD, pattern, *, training):
        normed_XD = self.attention_norm(hidden_XD) if self.attention_norm else hidden_XD
        context_XD, probabilities_BNTT = self.attention(normed_XD, pattern, training=training)
        hidden_XD = hidden_XD + self.dropout(context_XD, training=training)
        output_XD = self.feed_forward(self.feed_forward_norm(hidden_XD))
        return hidden_XD + self.dropout(output_XD, training=training), probabilities_BNTT


def seed_states(layer: keras.layers.Layer) -> list[keras.Variable]:
    """Returns the dropout seed states of a layer, in the order of its variables."""
    return [each for each in layer.variables if each.path.endswith("seed_generator_state")]


def call_recomputed(block: EncoderBlock, hidden: Tensor, pattern: AttentionPattern):
    """Calls a block in training and computes it again, with the same dropout, for the gradient."""
    # The copies keep the seeds of this call, because they change before the second computation.
    seeds = [(state, ops.copy(state)) for state in seed_states(block)]
    arrays = {name: each for name, each in pattern._asdict().items() if each is not None}

    def call(hidden, *values):
        # JAX runs `call` only once. In a training step under JAX, only the scope that Keras opened
        # has the values of the variables.
        with nullcontext() if IS_JAX else keras.StatelessScope(state_mapping=seeds):
            same_pattern = pattern._replace(**dict(zip(arrays, values, strict=True)))
            return block(hidden, same_pattern, training=True)

    outputs = keras.remat(call)(hidden, *arrays.values())
    for state, value in seeds:  # no dropout of a block makes more than 8 draws in one call
        state.assign(value + ops.convert_to_tensor([0, 8], state.dtype))
    return outputs
