"""Names of presets and handles, whose files a replaced download function finds on this machine."""

import dataclasses
import json
import shutil
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
from keras_hub.src.utils import preset_utils

from bert_keras.checkpoints.formats import absolute_path, open_checkpoint, write_checkpoint
from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.checkpoints.weight_rows import rows
from bert_keras.cli import main
from bert_keras.embedding import DenseModule, EmbeddingConfig, NormalizeModule
from bert_keras.errors import InputError
from bert_keras.models import BertMaskedLM, load_model

FIXTURES = Path(__file__).parent / "fixtures" / "keras_hub"
NAME = "bert_base_en_uncased"


@pytest.fixture(autouse=True)
def server(tmp_path, monkeypatch):
    """The folder whose files are those of every preset; Hugging Face's server is not asked."""
    folder = tmp_path / "server"
    asked = []

    def get_file(preset, path):
        asked.append(preset)
        if not (folder / path).is_file():
            raise FileNotFoundError(f"`{path}` doesn't exist in preset directory `{preset}`.")
        return str(folder / path)

    class Session:
        def head(self, url, *, timeout):
            raise ConnectionError("refused")

    monkeypatch.setattr(preset_utils, "get_file", get_file)
    monkeypatch.setattr(huggingface_hub, "get_session", Session)
    monkeypatch.chdir(tmp_path)
    return folder, asked


@pytest.mark.parametrize("name", [NAME, "kaggle://a/b/keras/c", "hf://user/model"])
def test_a_preset_is_read_by_its_name(server, name, capsys):
    shutil.copytree(FIXTURES / "masked_lm", server[0])
    model, expected = BertMaskedLM.from_pretrained(name), load_model(FIXTURES / "masked_lm")
    assert model.metadata == expected.metadata and set(server[1]) == {name}
    for weight, other in zip(model.weights, expected.weights, strict=True):
        np.testing.assert_array_equal(weight, other)
    assert main(["convert", name, "converted"]) == 0
    assert open_checkpoint("converted").metadata == model.metadata


def test_all_shards_are_downloaded(server, monkeypatch):
    shutil.copytree(FIXTURES / "masked_lm", server[0])
    (server[0] / "model.weights.h5").rename(server[0] / "model_00000.weights.h5")
    files, get_file = [], preset_utils.get_file
    weight_map = {"weight_map": {"/layers": ["model_00000.weights.h5"]}}
    (server[0] / "model.weights.json").write_text(json.dumps(weight_map))
    monkeypatch.setattr(
        preset_utils, "get_file", lambda name, path: [files.append(path), get_file(name, path)][1]
    )
    assert open_checkpoint(NAME).metadata.model == "BertMaskedLM"
    assert "model_00000.weights.h5" in files


def test_a_handle_may_name_files_of_transformers(server, checkpoint):
    original = checkpoint("BertClassifier")
    write_checkpoint(original, server[0], format="huggingface")
    assert open_checkpoint("hf://user/model").metadata == original.metadata


def test_a_handle_may_name_files_of_sentence_transformers(server, checkpoint, monkeypatch):
    original = checkpoint("BertSentenceEncoder")
    dense = EmbeddingConfig(
        pooling=("cls",), modules=(DenseModule(units=8, has_bias=False), NormalizeModule())
    )
    metadata = dataclasses.replace(original.metadata, embedding=dense)
    row = {row.name: row for row in rows(metadata)}["sentence/dense_0/kernel"]
    weights = StoredTensor(row.shape, lambda: np.ones(row.shape, "float32"))
    tensors = {**original.tensors, row.name: weights}
    original = dataclasses.replace(original, metadata=metadata, tensors=tensors)
    write_checkpoint(original, server[0], format="sentence-transformers")
    downloads, get_file = server[0].with_name("downloads"), preset_utils.get_file

    def download(name, path):
        file = downloads / path
        file.parent.mkdir(parents=True, exist_ok=True)
        return str(shutil.copyfile(get_file(name, path), file))

    monkeypatch.setattr(preset_utils, "get_file", download)
    read = open_checkpoint("hf://user/model")
    assert read.metadata == metadata and {*read.tensors} == {*original.tensors}


def test_an_existing_folder_precedes_the_preset(server, checkpoint):
    write_checkpoint(checkpoint("BertEncoder"), NAME, format="bert-keras")
    assert open_checkpoint(NAME).metadata.model == "BertEncoder" and server[1] == []
    assert absolute_path(NAME) == str(Path(NAME).absolute())


def test_paths_are_absolute_and_names_stay():
    assert [absolute_path(name) for name in (NAME, "hf://a/b")] == [NAME, "hf://a/b"]
    assert absolute_path("bert-base") == str(Path("bert-base").absolute())


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (NAME, "`config.json` doesn't exist in preset directory `bert_base_en_uncased`."),
        ("hf://user/model", "https://huggingface.co cannot be reached: refused"),
    ],
)
def test_a_preset_that_cannot_be_downloaded_is_one_sentence(name, reason, capsys):
    assert main(["convert", name, "converted"]) == 2
    assert capsys.readouterr().err == (
        f"bert-keras convert: {name} is no folder, and as a preset of KerasHub it could not be "
        f"downloaded ({reason}); check its name and the network, or give the folder of a "
        "checkpoint on this machine\n"
    )


@pytest.mark.parametrize("name", ["bert_bse_en", "runs/bert_base_en", "bert-base"])
def test_a_mistyped_folder_does_not_exist(server, name):
    with pytest.raises(InputError, match=f"^{name} does not exist; expected the folder of a che"):
        open_checkpoint(name)
    assert server[1] == []
