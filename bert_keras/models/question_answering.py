"""Encoder under a span head: where in a paragraph the answer to a question begins and ends."""

import keras

from bert_keras.config import BertConfig
from bert_keras.layers.span import SpanHead
from bert_keras.models.task_model import TaskModel


@keras.saving.register_keras_serializable(package="bert_keras")
class BertQuestionAnswering(TaskModel):
    """Section 4.2. Call with a dict of `input_ids`, `input_mask`, `segment_ids` [B, T], the
    question as A and the paragraph as B; returns logits {"start": [B, T], "end": [B, T]}.
    """

    uses_pooler = False

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
