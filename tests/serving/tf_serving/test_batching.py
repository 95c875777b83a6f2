"""The batching file says what was measured, in words that TF Serving reads."""

import pytest
from google.protobuf import text_format

from bert_keras.serving.tf_serving.batching import batching_file, batching_of
from tests.serving.tf_serving.protos import message


def parsed(found):
    text = batching_file(batching_of(found), found)
    assert max(map(len, text.splitlines())) <= 100
    return text, text_format.Parse(text, message("BatchingParameters"))


def test_the_figures_become_settings(figures):
    text, read = parsed(figures())
    assert read.max_execution_batch_size.value == 8  # 100 texts/s; 16 give 103.2
    assert read.batch_timeout_micros.value == 2000
    assert read.num_batch_threads.value == 2
    assert read.max_enqueued_batches.value == 468  # 30 s of 125 texts/s
    assert read.enable_large_batch_splitting.value
    assert read.max_batch_size.value == 1000
    assert not read.allowed_batch_sizes
    assert not read.pad_variable_length_inputs
    assert "#     8 of 30 words       80.0 ms      100.0 texts/s" in text
    assert "#     8 of 30 words, 2 such batches at once      125.0 texts/s" in text
    assert "#     1 of 110 words       70.0 ms" in text
    assert "must have one length" in text


def test_a_model_that_knows_padding_gets_it(figures):
    text, read = parsed(figures(pads=True))
    assert read.pad_variable_length_inputs
    assert "must have one length" not in text


def test_answers_that_cannot_be_joined_are_not_cut(figures):
    text, read = parsed(figures(splits=False))
    assert read.max_batch_size.value == 8
    assert not read.HasField("enable_large_batch_splitting")
    assert not read.HasField("max_execution_batch_size")
    assert "A larger request is refused" in text


@pytest.mark.parametrize(
    ("rate", "num_enqueued", "largest"),
    [(0.1, 1, 2), (10.0, 150, 300), (5000.0, 75_000, 1000)],
)
def test_a_slow_model_queues_less_and_takes_smaller_requests(figures, rate, num_enqueued, largest):
    """A batch of two is always taken: warm-up requests are as large."""
    _, read = parsed(figures(seconds={1: 1 / rate, 2: 2 / rate}, rates={1: rate}))
    assert read.max_execution_batch_size.value == 2
    assert read.max_enqueued_batches.value == num_enqueued
    assert read.max_batch_size.value == largest
