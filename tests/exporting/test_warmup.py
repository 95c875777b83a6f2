import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from bert_keras.checkpoints.pretrained import save_model
from bert_keras.config import BertConfig, ModelMetadata
from bert_keras.errors import InputError
from bert_keras.exporting.export import export
from bert_keras.exporting.verify import run_requests
from bert_keras.exporting.warmup import (
    WARMUP,
    warmup_requests,
    warmup_requests_for,
    write_warmup,
)
from bert_keras.models import BertClassifier
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

TOKENIZER = WordPieceTokenizer(Vocabulary((*SPECIAL_TOKENS, "the", "film", "of", "it", ".")))


def inputs_of(requests, signature):
    return [each["inputs"] for each in requests if each["signature"] == signature]


class Choices(tf.Module):
    """Signatures of other kinds of models: several choices and serialized examples."""

    def __init__(self):
        super().__init__()
        text = tf.TensorSpec([None], tf.string, "context")
        choices = tf.TensorSpec([None, None], tf.string, "choices")
        tokens = tf.TensorSpec([None, None, None], tf.int32, "input_ids")
        examples = tf.TensorSpec([None], tf.string, "examples")
        self.served = {
            "serving_default": self.of_text.get_concrete_function(text, choices),
            "tensors": self.of_tokens.get_concrete_function(tokens),
            "examples": self.of_examples.get_concrete_function(examples),
        }

    @tf.function
    def of_text(self, context, choices):
        return {"length": tf.strings.length(context) + tf.strings.length(choices)[:, 0]}

    @tf.function
    def of_tokens(self, input_ids):
        return {"length": tf.reduce_sum(input_ids, axis=[1, 2])}

    @tf.function
    def of_examples(self, examples):
        features = {
            "context": tf.io.FixedLenFeature([], tf.string),
            "choices": tf.io.RaggedFeature(tf.string),
        }
        read = tf.io.parse_example(examples, features)
        return {"count": read["choices"].row_lengths(), "context": read["context"]}


@pytest.fixture
def choices(tmp_path):
    module = Choices()
    tf.saved_model.save(module, str(tmp_path / "swag" / "1"), signatures=module.served)
    return tmp_path / "swag" / "1"


def test_requests_for_choices_and_serialized_examples(choices):
    requests = warmup_requests_for(choices, tokenizer=TOKENIZER, max_length=20)
    shapes = [np.shape(inputs["choices"]) for inputs in inputs_of(requests, "serving_default")]
    assert shapes == [(1, 2), (2, 2), (1, 2)]  # the medium length equals the short one
    shapes = [np.shape(inputs["input_ids"]) for inputs in inputs_of(requests, "tensors")]
    assert shapes == [(1, 2, 8), (1, 2, 20)]
    parsed = [
        Choices().of_examples(inputs["examples"]) for inputs in inputs_of(requests, "examples")
    ]
    assert [each["count"].numpy().tolist() for each in parsed] == [[1]]
    assert all(each["context"].numpy()[0].startswith(b"The film") for each in parsed)


def test_the_file_contains_the_logs_that_tf_serving_replays(choices):
    requests = warmup_requests_for(choices, tokenizer=TOKENIZER, max_length=20)
    write_warmup(choices, requests, name="swag")
    records = [*tf.data.TFRecordDataset(str(choices / WARMUP)).as_numpy_iterator()]
    logs = [PredictionLog.FromString(record) for record in records]
    assert len(logs) == len(requests) == 3 + 2 + 1
    for log, request in zip(logs, requests, strict=True):
        message = log.predict_log.request
        assert message.model_spec.name == "swag"
        assert message.model_spec.signature_name == request["signature"]
        for name, tensor in message.inputs.items():
            expected = "int32" if name == "input_ids" else "string"
            assert tf.dtypes.as_dtype(tensor.dtype).name == expected
    for read, request in zip(warmup_requests(choices), requests, strict=True):
        assert read["signature"] == request["signature"]
        assert set(read["inputs"]) == set(request["inputs"])
        for name, values in read["inputs"].items():
            expected = tf.constant(request["inputs"][name]).numpy()
            np.testing.assert_array_equal(values, expected)


@pytest.mark.slow
def test_an_exported_classifier_accepts_warmup_texts_and_tokens_of_all_lengths(tmp_path):
    keras.utils.set_random_seed(1)
    metadata = ModelMetadata(
        model="BertClassifier",
        config=BertConfig(
            vocab_size=10, hidden_size=8, num_layers=1, num_heads=2, max_positions=64
        ),
        lowercase=True,
        max_length=48,
        labels=("no", "yes"),
        text_columns=("one", "other"),
    )
    model = BertClassifier.from_metadata(metadata)
    save_model(model, tmp_path / "model", metadata=metadata, vocabulary=TOKENIZER.vocabulary)
    folder = export(tmp_path / "model", tmp_path / "pairs" / "1")
    requests = warmup_requests(folder)
    shapes = [np.shape(inputs["input_ids"]) for inputs in inputs_of(requests, "tensors")]
    assert shapes == [(1, 8), (1, 12)]
    sizes = [(1, 8), (2, 8), (1, 12), (1, 48)]
    for inputs, (size, length) in zip(inputs_of(requests, "serving_default"), sizes, strict=True):
        assert set(inputs) == {"text", "text_pair"}
        assert inputs["text"].tolist() == [inputs["text"][0]] * size
        (ids,) = TOKENIZER.ids_batch([inputs["text"][0].decode()])
        assert length // 2 - 8 < len(ids) <= length // 2
    served = [each for each in requests if each["signature"] in ("serving_default", "tensors")]
    assert [len(each["label"]) for each in run_requests(folder, served)] == [1, 2, 1, 1, 1, 1]


def test_an_unknown_input_is_refused(tmp_path):
    module = tf.Module()
    spec = tf.TensorSpec([None], tf.float32, "temperature")
    module.answer = tf.function(lambda temperature: {"y": temperature}, input_signature=[spec])
    tf.saved_model.save(module, str(tmp_path / "1"), signatures=module.answer)
    with pytest.raises(RuntimeError, match="serving_default has the input temperature; expected"):
        warmup_requests_for(tmp_path / "1", tokenizer=TOKENIZER, max_length=20)


def test_a_missing_file_is_empty_and_a_damaged_file_is_refused(tmp_path):
    assert warmup_requests(tmp_path) == []
    path = tmp_path / WARMUP
    path.parent.mkdir()
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(b"no PredictionLog")
    with pytest.raises(InputError, match="does not contain complete PredictionLogs; export"):
        warmup_requests(tmp_path)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(InputError, match="does not contain complete PredictionLogs; export"):
        warmup_requests(tmp_path)
    log = PredictionLog()
    values = tf.make_tensor_proto([1, 2])
    values.tensor_shape.dim[0].size = 3
    log.predict_log.request.inputs["x"].CopyFrom(values)
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(log.SerializeToString())
    with pytest.raises(InputError, match="does not contain complete PredictionLogs; export"):
        warmup_requests(tmp_path)
