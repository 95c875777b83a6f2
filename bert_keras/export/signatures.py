"""A Keras classifier and a text reader come in; the two signatures of a SavedModel go out."""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from bert_keras.export.text_in_graph import TextToInputs

TEXT_INPUTS = ("text", "text_pair")
TENSOR_INPUTS = ("input_ids", "input_mask", "segment_ids")


class ServedClassifier(tf.Module):
    """What is saved: the reader of text and bare variables, never the Keras model itself.

    A tracked Keras model would store its weights twice or leave them where TF Serving's loader
    does not find them.
    """

    def __init__(self, model: keras.Model, *, text_to_inputs: TextToInputs):
        super().__init__()
        self.weights = [weight.value for weight in model.weights]
        self.text_to_inputs = text_to_inputs


def signatures(
    model: keras.Model, *, text_to_inputs: TextToInputs, labels: Sequence[str], num_texts: int
) -> dict[str, Callable]:
    """`serving_default`: `text` (and `text_pair`), string [B]. `tensors`: `input_ids`,
    `input_mask`, `segment_ids`, int32 [B,T].

    Both answer `label` string [B], `labels` string [B,N], `probabilities` float32 [B,N].
    """

    @tf.function
    def from_tensors(**inputs):
        probabilities = tf.nn.softmax(model(inputs, training=False))
        names = tf.constant(list(labels))
        return {
            "label": tf.gather(names, tf.argmax(probabilities, axis=1)),
            "labels": tf.tile(names[None], [tf.shape(probabilities)[0], 1]),
            "probabilities": probabilities,
        }

    # Traced once: the graph of the encoder is stored once and `from_text` calls it.
    answer_tensors = from_tensors.get_concrete_function(
        **{name: tf.TensorSpec([None, None], tf.int32, name) for name in TENSOR_INPUTS}
    )

    @tf.function
    def from_text(**texts):
        inputs = text_to_inputs(*(texts[name] for name in TEXT_INPUTS[:num_texts]))
        return answer_tensors(**inputs)

    answer_text = from_text.get_concrete_function(
        **{name: tf.TensorSpec([None], tf.string, name) for name in TEXT_INPUTS[:num_texts]}
    )
    return {"serving_default": answer_text, "tensors": answer_tensors}
