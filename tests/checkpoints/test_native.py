import dataclasses

import numpy as np
import pytest

from bert_keras.checkpoints.checkpoint import TrainingState
from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.checkpoints.native import STATE
from bert_keras.errors import InputError


def with_state(original, *, step: int):
    """Adam's averages as they might be: small numbers of the weights' own shapes."""
    smaller = {
        name: dataclasses.replace(t, read=lambda t=t: t.read() / 7)
        for name, t in original.tensors.items()
    }
    state = TrainingState(step=step, momentums=original.tensors, velocities=smaller)
    return dataclasses.replace(original, state=state)


def test_weights_and_training_state_are_read_back(checkpoint, tmp_path):
    original = with_state(checkpoint("BertPretrainer"), step=2**24 + 1)
    assert write_checkpoint(original, tmp_path / "a", format="bert-keras") == ()
    files = {path.name for path in (tmp_path / "a").iterdir()}
    assert files == {
        "bert_keras.json",
        "vocab.txt",
        "weights.safetensors",
        "training_state.safetensors",
    }
    back = open_checkpoint(tmp_path / "a")
    assert (back.metadata, back.vocabulary, back.state.step) == (
        original.metadata,
        original.vocabulary,
        2**24 + 1,
    )
    for name, tensor in original.tensors.items():
        np.testing.assert_array_equal(back.tensors[name].read(), tensor.read())
        np.testing.assert_array_equal(back.state.momentums[name].read(), tensor.read())
        np.testing.assert_array_equal(back.state.velocities[name].read(), tensor.read() / 7)
    write_checkpoint(back, tmp_path / "b", format="bert-keras")
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_the_training_state_of_other_weights_is_refused(checkpoint, tmp_path):
    write_checkpoint(
        with_state(checkpoint("BertPretrainer"), step=3), tmp_path / "a", format="bert-keras"
    )
    write_checkpoint(checkpoint("BertEncoder"), tmp_path / "b", format="bert-keras")
    (tmp_path / "a" / "training_state.safetensors").rename(
        tmp_path / "b" / "training_state.safetensors"
    )
    with pytest.raises(InputError, match=r"masked_lm/transform/kernel is unexpected"):
        open_checkpoint(tmp_path / "b")
    (tmp_path / "b" / "weights.safetensors").rename(tmp_path / "b" / STATE)
    with pytest.raises(InputError, match=r"weights.safetensors does not exist; expected a file"):
        open_checkpoint(tmp_path / "b")


def test_a_vocabulary_of_another_size_is_refused(checkpoint, tmp_path):
    write_checkpoint(checkpoint("BertEncoder"), tmp_path / "a", format="bert-keras")
    vocabulary = (tmp_path / "a" / "vocab.txt").read_text()
    (tmp_path / "a" / "vocab.txt").write_text(vocabulary.replace("##d\n##e\n", ""))
    with pytest.raises(
        InputError,
        match=r"18 tokens, but the token table has 20 rows; .* 2 unused tokens: pad_vocabulary=T",
    ):
        open_checkpoint(tmp_path / "a")
    padded = open_checkpoint(tmp_path / "a", pad_vocabulary=True).vocabulary
    assert (len(padded), padded.tokens[:18]) == (20, tuple(vocabulary.split("\n")[:18]))
    (tmp_path / "a" / "vocab.txt").write_text(vocabulary + "more\n")
    for pad_vocabulary in (False, True):
        with pytest.raises(InputError, match=r"21 tokens, .* 20 rows; use the vocabulary"):
            open_checkpoint(tmp_path / "a", pad_vocabulary=pad_vocabulary)


def test_unknown_formats_and_existing_folders_are_refused(checkpoint, tmp_path):
    original = checkpoint("BertEncoder")
    with pytest.raises(InputError, match=r"no format is called 'onnx'; known: bert-keras"):
        write_checkpoint(original, tmp_path / "new", format="onnx")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    with pytest.raises(InputError, match=r"full exists already; choose another name"):
        write_checkpoint(original, tmp_path / "full", format="bert-keras")
