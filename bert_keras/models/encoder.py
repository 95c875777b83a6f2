"""The encoder; `bert_keras.layers` explains the letters of tensor shapes."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import keras
from keras import ops

from bert_keras.config import BertConfig
from bert_keras.kinds.embedder import Encoder
from bert_keras.layers import attention, primitives
from bert_keras.layers.bilstm import BiLSTM
from bert_keras.layers.block import EncoderBlock, call_recomputed
from bert_keras.layers.embeddings import BertEmbeddings, SharedEmbeddings
from bert_keras.layers.heads import Pooler, mean_state
from bert_keras.layers.primitives import IS_JAX, activation_function
from bert_keras.layers.relative import RelativeBias, RelativeEmbeddings
from bert_keras.models.pretrained import Pretrained, check_inputs, named_inputs

if IS_JAX:
    from bert_keras.layers import jax_ops


class EncoderStates(NamedTuple):
    """All intermediate and final outputs of the encoder."""

    # num_layers + 1 tensors [B, T, D]: the outputs of the embeddings and of each block. In a
    # pre-norm encoder, the last tensor is the output of the final LayerNorm.
    hidden_states: tuple
    attentions: tuple  # num_layers tensors [B, N, T, T] of probabilities; each row sums to 1
    # [B, T, D]: the last hidden state, or the output of the BiLSTM if the encoder has one.
    sequence_output: object
    pooled_output: object  # [B, D], or None if the encoder has no pooler


@keras.saving.register_keras_serializable(package="bert_keras")
class BertEncoder(Pretrained):
    """The encoder: embeddings, blocks and a pooler (Devlin et al. 2018, section 3).

    The pooler reads the hidden state of `[CLS]`, of the last token in a causal encoder, or with
    `pooling="mean"` the mean of all hidden states.

    Attributes:
        gradient_checkpointing: Whether training stores only the input of each block and computes
            the block again for the gradient. This saves memory and takes a third more time.
        skips_padding: Whether predictions compute only the tokens, as in exported models. The
            hidden states at padding are then meaningless.

    Args:
        config: The hyperparameters.
        embeddings: The shared embeddings of another encoder; by default the encoder has its own.
        name: The name of the Keras model.

    Call arguments:
        inputs: A dict of int arrays [B, T]: `input_ids`, `input_mask` (1 for a token, 0 for
            padding) and `segment_ids`. If several sequences share a row, also `position_ids`,
            which start at 0 in each sequence, and `sequence_ids`, counted from 1 (0 for padding).
            Other keys are ignored. For masks that are absent or have other names see `Pretrained`.

    Returns:
        A dict: `sequence_output` [B, T, D] and, if the configuration has a pooler, `pooled_output`
        [B, D].

    Example:

    ```python
    encoder = BertEncoder.from_pretrained("google-bert/bert-base-uncased")
    inputs = encode(encoder.tokenizer, ["a good film"], max_length=128)
    hidden_states = encoder(inputs)["sequence_output"]
    ```
    """

    kind = Encoder
    gradient_checkpointing = False
    skips_padding = False

    def __init__(
        self,
        config: BertConfig,
        *,
        embeddings: SharedEmbeddings | None = None,
        name: str = "encoder",
        **kwargs,
    ):
        super().__init__(name=name, **kwargs)
        self.config = config
        self.embeddings = embeddings or self._new_embeddings()
        count = 1 if config.shares_layers else config.num_layers
        self.blocks = [self._new_block(index) for index in range(count)]
        epsilon, dtype = config.layer_norm_epsilon, self.dtype_policy
        self.final_norm: Any = None
        if config.is_pre_norm:
            options = {"epsilon": epsilon, "center": config.has_biases, "dtype": dtype}
            self.final_norm = primitives.new_norm(config.norm_kind, name="final_norm", **options)
        self.relative: Any = self._new_relative()
        self.bilstm: Any = None
        if config.num_lstm_layers:
            self.bilstm = BiLSTM(
                config.hidden_size // 2,
                num_layers=config.num_lstm_layers,
                dropout_rate=config.hidden_dropout_rate,
                dtype=dtype,
                name="bilstm",
            )
        self.pooler: Any = None
        if config.has_pooler:
            stddev = config.initializer_stddev
            self.pooler = Pooler(
                config.hidden_size,
                activation=activation_function(config.pooler_activation or config.activation),
                use_bias=config.has_biases,
                kernel_initializer=keras.initializers.TruncatedNormal(stddev=stddev),
                layer_norm_epsilon=epsilon if config.has_head_norm else 0.0,
                dtype=dtype,
                name="pooler",
            )

    def _options(self, *names: str) -> dict[str, Any]:
        """Returns fields of the configuration and the dtype as arguments of a layer."""
        names += ("layer_norm_epsilon", "initializer_stddev", "has_biases", "norm_kind")
        return {name: getattr(self.config, name) for name in names} | {"dtype": self.dtype_policy}

    def _new_embeddings(self) -> BertEmbeddings:
        config = self.config
        names = ("max_positions", "num_segments", "embedding_size", "position_offset")
        return BertEmbeddings(
            config.vocab_size,
            config.hidden_size,
            dropout_rate=config.hidden_dropout_rate,
            has_positions=config.has_position_table,
            has_norm=config.has_embedding_norm,
            name="embeddings",
            **self._options(*names),
        )

    def _new_block(self, index: int) -> EncoderBlock:
        names = ("activation", "hidden_dropout_rate", "attention_dropout_rate")
        return EncoderBlock(
            self.config.num_heads,
            self.config.intermediate_size,
            has_attention_norm=self.config.has_attention_norm(index),
            name=f"layer_{index}",
            **self._options(*names, "is_pre_norm", "is_gated", "block_biases"),
        )

    def _new_relative(self) -> RelativeBias | RelativeEmbeddings | None:
        config, count = self.config, self.config.num_relative_buckets
        if not count:
            return None
        options: dict[str, Any] = {"max_positions": config.max_positions, "name": "relative"}
        options |= {"initializer_stddev": config.initializer_stddev, "dtype": self.dtype_policy}
        if config.position_kind == "relative":
            return RelativeBias(count, num_heads=config.num_heads, **options)
        options |= {"layer_norm_epsilon": config.layer_norm_epsilon}
        options |= {"dropout_rate": config.hidden_dropout_rate, "hidden_size": config.hidden_size}
        return RelativeEmbeddings(count, **options)

    def build(self, input_shape: tuple | None = None):
        self.embeddings.build()
        for layer in (*self.blocks, self.final_norm, self.bilstm, self.relative):
            if layer is not None:
                layer.build((None, None, self.config.hidden_size))
        if self.pooler is not None:
            self.pooler.build((None, self.config.hidden_size))

    def states(self, inputs: dict, training: bool = False) -> EncoderStates:
        """Returns the hidden states and the attention probabilities of every layer.

        Here, blocks with local attention compute all T x T probabilities, which are 0 outside of
        the window. A call of the encoder computes only the window, with the same hidden states.
        """
        check_inputs(inputs, self.config)
        inputs = named_inputs(inputs)
        if not self.built:
            self.build()
        patterns = self._patterns(inputs, has_probabilities=True, training=training)
        return self._states(inputs, patterns, training=training)

    def _states(self, inputs: dict, patterns: dict, *, training: bool) -> EncoderStates:
        ids, segments = inputs["input_ids"], inputs["segment_ids"]
        positions = inputs.get("position_ids")
        hidden_BTD = self.embeddings(ids, segments, position_ids=positions, training=training)
        hidden_states, attentions = [hidden_BTD], []
        tokens, shape = patterns[False].tokens, ops.shape(hidden_BTD)
        if tokens is not None:
            hidden_XD = ops.reshape(hidden_BTD, (-1, shape[-1]))
            hidden_BTD = ops.take(hidden_XD, tokens.positions, axis=0)  # [X, D] from here on
        for index in range(self.config.num_layers):
            block = self.blocks[index % len(self.blocks)]
            pattern = patterns[self.config.is_local(index)]
            if training and self.gradient_checkpointing:
                hidden_BTD, probabilities_BNTT = call_recomputed(block, hidden_BTD, pattern)
            else:
                hidden_BTD, probabilities_BNTT = block(hidden_BTD, pattern, training=training)
            hidden_states.append(hidden_BTD)
            attentions.append(probabilities_BNTT)
        if self.final_norm is not None:
            hidden_BTD = hidden_states[-1] = self.final_norm(hidden_BTD)
        if tokens is not None:
            hidden_BTD = ops.reshape(ops.take(hidden_BTD, tokens.token_index, axis=0), shape)
        if self.bilstm is not None:
            is_real_BT = ops.cast(inputs["input_mask"], "bool")
            hidden_BTD = self.bilstm(hidden_BTD, is_real_BT, training=training)
        pooled_BD = None if self.pooler is None else self._pool(hidden_BTD, inputs["input_mask"])
        return EncoderStates(tuple(hidden_states), tuple(attentions), hidden_BTD, pooled_BD)

    def _pool(self, hidden_BTD, input_mask_BT):
        if self.config.pooling == "mean":
            state_BD = mean_state(hidden_BTD, input_mask_BT)
        elif self.config.is_causal:  # only the last token attends to the whole row
            positions_T = ops.arange(ops.shape(input_mask_BT)[1], dtype="int32")
            is_real_BT = ops.cast(ops.cast(input_mask_BT, "bool"), "int32")
            last_B1 = ops.max(is_real_BT * positions_T, axis=1, keepdims=True)
            state_BD = primitives.states_at(hidden_BTD, last_B1)
        else:
            state_BD = hidden_BTD[:, 0]
        return self.pooler(state_BD)

    def _patterns(
        self, inputs: dict, *, has_probabilities: bool, training: bool
    ) -> dict[bool, attention.AttentionPattern]:
        """Returns the attention patterns by whether the attention of a block is local."""
        config, dtype, window = self.config, self.compute_dtype, self.config.local_window
        mask, length = inputs["input_mask"], ops.shape(inputs["input_ids"])[1]
        tokens = None
        if is_packed := "sequence_ids" in inputs:
            bias = attention.packed_bias(inputs["sequence_ids"], dtype=dtype)
        else:
            bias = attention.padding_bias(mask, dtype=dtype)
            if self.skips_padding and not training:
                tokens = attention.find_tokens(mask)
        if config.is_causal:
            bias = bias + attention.causal_bias(length, dtype=dtype)
        rotation, local_rotation = self._rotations(inputs, length)
        if config.position_kind == "relative":
            bias = bias + self.relative(inputs["input_ids"])
        pattern = attention.FullPattern(bias, rotation, tokens)
        if config.position_kind == "disentangled":
            embeddings = self.relative(inputs["input_ids"], training=training)
            return {False: pattern._replace(relative_embeddings=embeddings)}
        # In blocks, a token has 3 x Q scores, otherwise T. T may be unknown while tracing.
        num_block_scores = 3 * max(window // 2, attention.LEAST_BLOCK)
        is_long = not isinstance(length, int) or length > num_block_scores
        has_blocks = is_long and not has_probabilities
        if window and not has_blocks:
            bias = bias + attention.window_bias(length, window=window, dtype=dtype)
            return {False: pattern, True: attention.FullPattern(bias, local_rotation, tokens)}
        if window:
            options = {"is_packed": is_packed, "is_causal": config.is_causal, "dtype": dtype}
            ids = inputs["sequence_ids"] if is_packed else mask
            bias = attention.block_bias(ids, window=window, **options)
            return {False: pattern, True: attention.BlockPattern(bias, local_rotation, tokens)}
        can_use_kernel = IS_JAX and training and not (has_probabilities or config.is_causal)
        if can_use_kernel and not (is_packed or self.relative):
            head_size = config.hidden_size // config.num_heads
            if jax_ops.takes_kernels(length, head_size=head_size, dtype=dtype):
                pattern = attention.KernelPattern(bias[:, 0, 0], rotation)
        return {False: pattern}

    def _rotations(self, inputs: dict, length) -> tuple:
        """Returns the rotations of global and local attention, or (None, None) without them."""
        config, positions = self.config, inputs.get("position_ids")
        if not config.is_rotary:
            return None, None
        positions = ops.arange(length) if positions is None else positions
        rotate_by = partial(
            attention.compute_rotation,
            positions,
            head_size=config.hidden_size // config.num_heads,
            divisor=config.rotary_divisor,
        )
        rotation = rotate_by(base=config.rotary_base)
        if not config.local_window or config.local_rotary_base in (0, config.rotary_base):
            return rotation, rotation
        return rotation, rotate_by(base=config.local_rotary_base)

    def call(self, inputs: dict, training: bool = False):
        patterns = self._patterns(inputs, has_probabilities=False, training=training)
        states = self._states(inputs, patterns, training=training)
        outputs = {"sequence_output": states.sequence_output}
        if self.pooler is not None:
            outputs["pooled_output"] = states.pooled_output
        return outputs

    def predict(self, x: Any, *args, **kwargs):
        if isinstance(x, (Mapping, list, tuple, str)):
            check_inputs(x, self.config)
        return super().predict(x, *args, **kwargs)

    @property
    def token_table(self):
        """The token embedding table [V, E]; masked-LM heads that tie their decoder share it."""
        return self.embeddings.token_table
