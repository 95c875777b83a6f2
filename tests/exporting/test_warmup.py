"""Warm-up requests: which ones a model gets, and their file."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from bert_keras.exporting.verify import run_requests
from bert_keras.exporting.version_folder import WARMUP
from bert_keras.models import BertClassifier, BertMultipleChoice
from bert_keras.serving.model import LoadError
from bert_keras.serving.versions import warmup_requests
from bert_keras.text.tokenizer import WordPieceTokenizer
from tests.factories import tiny_config, tiny_vocabulary

TOKENIZER = WordPieceTokenizer(tiny_vocabulary())


@pytest.fixture(scope="module", params=["pairs", "choices"])
def folder(request, tmp_path_factory):
    if request.param == "pairs":
        model, options = BertClassifier(tiny_config(), num_labels=2), {"num_texts": 2}
    else:
        model, options = BertMultipleChoice(tiny_config()), {}
    folder = tmp_path_factory.mktemp("saved_models") / request.param / "1"
    return model.export(folder, tokenizer=TOKENIZER, max_length=48, **options)


def test_texts_and_tokens_of_several_lengths(folder):
    requests = warmup_requests(folder)
    groups = () if folder.parent.name == "pairs" else (2,)

    def inputs_of(signature):
        return [each["inputs"] for each in requests if each["signature"] == signature]

    shapes = [np.shape(each["input_ids"]) for each in inputs_of("tensors")]
    assert shapes == [(1, *groups, 8), (1, *groups, 12)]
    texts = inputs_of("serving_default")
    first, other = ("text", "text_pair") if not groups else ("context", "choices")
    assert [each[other].shape for each in texts] == [(size, *groups) for size in (1, 2, 1, 1)]
    for each, length in zip(texts, (8, 8, 12, 48), strict=True):
        (ids,) = TOKENIZER.ids_batch([each[first][0].decode()])
        assert length // 2 - 8 < len(ids) <= length // 2
    (examples,) = inputs_of("examples")
    example = tf.train.Example.FromString(examples["examples"][0])
    assert set(example.features.feature) == {first, other}
    assert len(run_requests(folder, requests)) == len(requests)


def test_the_file_contains_the_logs_that_tf_serving_replays(folder):
    records = [*tf.data.TFRecordDataset(str(folder / WARMUP)).as_numpy_iterator()]
    for record, request in zip(records, warmup_requests(folder), strict=True):
        message = PredictionLog.FromString(record).predict_log.request
        assert message.model_spec.name == folder.parent.name
        assert message.model_spec.signature_name == request["signature"]
        for name, tensor in message.inputs.items():
            is_text = name not in ("input_ids", "input_mask", "segment_ids")
            assert tf.dtypes.as_dtype(tensor.dtype) == (tf.string if is_text else tf.int32)


def test_a_missing_file_is_empty_and_a_damaged_file_is_refused(folder, tmp_path):
    assert warmup_requests(tmp_path) == []
    path = tmp_path / WARMUP
    path.parent.mkdir()
    log = PredictionLog()
    values = tf.make_tensor_proto([1, 2])
    values.tensor_shape.dim[0].size = 3
    log.predict_log.request.inputs["x"].CopyFrom(values)
    for record in (b"no PredictionLog", log.SerializeToString()):
        with tf.io.TFRecordWriter(str(path)) as writer:
            writer.write(record)
        with pytest.raises(LoadError, match="complete PredictionLogs"):
            warmup_requests(tmp_path)
    path.write_bytes((folder / WARMUP).read_bytes()[:-3])
    with pytest.raises(LoadError, match="complete PredictionLogs"):
        warmup_requests(tmp_path)
