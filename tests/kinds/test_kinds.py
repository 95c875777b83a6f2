"""The kinds of models name existing model classes."""

from importlib import import_module

import pytest

from bert_keras.kinds.known import KINDS


@pytest.mark.parametrize("name", KINDS)
def test_kinds_name_their_model(name):
    assert getattr(import_module(KINDS[name].module), name).kind is KINDS[name]
