"""A servable on raw text comes in; it goes out with signatures on serialized tf.Examples too.

An example holds the inputs of `serving_default` under their names, as bytes (UTF-8).
"""

from collections.abc import Mapping

import tensorflow as tf

from bert_keras.export.servable import Sample, Servable, text_specs

TEXT_SIGNATURE = "serving_default"

# Signatures that TF Serving's own APIs ask; it finds them by the method beside each.
API_METHODS = {
    "classify": tf.saved_model.CLASSIFY_METHOD_NAME,
    "regress": tf.saved_model.REGRESS_METHOD_NAME,
}
API_INPUT = tf.saved_model.CLASSIFY_INPUTS  # that of regress too


def on_examples(
    servable: Servable,
    *,
    signature: str,
    input_name: str,
    outputs: Mapping[str, str] | None = None,
) -> Servable:
    """`servable` and one signature more: `input_name`, string [B], to the outputs of
    `serving_default`, or those that `outputs` names, under the names that it gives them.

    An input [B,C] is a feature of any number of values; the shorter are filled up with "".
    """
    answer_text = servable.signatures[TEXT_SIGNATURE]
    features = {
        spec.name: tf.io.FixedLenFeature([], tf.string)
        if spec.shape.rank == 1
        else tf.io.RaggedFeature(tf.string)
        for spec in tf.nest.flatten(answer_text.structured_input_signature)
    }
    chosen = outputs or {name: name for name in answer_text.structured_outputs}

    @tf.function
    def from_examples(**serialized):
        parsed = tf.io.parse_example(serialized[input_name], features)
        texts = {
            name: text.to_tensor() if isinstance(text, tf.RaggedTensor) else text
            for name, text in parsed.items()
        }
        answer = answer_text(**texts)
        return {name: answer[ours] for name, ours in chosen.items()}

    asked = next(s for s in servable.samples if s.request["signature"] == TEXT_SIGNATURE)
    sample = Sample(
        {"signature": signature, "inputs": {input_name: _serialized(asked.request["inputs"])}},
        {name: asked.outputs[ours] for name, ours in chosen.items() if ours in asked.outputs},
    )
    concrete = from_examples.get_concrete_function(**text_specs([input_name]))
    return Servable({**servable.signatures, signature: concrete}, [*servable.samples, sample])


def _serialized(inputs: Mapping[str, list]) -> list[bytes]:
    return [
        _example(dict(zip(inputs, row, strict=True))).SerializeToString()
        for row in zip(*inputs.values(), strict=True)
    ]


def _example(texts: Mapping[str, str | list[str]]) -> tf.train.Example:
    def feature(texts: str | list[str]) -> tf.train.Feature:
        values = [text.encode() for text in ([texts] if isinstance(texts, str) else texts)]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))

    named = {name: feature(each) for name, each in texts.items()}
    return tf.train.Example(features=tf.train.Features(feature=named))
