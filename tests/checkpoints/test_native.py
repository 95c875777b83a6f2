"""The native format, tensors that stay in their files, and the README.md of a folder."""

import os

import numpy as np
import pytest

from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.checkpoints.native import read_metadata
from bert_keras.checkpoints.pretrained import save_model
from bert_keras.checkpoints.tensors import StoredTensor, join_tensors, stored_tensors, write_tensors
from bert_keras.errors import InputError
from bert_keras.models.loading import MODELS, load_model
from tests.checkpoints.conftest import assert_same_files, change_json
from tests.checkpoints.test_conversion import with_state
from tests.factories import assert_same_tensors, random_checkpoint, random_model

NATIVE_FILES = ("bert_keras.json", "vocab.txt", "weights.safetensors")


@pytest.mark.parametrize("model", MODELS)
def test_weights_and_training_state_are_read_back(tmp_path, model):
    original = with_state(random_checkpoint(model), step=2**24 + 1)
    assert write_checkpoint(original, tmp_path / "a", format="bert-keras") == ()
    assert {*os.listdir(tmp_path / "a")} == {*NATIVE_FILES, "training_state.safetensors"}
    back = open_checkpoint(tmp_path / "a")
    assert (back.metadata, back.vocabulary) == (original.metadata, original.vocabulary)
    assert back.state.step == original.state.step
    for tensors in (back.tensors, back.state.momentums, back.state.velocities):
        assert_same_tensors(tensors, original.tensors)
    write_checkpoint(back, tmp_path / "b", format="bert-keras")
    assert_same_files(tmp_path / "a", tmp_path / "b")
    assert not load_model(tmp_path / "a").load_report.unused


@pytest.mark.parametrize(
    "changes",
    [
        *({"model": "BertParser"}, {"labels": None}, {"labels": [1, 2, 3]}, {"labels": ["a", "a"]}),
        *({"max_length": 1000}, {"max_length": "12"}, {"lowercase": 1}, {"task": [1]}),
        {"config": {"num_layers": 2, "colour": "blue"}},
    ],
)
def test_damaged_metadata_are_refused(tmp_path, changes):
    write_checkpoint(random_checkpoint("BertClassifier"), tmp_path / "a", format="bert-keras")
    change_json(tmp_path / "a" / "bert_keras.json", **changes)
    with pytest.raises(ValueError):
        load_model(tmp_path / "a")


@pytest.mark.parametrize("name", ["training.log", ".git"])
def test_a_folder_is_only_overwritten_if_it_contains_nothing_but_a_model(tmp_path, name):
    models = [random_model("BertClassifier", labels=labels) for labels in (("a", "b"), ("c", "d"))]
    for model in models:
        model.save_pretrained(tmp_path / "a", overwrite=True)
    assert read_metadata(tmp_path / "a").labels == ("c", "d")
    (tmp_path / "a" / name).mkdir()
    with pytest.raises(InputError):
        models[0].save_pretrained(tmp_path / "a", overwrite=True)
    (tmp_path / "a" / name).rmdir()
    with pytest.raises(InputError):
        models[0].save_pretrained(tmp_path / "a")
    assert read_metadata(tmp_path / "a").labels == ("c", "d")


def test_transposed_split_and_joined_arrays(tmp_path):
    array = np.random.default_rng(0).normal(size=(132, 7)).astype("float32")
    write_tensors(tmp_path / "x.safetensors", {"a": StoredTensor(array.shape, lambda: array)})
    stored = stored_tensors(tmp_path / "x.safetensors")["a"]
    np.testing.assert_array_equal(stored.transposed().read(), array.T)
    parts = stored.split(3)
    np.testing.assert_array_equal(parts[1].read(), array[44:88])
    np.testing.assert_array_equal(parts[2].transposed().read(), array[88:].T)
    np.testing.assert_array_equal(join_tensors(parts).read(), array)


def test_the_readme_of_a_folder(tmp_path):
    model = random_model("BertClassifier", max_length=64, labels=("sport", "trade"))
    sections = {"Recipe": {"num_epochs": 3}, "Scores": {"accuracy": 0.9}}
    folder, metadata = tmp_path / "topics" / "model", model.metadata
    save_model(model, folder, metadata=metadata, vocabulary=None, sections=sections)
    text = (folder / "README.md").read_text("utf-8")
    for line in (
        *("# topics", "## Recipe", "| num_epochs | 3 |", "| accuracy | 0.9 |"),
        *("| longest input | 64 tokens |", "| texts | question, answer |"),
        *("| labels | sport, trade |", 'model = BertClassifier.from_pretrained("topics")'),
    ):
        assert f"\n{line}\n" in f"\n{text}", line
    assert "\n\n\n" not in text
