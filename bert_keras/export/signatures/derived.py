"""Signatures derived from a model's own: on serialized tf.Examples, and `tensors` with checks."""

from collections.abc import Mapping
from typing import cast

import tensorflow as tf

from bert_keras.export.servable import TEXT_SIGNATURE, Sample, Servable, text_specs, traced


def on_examples(
    servable: Servable,
    *,
    signature: str,
    input_name: str,
    outputs: Mapping[str, str] | None = None,
) -> Servable:
    """Adds a signature on serialized tf.Examples to a servable on raw text.

    An example holds the inputs of `serving_default` under their names, as bytes (UTF-8). An input
    [B,C] is a feature of any number of values; shorter ones are padded with "".

    Args:
        servable: Has a `serving_default`.
        signature: Name of the new signature.
        input_name: Name of its input, string [B].
        outputs: Its names of outputs -> those of `serving_default`; None keeps all.
    """
    from_text = servable.signatures[TEXT_SIGNATURE]
    features = {
        spec.name: tf.io.FixedLenFeature([], tf.string)
        if spec.shape.rank == 1
        else tf.io.RaggedFeature(tf.string)
        for spec in tf.nest.flatten(from_text.structured_input_signature)
    }
    chosen = outputs or {name: name for name in from_text.structured_outputs}

    def from_examples(**serialized):
        parsed = tf.io.parse_example(serialized[input_name], features)
        texts = {
            name: text.to_tensor() if isinstance(text, tf.RaggedTensor) else text
            for name, text in parsed.items()
        }
        found = from_text(**cast(dict[str, tf.Tensor], texts))
        return {name: found[ours] for name, ours in chosen.items()}

    asked = next(s for s in servable.samples if s.request["signature"] == TEXT_SIGNATURE)
    sample = Sample(
        {"signature": signature, "inputs": {input_name: serialized(asked.request["inputs"])}},
        {name: asked.outputs[ours] for name, ours in chosen.items() if ours in asked.outputs},
    )
    added = traced(from_examples, **text_specs([input_name]))
    return Servable({**servable.signatures, signature: added}, [*servable.samples, sample])


def with_checked_tensors(servable: Servable, *, max_positions: int, cls_id: int) -> Servable:
    """Makes `tensors` refuse rows that are too long and ignore the padding of TF Serving.

    It fails (INVALID_ARGUMENT) where the last dimension of an input has more than `max_positions`,
    before the embeddings of such a row take thousands of times its bytes.

    Its input_mask is 0 from where only [CLS] follows: with `pad_variable_length_inputs` TF Serving
    pads rows with their first values, [CLS] and the mask 1
    (tensorflow_serving/batching/batching_util.cc).
    """
    tensors = servable.signatures["tensors"]
    specs = {spec.name: spec for spec in tf.nest.flatten(tensors.structured_input_signature)}

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
        is_sent = tf.cumsum(is_other, axis=-1, reverse=True) > 0  # LiteRT has no cumprod
        mask = inputs["input_mask"] * tf.cast(is_sent, tf.int32)
        return tensors(**{**inputs, "input_mask": mask})

    signatures = {**servable.signatures, "tensors": traced(from_tensors, **specs)}
    return servable._replace(signatures=signatures)


def serialized(inputs: Mapping[str, list]) -> list[bytes]:
    """Returns a tf.Example for each row of these inputs: a text, or a list of texts, of each."""
    examples = []
    for row in zip(*inputs.values(), strict=True):
        example = tf.train.Example()
        for name, value in zip(inputs, row, strict=True):
            values = [value] if isinstance(value, str) else value
            example.features.feature[name].bytes_list.value.extend(each.encode() for each in values)
        examples.append(example.SerializeToString(deterministic=True))
    return examples
