"""Limits check themselves."""

import pytest

from bert_keras.errors import InputError
from bert_keras.serving.limits import Limits


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"max_batch_size": 0}, "a batch of 0 rows holds none"),
        ({"seconds": 0}, "0 seconds are no time limit"),
        ({"seconds": float("nan")}, "nan seconds are no time limit"),
    ],
)
def test_limits_that_are_none(given, sentence):
    with pytest.raises(InputError, match=sentence):
        Limits(**given)
