"""What `write_saved_model` refuses, with a model whose signatures are traced in a moment."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.export import saved_model
from bert_keras.export.saved_model import write_saved_model
from bert_keras.export.servable import Sample, Servable, tensor_specs, text_specs, traced
from bert_keras.export.verify import answer
from bert_keras.models.task_models import BertClassifier
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary

TOKENIZER = WordPieceTokenizer(Vocabulary((*SPECIAL_PIECES, "x")))
CONFIG = BertConfig(vocab_size=6, hidden_size=8, num_layers=1, num_heads=1, max_positions=16)


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(1)
    return BertClassifier(CONFIG, num_labels=2)


def sizes(model, reader, tokenizer) -> Servable:
    """Signatures that tell how long a text is, and the logits of ids."""

    def from_tensors(**inputs):
        return {"logits": model(inputs, training=False)}

    def from_text(text):
        return {"length": tf.strings.length(text)}

    signatures = {
        "serving_default": traced(from_text, **text_specs(["text"])),
        "tensors": traced(from_tensors, **tensor_specs(rank=2)),
    }
    request = {"signature": "serving_default", "inputs": {"text": ["abc"]}}
    return Servable(signatures, [Sample(request, {"length": np.array([3], np.int32)})])


def export(model, folder, **changes):
    parts = {"make": sizes, "tokenizer": TOKENIZER, "max_length": 8, **changes}
    return write_saved_model(model, folder, **parts)


def test_a_version_that_is_there_stays_as_it_is(model, tmp_path):
    (tmp_path / "name" / "1").mkdir(parents=True)
    (tmp_path / "name" / "1" / "saved_model.pb").write_bytes(b"theirs")
    with pytest.raises(InputError, match="name/1 is already there"):
        export(model, tmp_path / "name" / "1")
    assert (tmp_path / "name" / "1" / "saved_model.pb").read_bytes() == b"theirs"


def test_the_loader_that_finds_no_variables_is_noticed(model, tmp_path, monkeypatch):
    """In a fresh process the error is a RuntimeError: see test_verify."""

    class Trap(tf.Module):
        def __init__(self, model, *, text_to_inputs):
            super().__init__()
            self.model, self.text_to_inputs = model, text_to_inputs

    monkeypatch.setattr(saved_model, "ServedModule", Trap)
    with pytest.raises(tf.errors.OpError, match=r"(?s)variable"):
        export(model, tmp_path / "trap" / "1")
    assert not any(tmp_path.iterdir())


def test_answers_that_differ_leave_nothing(model, tmp_path, monkeypatch):
    def answers(folder, requests):
        _, *others = answer(folder, requests)
        return [{"length": [4]}, *others]

    monkeypatch.setattr(saved_model, "answers_in_fresh_process", answers)
    with pytest.raises(RuntimeError, match="serving_default answers with length other than the"):
        export(model, tmp_path / "spoiled" / "1")
    assert not any(tmp_path.iterdir())


def test_a_folder_without_a_version_number_is_refused(model, tmp_path):
    with pytest.raises(InputError, match="name does not end in a version number"):
        export(model, tmp_path / "name")


def test_a_half_precision_model_is_refused(tmp_path):
    half = BertClassifier(CONFIG, num_labels=2, dtype="mixed_bfloat16")
    with pytest.raises(InputError, match="computes in bfloat16; load its weights into a float32"):
        export(half, tmp_path / "half" / "1")


def test_a_larger_vocabulary_is_refused(model, tmp_path):
    tokenizer = WordPieceTokenizer(Vocabulary((*SPECIAL_PIECES, "x", "more")))
    with pytest.raises(InputError, match="the vocabulary has 7 pieces, the model 6"):
        export(model, tmp_path / "name" / "1", tokenizer=tokenizer)
