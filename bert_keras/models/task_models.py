"""The task models: an encoder under the head of classification, tagging or question answering."""

import keras
from keras import ops

from bert_keras.architectures import (
    CLASSIFIER,
    MULTIPLE_CHOICE,
    QUESTION_ANSWERING,
    TOKEN_CLASSIFIER,
)
from bert_keras.checkpoints.card import ModelCard
from bert_keras.config import BertConfig
from bert_keras.distribution import WholeBatchStep
from bert_keras.errors import InputError
from bert_keras.layers.heads import ClassificationHead, SpanHead, TokenLabelsHead
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.pretrained import Pretrained


class TaskModel(WholeBatchStep, Pretrained):
    """An encoder and its heads, built when made. Subclasses add `architecture`, heads and `call`. A
    pooler that no head reads is not trained.
    """

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(**kwargs)
        if self.architecture.reads_pooled_output and not config.has_pooler:
            raise InputError(
                f"{self.architecture.name} reads the pooled vector; has_pooler is False"
            )
        self.config = config
        self.encoder = BertEncoder(config, dtype=self.dtype_policy)
        if self.encoder.pooler is not None:
            self.encoder.pooler.trainable = self.architecture.reads_pooled_output

    def build(self, input_shape=None):
        self.encoder.build()
        self.build_heads()
        self.built = True

    def build_heads(self) -> None:
        raise AssertionError("a task model builds its heads")

    def get_config(self):
        dtype = keras.dtype_policies.serialize(self.dtype_policy)
        return {"name": self.name, "dtype": dtype, "config": self.config.to_dict()}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(BertConfig.from_dict(config.pop("config")), **config)


WINDOW_POOLINGS = ("mean", "max")


@keras.saving.register_keras_serializable(package="bert_keras")
class BertClassifier(TaskModel):
    """Section 4.1. Call with a dict of `input_ids`, `input_mask`, `segment_ids` [B, T]; returns
    logits [B, num_labels]. `dropout_rate` is the head's own, the encoder's unless given.

    Inputs [B, W, T] are W windows of each long text: the logits are the mean or, as
    `window_pooling` says, the largest of those of its windows. One without any input_mask is
    padding and does not count.
    """

    architecture = CLASSIFIER

    def __init__(
        self,
        config: BertConfig,
        *,
        num_labels: int,
        dropout_rate: float | None = None,
        window_pooling: str = "mean",
        name: str = "classifier",
        **kwargs,
    ):
        super().__init__(config, name=name, **kwargs)
        if window_pooling not in WINDOW_POOLINGS:
            raise InputError(
                f"window_pooling is {window_pooling!r}; expected one of {WINDOW_POOLINGS}"
            )
        self.num_labels = num_labels
        self.dropout_rate = config.hidden_dropout_rate if dropout_rate is None else dropout_rate
        self.window_pooling = window_pooling
        self.classification = ClassificationHead(
            num_labels,
            dropout_rate=self.dropout_rate,
            initializer_stddev=config.initializer_stddev,
            dtype=self.dtype_policy,
            name="classification",
        )
        self.build()

    def build_heads(self):
        self.classification.build((None, self.config.hidden_size))

    def call(self, inputs, training=False):
        if len(inputs["input_ids"].shape) == 2:
            return self._logits(inputs, training=training)
        _, num_windows, length = ops.shape(inputs["input_ids"])
        rows = {name: ops.reshape(array, (-1, length)) for name, array in inputs.items()}
        logits_XL = self._logits(rows, training=training)
        logits_BWL = ops.reshape(logits_XL, (-1, num_windows, self.num_labels))
        is_real_BW1 = ops.any(ops.cast(inputs["input_mask"], "bool"), axis=-1)[..., None]
        if self.window_pooling == "max":
            return ops.max(ops.where(is_real_BW1, logits_BWL, -float("inf")), axis=1)
        real_BW1 = ops.cast(is_real_BW1, logits_BWL.dtype)
        return ops.sum(logits_BWL * real_BW1, axis=1) / ops.sum(real_BW1, axis=1)

    def _logits(self, inputs, *, training):
        pooled_BD = self.encoder(inputs, training=training)["pooled_output"]
        return self.classification(pooled_BD, training=training)

    @classmethod
    def from_card(cls, card: ModelCard):
        """Windows are pooled as the task's `long_texts` says."""
        pooling = card.task.get("long_texts")
        if pooling not in WINDOW_POOLINGS:
            return super().from_card(card)
        return cls(card.config, num_labels=len(card.labels), window_pooling=pooling)

    def get_config(self):
        return {
            **super().get_config(),
            "num_labels": self.num_labels,
            "dropout_rate": self.dropout_rate,
            "window_pooling": self.window_pooling,
        }


