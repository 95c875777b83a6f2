"""Encoder under a head of one label: which of several continuations is the right one."""

import keras
from keras import ops

from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.layers.classification import ClassificationHead
from bert_keras.models.task_model import TaskModel


@keras.saving.register_keras_serializable(package="bert_keras")
class BertMultipleChoice(TaskModel):
    """Section 4.4. Call with a dict of `input_ids`, `input_mask`, `segment_ids` [B, C, T], each of
    the C choices packed with the same question; returns logits [B, C]. C may differ from call to
    call. `dropout_rate` is the head's own, the encoder's unless given.
    """

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
