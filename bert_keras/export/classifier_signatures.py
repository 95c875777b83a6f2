"""A Keras classifier and a text reader come in; the two signatures of a SavedModel go out."""

from collections.abc import Callable

import keras
import tensorflow as tf

from bert_keras.export.answers import Answer
from bert_keras.export.servable import tensor_specs, text_specs
from bert_keras.export.text_in_graph import TextToInputs
from bert_keras.export.windows_in_graph import Windows, pooled_logits, windows_of_tensors

TEXT_INPUTS = ("text", "text_pair")


def signatures(
    model: keras.Model, *, text_to_inputs: TextToInputs, answer: Answer, num_texts: int
) -> dict[str, Callable]:
    """`serving_default`: `text` (and `text_pair`), string [B]. `tensors`: `input_ids`,
    `input_mask`, `segment_ids`, int32 [B,T]. Both have the outputs of `answer`.
    """

    @tf.function
    def from_tensors(**inputs):
        return answer.outputs(model(inputs, training=False))

    # Traced once: the graph of the encoder is stored once and `from_text` calls it.
    answer_tensors = from_tensors.get_concrete_function(**tensor_specs(rank=2))

    @tf.function
    def from_text(**texts):
        return answer_tensors(**text_to_inputs(*_in_order(texts)))

    answer_text = from_text.get_concrete_function(**text_specs(TEXT_INPUTS[:num_texts]))
    return {"serving_default": answer_text, "tensors": answer_tensors}


def window_signatures(
    model: keras.Model, *, text_to_inputs: TextToInputs, answer: Answer, num_texts: int, stride: int
) -> dict[str, Callable]:
    """The same of a BertClassifier that reads windows of long texts; `tensors` is int32 [B,W,T]."""

    @tf.function
    def from_rows(**inputs):
        return model(inputs, training=False)

    logits_of = from_rows.get_concrete_function(**tensor_specs(rank=2))

    @tf.function
    def from_windows(owners, num_texts, **inputs):
        logits = pooled_logits(
            logits_of,
            Windows(inputs, owners, num_texts),
            num_labels=model.num_labels,
            pooling=model.window_pooling,
        )
        return answer.outputs(logits)

    answer_windows = from_windows.get_concrete_function(
        owners=tf.TensorSpec([None], tf.int64),
        num_texts=tf.TensorSpec([], tf.int32),
        **tensor_specs(rank=2),
    )

    def answers(windows: Windows) -> dict[str, tf.Tensor]:
        inputs, owners, num_texts = windows
        return answer_windows(owners=owners, num_texts=num_texts, **inputs)

    @tf.function
    def from_tensors(**inputs):
        return answers(windows_of_tensors(inputs))

    @tf.function
    def from_text(**texts):
        return answers(text_to_inputs.windows(*_in_order(texts), stride=stride))

    return {
        "serving_default": from_text.get_concrete_function(**text_specs(TEXT_INPUTS[:num_texts])),
        "tensors": from_tensors.get_concrete_function(**tensor_specs(rank=3)),
    }


def _in_order(texts: dict[str, tf.Tensor]) -> list[tf.Tensor]:
    return [texts[name] for name in TEXT_INPUTS if name in texts]
