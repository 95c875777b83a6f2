"""Classifiers that 0.2.0 wrote, whose configuration may name a pooling of windows."""

import pytest

from bert_keras.errors import InputError
from bert_keras.models import BertClassifier
from tests.factories import random_metadata, random_model


def test_the_pooling_of_windows_in_a_configuration_is_ignored():
    model = random_model("BertClassifier")
    config = {**model.get_config(), "window_pooling": "mean"}
    assert BertClassifier.from_config(config).get_config() == model.get_config()


def test_a_model_that_reads_windows_is_refused():
    metadata = random_metadata("BertClassifier", task={"long_texts": "mean"})
    with pytest.raises(InputError, match="long_texts=mean"):
        BertClassifier.from_metadata(metadata)
