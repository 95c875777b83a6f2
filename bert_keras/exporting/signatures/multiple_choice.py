"""Builds the SavedModel signatures of a multiple choice model."""

import keras
import tensorflow as tf

from bert_keras.exporting.servable import Exporter, ServableModel, tensor_specs, traced
from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs, in_batches


def served_multiple_choice(model: keras.Model, reader: TextToInputs) -> ServableModel:
    """Builds the signatures of a BertMultipleChoice.

    `serving_default` takes `context`, string [B], and `choices`, string [B,C]. `tensors` takes
    `input_ids`, `input_mask` and `segment_ids`, int32 [B,C,T]. Both return `choice`, int32 [B], and
    `probabilities`, float32 [B,C]. A choice that is empty, or whose `input_mask` is 0 everywhere,
    is padding of probability 0. For SWAG, `context` is the column sent1, and each choice is the
    column sent2, a space and an ending.
    """

    def from_rows(**inputs):
        single_choices = {name: ids_XT[:, None] for name, ids_XT in inputs.items()}
        return {"logits": model(single_choices, training=False)[:, 0]}

    logits_of = traced(from_rows, **tensor_specs(rank=2))

    def from_tensors(**inputs):
        length = tf.shape(inputs["input_ids"])[-1]
        rows = {name: tf.reshape(ids, [-1, length]) for name, ids in inputs.items()}
        is_real_BC = tf.reduce_any(inputs["input_mask"] > 0, axis=-1)
        logits_BC = tf.reshape(logits_of(**rows)["logits"], tf.shape(is_real_BC))
        return _predictions(logits_BC, is_real_BC)

    def from_text(context, choices):
        is_any = tf.debugging.Assert(tf.size(choices) > 0, ["choices is empty; send at least one"])
        with tf.control_dependencies([is_any]):
            num_choices = tf.shape(choices)[1]
        rows = reader(tf.repeat(context, num_choices), tf.reshape(choices, [-1]))
        logits_BC = tf.reshape(in_batches(rows, logits_of)["logits"], tf.shape(choices))
        return _predictions(logits_BC, choices != "")

    signatures = {
        "serving_default": traced(
            from_text,
            context=tf.TensorSpec([None], tf.string, "context"),
            choices=tf.TensorSpec([None, None], tf.string, "choices"),
        ),
        "tensors": traced(from_tensors, **tensor_specs(rank=3)),
    }
    return ServableModel(signatures, from_tensors)


def _predictions(logits_BC: tf.Tensor, is_real_BC: tf.Tensor) -> dict[str, tf.Tensor]:
    logits_BC = tf.where(is_real_BC, logits_BC, tf.float32.min)
    probabilities_BC = tf.where(is_real_BC, tf.nn.softmax(logits_BC), 0.0)
    choice_B = tf.argmax(probabilities_BC, axis=1, output_type=tf.int32)
    return {"choice": choice_B, "probabilities": probabilities_BC}


EXPORTER = Exporter(served_multiple_choice)
