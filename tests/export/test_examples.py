"""Signatures on serialized tf.Examples."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.export.servable import Sample, Servable, text_specs
from bert_keras.export.signatures.derived import on_examples

SPECS = {**text_specs(["a"]), "b": tf.TensorSpec([None, None], tf.string, "b")}


def servable() -> Servable:
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
    return Servable({"serving_default": join.get_concrete_function(**SPECS)}, samples)


def example(**texts: list[bytes]) -> bytes:
    features = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        for name, values in texts.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def test_the_sample_of_raw_text_is_asked_as_examples():
    given = servable()
    added = on_examples(given, signature="examples", input_name="examples")
    assert list(added.signatures) == ["serving_default", "examples"]
    *before, sample = added.samples
    assert before == given.samples
    assert sample.request["signature"] == "examples"
    first, second = sample.request["inputs"]["examples"]
    assert tf.train.Example.FromString(first).features.feature["a"].bytes_list.value == [
        "né\x00".encode()
    ]
    answer = added.signatures["examples"](examples=tf.constant([first, second]))
    assert set(answer) == {"joined", "length"}
    assert [each.decode() for each in answer["joined"].numpy()] == list(sample.outputs["joined"])


def test_outputs_take_the_names_of_an_api():
    added = on_examples(
        servable(), signature="classify", input_name="inputs", outputs={"classes": "joined"}
    )
    assert list(added.samples[-1].outputs) == ["classes"]
    answer = added.signatures["classify"](
        inputs=tf.constant([example(a=[b"x"], b=[b"1", b"2", b"3"]), example(a=[b"y"], b=[])])
    )
    assert {name: array.numpy().tolist() for name, array in answer.items()} == {
        "classes": [b"x+1|2|3", b"y+||"]
    }


@pytest.mark.parametrize(
    "serialized",
    [
        pytest.param(example(b=[b"1"]), id="an input too few"),
        pytest.param(example(a=[b"x", b"y"], b=[]), id="two values for one"),
        pytest.param(b"no example", id="no example"),
    ],
)
def test_what_is_no_such_example_is_the_fault_of_the_request(serialized):
    added = on_examples(servable(), signature="examples", input_name="examples")
    with pytest.raises(tf.errors.InvalidArgumentError):
        added.signatures["examples"](examples=tf.constant([serialized]))
