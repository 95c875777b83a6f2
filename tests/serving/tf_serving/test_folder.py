"""`bert-keras export --serving-config`: files beside the models, which move with them."""

import os

import pytest
import yaml

from bert_keras.cli import main
from bert_keras.errors import InputError
from bert_keras.serving.tf_serving import folder as config_folder
from bert_keras.serving.tf_serving.folder import check_name

FILES = {
    "models.config",
    "batching_parameters.txt",
    "monitoring.config",
    "compose.yaml",
    "kubernetes.yaml",
}


@pytest.fixture
def exports(monkeypatch, figures):
    """`export` without a model and a measurement: what was asked for."""
    asked = []

    def export_model(model, folder, *, num_texts):
        asked.append(model)
        os.makedirs(folder)
        return folder

    monkeypatch.setattr("bert_keras.export.model_folder.export_model", export_model)
    monkeypatch.setattr(config_folder, "measured", lambda version: figures())
    return asked


def test_an_export_is_written_with_what_starts_it(tmp_path, monkeypatch, exports, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["export", "runs/sst2/model", "sst2", "--serving-config", "serving/sst2"]) == 0
    written = {path.name: path.read_text() for path in (tmp_path / "serving/sst2").iterdir()}
    assert set(written) == FILES
    (service,) = yaml.safe_load(written["compose.yaml"])["services"].values()
    assert service["volumes"][0]["source"] == "../../saved_models/sst2"
    configs = next(yaml.safe_load_all(written["kubernetes.yaml"]))["data"]
    assert configs == {name: written[name] for name in configs} and len(configs) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "saved_models/sst2/1"
    assert lines[-1].endswith("docker compose -f serving/sst2/compose.yaml up")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("sst2 --serving-config taken", "taken is already there; choose another name"),
        ("größe --serving-config new", "the model's name is 'größe'; for files of TF Serving"),
    ],
)
def test_what_cannot_be_written_is_told_before_the_export(
    tmp_path, monkeypatch, exports, capsys, arguments, said
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine").touch()
    assert main(f"export model {arguments}".split()) == 2
    assert said in capsys.readouterr().err
    assert not exports


@pytest.mark.parametrize("name", ["a b", "größe", "-x", 'x"', "a/b", ""])
def test_names_that_the_files_cannot_hold(name):
    with pytest.raises(InputError, match="it must be of letters"):
        check_name(name)
    check_name("Sst-2_b.1")
