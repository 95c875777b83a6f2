import numpy as np
import pytest
import tensorflow as tf

LENGTH, PREDICTIONS = 8, 2


def example(number: int, **changes) -> bytes:
    """A serialised record that holds its `number`; a change to None drops a feature."""
    values = {
        "input_ids": [2, number, 4, 3, 6, 3, 0, 0],
        "input_mask": [1, 1, 1, 1, 1, 1, 0, 0],
        "segment_ids": [0, 0, 0, 0, 1, 1, 0, 0],
        "masked_lm_positions": [2, 0],
        "masked_lm_ids": [5, 0],
        "masked_lm_weights": [1.0, 0.0],
        "next_sentence_labels": [number % 2],
    } | changes
    return serialized(**{name: value for name, value in values.items() if value is not None})


def serialized(**values) -> bytes:
    """A record of these features; floats make a list of floats."""
    features = {
        name: tf.train.Feature(float_list=tf.train.FloatList(value=value))
        if any(isinstance(each, float) for each in value)
        else tf.train.Feature(int64_list=tf.train.Int64List(value=value))
        for name, value in values.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


@pytest.fixture
def write(tmp_path):
    """write(name, records) -> path, with TensorFlow's own writer."""

    def written(name, records):
        with tf.io.TFRecordWriter(str(tmp_path / name)) as writer:
            for record in records:
                writer.write(record)
        return str(tmp_path / name)

    return written


@pytest.fixture
def make_example():
    return example


@pytest.fixture
def record():
    return serialized


@pytest.fixture
def generator():
    return np.random.default_rng(3)
