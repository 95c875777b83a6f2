"""Errors of `write_saved_model`, with a model whose signatures are traced quickly."""

import errno

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.exporting import saved_model
from bert_keras.exporting.saved_model import write_saved_model
from bert_keras.exporting.servable import Sample, ServableModel, tensor_specs, text_specs, traced
from bert_keras.exporting.verify import run_requests
from bert_keras.models.task_models import BertClassifier
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

TOKENIZER = WordPieceTokenizer(Vocabulary((*SPECIAL_TOKENS, "x")))
CONFIG = BertConfig(vocab_size=6, hidden_size=8, num_layers=1, num_heads=1, max_positions=16)


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(1)
    return BertClassifier(CONFIG, num_labels=2)


def sizes(model, reader, tokenizer) -> ServableModel:
    """Builds signatures for the length of a text and for the logits of ids."""

    def from_tensors(**inputs):
        return {"logits": model(inputs, training=False)}

    def from_text(text):
        return {"length": tf.strings.length(text)}

    signatures = {
        "serving_default": traced(from_text, **text_specs(["text"])),
        "tensors": traced(from_tensors, **tensor_specs(rank=2)),
    }
    request = {"signature": "serving_default", "inputs": {"text": ["abc"]}}
    return ServableModel(signatures, [Sample(request, {"length": np.array([3], np.int32)})])


def export(model, folder, **changes):
    arguments = {"make": sizes, "tokenizer": TOKENIZER, "max_length": 8, **changes}
    return write_saved_model(model, folder, **arguments)


def test_an_existing_version_is_not_overwritten(model, tmp_path):
    (tmp_path / "name" / "1").mkdir(parents=True)
    (tmp_path / "name" / "1" / "saved_model.pb").write_bytes(b"existing")
    with pytest.raises(InputError, match="name/1 exists already"):
        export(model, tmp_path / "name" / "1")
    assert (tmp_path / "name" / "1" / "saved_model.pb").read_bytes() == b"existing"


def test_a_saved_model_without_loadable_variables_is_refused(model, tmp_path, monkeypatch):
    """In a fresh process the error is a RuntimeError: see test_verify."""

    class TrackedModel(tf.Module):
        def __init__(self, model, *, text_to_inputs):
            super().__init__()
            self.model, self.text_to_inputs = model, text_to_inputs

    monkeypatch.setattr(saved_model, "ServedModule", TrackedModel)
    with pytest.raises(tf.errors.OpError, match=r"(?s)variable"):
        export(model, tmp_path / "name" / "1")
    assert not any(tmp_path.iterdir())


def test_different_outputs_are_refused_and_leave_no_folder(model, tmp_path, monkeypatch):
    def wrong_outputs(folder, requests):
        _, *others = run_requests(folder, requests)
        return [{"length": [4]}, *others]

    monkeypatch.setattr(saved_model, "run_in_fresh_process", wrong_outputs)
    with pytest.raises(RuntimeError, match="output length of the signature serving_default differ"):
        export(model, tmp_path / "name" / "1")
    assert not any(tmp_path.iterdir())


def test_a_disk_that_is_full_before_the_warmup_requests_leaves_no_folder(
    model, tmp_path, monkeypatch
):
    def fail(*_, **__):
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(saved_model, "write_warmup", fail)
    with pytest.raises(OSError, match="No space left") as error:
        export(model, tmp_path / "name" / "1")
    assert (error.value.errno, error.value.filename) == (errno.ENOSPC, str(tmp_path / "name/1"))
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_weight_that_is_not_finite_is_refused(tmp_path, value):
    diverged = BertClassifier(CONFIG, num_labels=2)
    weight = diverged.weights[-1]
    weight.assign([0.5, value])
    with pytest.raises(InputError, match=f"the weight {weight.path} contains NaN or infinity, as"):
        export(diverged, tmp_path / "name" / "1")
    assert not any(tmp_path.iterdir())


def test_a_folder_without_a_version_number_is_refused(model, tmp_path):
    with pytest.raises(InputError, match="name does not end in a version number"):
        export(model, tmp_path / "name")


def test_a_half_precision_model_is_refused(tmp_path):
    half = BertClassifier(CONFIG, num_labels=2, dtype="mixed_bfloat16")
    with pytest.raises(InputError, match="computes in bfloat16; load its weights into a float32"):
        export(half, tmp_path / "half" / "1")


def test_a_larger_vocabulary_is_refused(model, tmp_path):
    tokenizer = WordPieceTokenizer(Vocabulary((*SPECIAL_TOKENS, "x", "more")))
    with pytest.raises(InputError, match="the vocabulary has 7 tokens and the model has 6"):
        export(model, tmp_path / "name" / "1", tokenizer=tokenizer)
