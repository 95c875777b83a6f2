"""The signature `tensors` comes in; it goes out refusing rows that no model reads, before they cost
memory, and blind to what TF Serving fills shorter rows up with."""

import tensorflow as tf

from bert_keras.export.servable import Servable

_NAME = "tensors"


def with_checked_tensors(servable: Servable, *, max_positions: int, cls_id: int) -> Servable:
    """`servable`, whose `tensors` fails (INVALID_ARGUMENT) where the last dimension of an input has
    more than `max_positions`: the embeddings of a long row take thousands of times its bytes.

    Its input_mask is 0 from where only [CLS] follows: with `pad_variable_length_inputs` TF Serving
    makes rows equally long with their first values, [CLS] and the mask 1
    (tensorflow_serving/batching/batching_util.cc).
    """
    answer = servable.signatures[_NAME]
    specs = {spec.name: spec for spec in tf.nest.flatten(answer.structured_input_signature)}

    @tf.function
    def from_tensors(**inputs):
        checks = [
            tf.debugging.Assert(
                tf.shape(values)[-1] <= max_positions,
                [f"{name} has more than the {max_positions} positions that the model reads"],
            )
            for name, values in inputs.items()
        ]
        with tf.control_dependencies(checks):
            inputs = {name: tf.identity(values) for name, values in inputs.items()}
        is_other = tf.cast(inputs["input_ids"] != cls_id, tf.int32)
        is_sent = tf.cumsum(is_other, axis=-1, reverse=True) > 0  # LiteRT knows no cumprod
        mask = inputs["input_mask"] * tf.cast(is_sent, tf.int32)
        return answer(**{**inputs, "input_mask": mask})

    signatures = {**servable.signatures, _NAME: from_tensors.get_concrete_function(**specs)}
    return servable._replace(signatures=signatures)
