"""The models of ELECTRA: a discriminator, and its pretraining model with a generator."""

import dataclasses

import keras
from keras import ops

from bert_keras.config import BertConfig, ModelMetadata
from bert_keras.kinds.masked_lm import Discriminator, ReplacedTokens
from bert_keras.layers import Tensor
from bert_keras.layers.embeddings import SharedEmbeddings
from bert_keras.layers.heads import ReplacedTokenHead
from bert_keras.models.pretrainer import BertMaskedLM
from bert_keras.models.task_models import TaskModel


@keras.saving.register_keras_serializable(package="bert_keras")
class BertDiscriminator(TaskModel):
    """Predicts for each token whether it was replaced (Clark et al. 2020).

    Args:
        config: The hyperparameters of the encoder.
        name: The name of the Keras model.

    Call arguments:
        inputs: A dict of `input_ids`, `input_mask` and `segment_ids`, int [B, T].

    Returns:
        A dict with `replaced_token`, logits [B, T], which are above 0 for a replaced token.

    Example:

    ```python
    model = BertDiscriminator(preset("electra-tiny", vocab_size=4_000))
    ```
    """

    kind = Discriminator

    def __init__(self, config: BertConfig, *, name: str = "discriminator", **kwargs):
        super().__init__(config, name=name, **kwargs)
        self.replaced_token = self.head(
            ReplacedTokenHead, activation=config.activation, name="replaced_token"
        )
        self.build()

    def call(self, inputs: dict, training: bool = False):
        hidden_BTD = self.encoder(inputs, training=training)["sequence_output"]
        return {"replaced_token": self.replaced_token(hidden_BTD)}


@keras.saving.register_keras_serializable(package="bert_keras")
class BertReplacedTokenPretrainer(TaskModel):
    """A generator that replaces masked tokens, and a discriminator that detects them.

    The generator, a smaller BertMaskedLM, predicts the masked tokens. Each of them is replaced by a
    token drawn from its prediction. The discriminator, a BertDiscriminator, predicts which tokens
    differ from the original tokens. Both share the tables and the LayerNorm of the
    embeddings. No gradient flows through the drawn tokens. Source: Clark et al. 2020 and its code.

    Args:
        config: The hyperparameters of the discriminator's encoder.
        generator_size: The size of the generator relative to the discriminator; see
            `generator_config`.
        name: The name of the Keras model.

    Call arguments:
        inputs: The arrays that `BertMaskedLM` takes; `masked_lm_ids` int [B, P], the original
            tokens at the masked positions; `masked_lm_weights` [B, P], 0 for an unused position;
            and `sampling_draws` int32 [B, P], uniform below 2^24, which determine the new tokens.

    Returns:
        A dict: `masked_lm`, logits [B, P, V] of the generator, and `replaced_token` [B, T, 2]. Its
        first column is the logit that a token was replaced, and the second is 1 for a token that
        differs from the original token, else 0.

    Example:

    ```python
    model = BertReplacedTokenPretrainer(preset("electra-tiny", vocab_size=4_000))
    ```
    """

    kind = ReplacedTokens
    arguments = ("generator_size",)

    def __init__(
        self,
        config: BertConfig,
        *,
        generator_size: float = 0.25,
        name: str = "replaced_token_pretrainer",
        **kwargs,
    ):
        super().__init__(config, name=name, **kwargs)
        self.generator_size = generator_size
        self.replaced_token = self.head(
            ReplacedTokenHead, activation=config.activation, name="replaced_token"
        )
        self.build()

    def build(self, input_shape: tuple | None = None):
        self.encoder.build()
        self.replaced_token.build((None, None, self.config.hidden_size))
        config, dtype = generator_config(self.config, self.generator_size), self.dtype_policy
        embeddings = SharedEmbeddings(
            self.encoder.embeddings, config.hidden_size, dtype=dtype, name="embeddings"
        )
        self.generator = BertMaskedLM(config, embeddings=embeddings, dtype=dtype, name="generator")

    @property
    def encoders(self):
        return [self.encoder, self.generator.encoder]

    def call(self, inputs: dict, training: bool = False):
        logits_BPV = self.generator(inputs, training=training)["masked_lm"]
        ids_BP = draw_ids(logits_BPV, inputs["sampling_draws"])
        length = ops.shape(inputs["input_ids"])[1]
        is_used_BP = ops.cast(inputs["masked_lm_weights"] > 0, "int32")
        used_BPT = ops.one_hot(inputs["masked_lm_positions"], length, dtype="int32")
        used_BPT = used_BPT * is_used_BP[..., None]
        is_masked_BT = ops.any(used_BPT > 0, axis=1)
        drawn_BT = ops.sum(used_BPT * ids_BP[..., None], axis=1)
        original_BT = ops.sum(used_BPT * inputs["masked_lm_ids"][..., None], axis=1)
        input_ids = ops.where(is_masked_BT, drawn_BT, inputs["input_ids"])
        encoded = self.encoder(inputs | {"input_ids": input_ids}, training=training)
        logits_BT = self.replaced_token(encoded["sequence_output"])
        is_replaced_BT = ops.cast(drawn_BT != original_BT, logits_BT.dtype)
        replaced_BT2 = ops.stack([logits_BT, is_replaced_BT], axis=-1)
        return {"masked_lm": logits_BPV, "replaced_token": replaced_BT2}

    def new_metadata(self):
        task = {"generator_size": self.generator_size}
        return dataclasses.replace(super().new_metadata(), task=task)

    @classmethod
    def from_metadata(cls, metadata: ModelMetadata, **options):
        size = metadata.task["generator_size"]
        return super().from_metadata(metadata, generator_size=size, **options)


def generator_config(config: BertConfig, size: float) -> BertConfig:
    """Returns the configuration of a generator (Clark et al. 2020, section 3.2 and table 6).

    It has the number of layers, the embeddings and the head size of its discriminator. Its number
    of attention heads (at least 1), its hidden size and its intermediate size are scaled by `size`.
    """
    num_heads = max(1, round(size * config.num_heads))
    hidden_size = config.hidden_size // config.num_heads * num_heads
    embedding_size = config.embedding_size or config.hidden_size
    return dataclasses.replace(
        config,
        hidden_size=hidden_size,
        num_heads=num_heads,
        intermediate_size=max(1, config.intermediate_size * num_heads // config.num_heads),
        embedding_size=0 if embedding_size == hidden_size else embedding_size,
        has_pooler=False,
    )


def draw_ids(logits_BPV: Tensor, draws_BP: Tensor):
    """Draws one token for each position from the distribution softmax(logits).

    It is the token at which the cumulative probability exceeds (draw + 1/2) / 2^24. The draws are
    uniform integers below 2^24. Equal logits and draws give equal tokens on every device.
    """
    probabilities_BPV = ops.softmax(ops.cast(ops.stop_gradient(logits_BPV), "float32"))
    cumulative_BPV = ops.cumsum(probabilities_BPV, axis=-1)
    limits_BP = (ops.cast(draws_BP, "float32") + 0.5) / 2.0**24
    limits_BP1 = limits_BP[..., None] * cumulative_BPV[..., -1:]  # the sum is 1 up to rounding
    ids_BP = ops.sum(ops.cast(cumulative_BPV <= limits_BP1, "int32"), axis=-1)
    return ops.minimum(ids_BP, logits_BPV.shape[-1] - 1)
