"""Signatures on serialized tf.Examples."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.exporting.servable import Sample, ServableModel, text_specs
from bert_keras.exporting.signatures.derived import on_examples

SPECS = {**text_specs(["a"]), "b": tf.TensorSpec([None, None], tf.string, "b")}


def servable() -> ServableModel:
    @tf.function
    def join(**texts):
        several = tf.strings.reduce_join(texts["b"], axis=1, separator="|")
        joined = tf.strings.join([texts["a"], several], separator="+")
        return {"joined": joined, "length": tf.strings.length(joined)}

    inputs = {"a": ["né\x00", ""], "b": [["1", "2"], ["3", ""]]}
    outputs = {"joined": np.array(["né\x00+1|2", "+3|"], object)}
    samples = [
        Sample({"signature": "tensors", "inputs": {}}, {}),
        Sample({"signature": "serving_default", "inputs": inputs}, outputs),
    ]
    return ServableModel({"serving_default": join.get_concrete_function(**SPECS)}, samples)


def example(**texts: list[bytes]) -> bytes:
    features = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        for name, values in texts.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def test_the_sample_of_raw_text_is_sent_as_examples():
    original = servable()
    added = on_examples(original, signature="examples", input_name="examples")
    assert list(added.signatures) == ["serving_default", "examples"]
    *before, sample = added.samples
    assert before == original.samples
    assert sample.request["signature"] == "examples"
    first, second = sample.request["inputs"]["examples"]
    assert tf.train.Example.FromString(first).features.feature["a"].bytes_list.value == [
        "né\x00".encode()
    ]
    outputs = added.signatures["examples"](examples=tf.constant([first, second]))
    assert set(outputs) == {"joined", "length"}
    assert [each.decode() for each in outputs["joined"].numpy()] == list(sample.outputs["joined"])


def test_outputs_can_be_renamed():
    added = on_examples(
        servable(), signature="classify", input_name="inputs", outputs={"classes": "joined"}
    )
    assert list(added.samples[-1].outputs) == ["classes"]
    outputs = added.signatures["classify"](
        inputs=tf.constant([example(a=[b"x"], b=[b"1", b"2", b"3"]), example(a=[b"y"], b=[])])
    )
    assert {name: array.numpy().tolist() for name, array in outputs.items()} == {
        "classes": [b"x+1|2|3", b"y+||"]
    }


@pytest.mark.parametrize(
    "serialized",
    [
        pytest.param(example(b=[b"1"]), id="missing input"),
        pytest.param(example(a=[b"x", b"y"], b=[]), id="too many values"),
        pytest.param(b"no example", id="not an example"),
    ],
)
def test_malformed_examples_are_invalid_arguments(serialized):
    added = on_examples(servable(), signature="examples", input_name="examples")
    with pytest.raises(tf.errors.InvalidArgumentError):
        added.signatures["examples"](examples=tf.constant([serialized]))
