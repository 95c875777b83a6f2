import numpy as np

from tests.tensorflow_or_skip import tf
from tfrecords_tools.records.writer import framed, serialized


def features(generator, rows=50):
    return {
        "input_ids": generator.integers(0, 200_000, (rows, 40)),
        "a_rather_long_name_of_a_feature": generator.integers(0, 2**32, (rows, 300)),
        "weights": generator.random((rows, 7), np.float32),
        "label": generator.integers(0, 2, (rows, 1)).astype(bool),
        "small": np.zeros((rows, 3), np.int32),
    }


def test_bytes_equal_those_of_protobuf():
    values = features(np.random.default_rng(1))
    for row, encoded in enumerate(serialized(values)):
        example = tf.train.Example()
        for name in sorted(values):
            feature = example.features.feature[name]
            kind = feature.float_list if name == "weights" else feature.int64_list
            kind.value.extend((values[name][row] + 0).tolist())
        assert tf.train.Example.FromString(encoded) == example
        assert encoded == example.SerializeToString(deterministic=True)


def test_files_equal_those_of_tensorflow(tmp_path):
    records = serialized(features(np.random.default_rng(2)))
    records += [b"four", b"five5", bytes(range(256)) * 9]
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for record in records:
            writer.write(record)
    assert framed(records[:20]) + framed(records[20:]) == (tmp_path / "theirs").read_bytes()