@keras.saving.register_keras_serializable(package="bert_keras")
class BertMultipleChoice(TaskModel):
    """Section 4.4. Call with a dict of `input_ids`, `input_mask`, `segment_ids` [B, C, T], each of
    the C choices packed with the same question; returns logits [B, C]. C may differ from call to
    call. `dropout_rate` is the head's own, the encoder's unless given.
    """

    architecture = MULTIPLE_CHOICE

    def __init__(
        self,
        config: BertConfig,
        *,
        dropout_rate: float | None = None,
        name: str = "multiple_choice_model",
        **kwargs,
    ):
        super().__init__(config, name=name, **kwargs)
        self.dropout_rate = config.hidden_dropout_rate if dropout_rate is None else dropout_rate
        self.multiple_choice = ClassificationHead(
            1,
            dropout_rate=self.dropout_rate,
            initializer_stddev=config.initializer_stddev,
            dtype=self.dtype_policy,
            name="multiple_choice",
        )
        self.build()

    def build_heads(self):
        self.multiple_choice.build((None, self.config.hidden_size))

    def call(self, inputs, training=False):
        shape = inputs["input_ids"].shape
        if len(shape) != 3:
            raise InputError(
                f"input_ids has the shape {tuple(shape)}; expected three dimensions: examples, "
                "choices, tokens"
            )
        _, choices, length = ops.shape(inputs["input_ids"])
        rows = {
            name: ops.reshape(array, (-1, length))
            for name, array in inputs.items()
            if len(array.shape) == 3
        }
        pooled_XD = self.encoder(rows, training=training)["pooled_output"]
        return ops.reshape(self.multiple_choice(pooled_XD, training=training), (-1, choices))

    def get_config(self):
        return {**super().get_config(), "dropout_rate": self.dropout_rate}


@keras.saving.register_keras_serializable(package="bert_keras")
class BertTokenClassifier(TaskModel):
    """Section 5.3, NER. Call with a dict of `input_ids`, `input_mask`, `segment_ids` [B, T];
    returns logits [B, T, num_labels]. `dropout_rate` is the head's own, the encoder's unless given.
    """

    architecture = TOKEN_CLASSIFIER

    def __init__(
        self,
        config: BertConfig,
        *,
        num_labels: int,
        dropout_rate: float | None = None,
        name: str = "token_classifier",
        **kwargs,
    ):
        super().__init__(config, name=name, **kwargs)
        self.num_labels = num_labels
        self.dropout_rate = config.hidden_dropout_rate if dropout_rate is None else dropout_rate
        self.token_labels = TokenLabelsHead(
            num_labels,
            dropout_rate=self.dropout_rate,
            initializer_stddev=config.initializer_stddev,
            dtype=self.dtype_policy,
            name="token_labels",
        )
        self.build()

    def build_heads(self):
        self.token_labels.build((None, None, self.config.hidden_size))

    def call(self, inputs, training=False):
        hidden_BTD = self.encoder(inputs, training=training)["sequence_output"]
        return self.token_labels(hidden_BTD, training=training)

    def get_config(self):
        return {
            **super().get_config(),
            "num_labels": self.num_labels,
            "dropout_rate": self.dropout_rate,
        }


@keras.saving.register_keras_serializable(package="bert_keras")
class BertQuestionAnswering(TaskModel):
    """Section 4.2. Call with a dict of `input_ids`, `input_mask`, `segment_ids` [B, T], the
    question as A and the paragraph as B; returns logits {"start": [B, T], "end": [B, T]}.
    """

    architecture = QUESTION_ANSWERING

    def __init__(self, config: BertConfig, *, name: str = "question_answering", **kwargs):
        super().__init__(config, name=name, **kwargs)
        self.span = SpanHead(
            initializer_stddev=config.initializer_stddev, dtype=self.dtype_policy, name="span"
        )
        self.build()

    def build_heads(self):
        self.span.build((None, None, self.config.hidden_size))

    def call(self, inputs, training=False):
        return self.span(self.encoder(inputs, training=training)["sequence_output"])
