"""Derives signatures from others: one on serialized tf.Examples, and `tensors` with checks."""

from collections.abc import Mapping
from typing import cast

import tensorflow as tf

from bert_keras.exporting.servable import TEXT_SIGNATURE, Sample, ServableModel, text_specs, traced


def on_examples(
    servable: ServableModel,
    *,
    signature: str,
    input_name: str,
    outputs: Mapping[str, str] | None = None,
) -> ServableModel:
    """Adds a signature that takes serialized tf.Examples.

    An example holds the inputs of `serving_default` as bytes features (UTF-8) of the same names. An
    input of shape [B,C] becomes a feature with any number of values. Shorter ones are padded with
    "".

    Args:
        servable: A servable with a signature `serving_default` that takes raw text.
        signature: The name of the new signature.
        input_name: The name of its input, string [B].
        outputs: Output names of the new signature -> output names of `serving_default`; None keeps
            all outputs under their names.

    Returns:
        The servable with the new signature and one more sample.
    """
    from_text = servable.signatures[TEXT_SIGNATURE]
    features = {
        spec.name: tf.io.FixedLenFeature([], tf.string)
        if spec.shape.rank == 1
        else tf.io.RaggedFeature(tf.string)
        for spec in tf.nest.flatten(from_text.structured_input_signature)
    }
    sources = outputs or {name: name for name in from_text.structured_outputs}

    def from_examples(**serialized):
        parsed = tf.io.parse_example(serialized[input_name], features)
        texts = {
            name: text.to_tensor() if isinstance(text, tf.RaggedTensor) else text
            for name, text in parsed.items()
        }
        from_texts = from_text(**cast(dict[str, tf.Tensor], texts))
        return {name: from_texts[source] for name, source in sources.items()}

    texts = next(s for s in servable.samples if s.request["signature"] == TEXT_SIGNATURE)
    sample = Sample(
        {"signature": signature, "inputs": {input_name: serialized(texts.request["inputs"])}},
        {name: texts.outputs[each] for name, each in sources.items() if each in texts.outputs},
    )
    added = traced(from_examples, **text_specs([input_name]))
    return ServableModel({**servable.signatures, signature: added}, [*servable.samples, sample])


def with_checked_tensors(
    servable: ServableModel, *, max_positions: int, cls_id: int
) -> ServableModel:
    """Makes `tensors` refuse rows that are too long and mask the padding of TF Serving.

    `tensors` fails with INVALID_ARGUMENT if the last dimension of an input exceeds `max_positions`.
    The check precedes the embedding lookup, which would allocate thousands of times the size of the
    row.

    With `pad_variable_length_inputs`, TF Serving pads each tensor of a row with the row's first
    value: `input_ids` with [CLS] and `input_mask` with 1
    (tensorflow_serving/batching/batching_util.cc). `tensors` therefore sets `input_mask` to 0 for
    all [CLS] tokens at the end of a row.

    Args:
        servable: A servable with a signature `tensors`.
        max_positions: The number of position embeddings of the encoder.
        cls_id: The id of [CLS].
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
    """Returns a serialized tf.Example for each row.

    Args:
        inputs: Lists of the same length by input name. An element is a text or a list of texts.
    """
    examples = []
    for row in zip(*inputs.values(), strict=True):
        example = tf.train.Example()
        for name, value in zip(inputs, row, strict=True):
            values = [value] if isinstance(value, str) else value
            example.features.feature[name].bytes_list.value.extend(each.encode() for each in values)
        examples.append(example.SerializeToString(deterministic=True))
    return examples
