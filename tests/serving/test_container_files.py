"""TF Serving, Docker and Kubernetes can read the files of `export --serving-config`."""

import subprocess

import pytest
import yaml
from google.protobuf import text_format
from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

from bert_keras.cli import main
from bert_keras.serving.container_files import CONFIG_FILES, CONTAINER_FILES, write_container_files

IMAGE = "tensorflow/serving:2.20.0"  # the oldest one, whose ops exporting/serving_ops.py lists


def written_files(model_folder, folder):
    folder.mkdir(parents=True)
    write_container_files(model_folder, folder)
    return {path.name: path.read_text() for path in folder.iterdir()}


def compose_service(files):
    (service,) = yaml.safe_load(files["compose.yaml"])["services"].values()
    return service


def test_the_files_of_a_model_whose_name_and_path_have_special_characters(tmp_path):
    files = written_files(tmp_path / "my $aved models" / "2024.My_model", tmp_path / "files")
    configs = text_format.Parse(files["models.config"], ModelServerConfig())
    (model,) = configs.model_config_list.config
    assert (model.name, model.base_path) == ("2024.My_model", "/models/2024.My_model")
    assert model.model_version_policy.latest.num_versions == 1
    assert 'path: "/monitoring/prometheus/metrics"' in files["monitoring.config"]
    lines = files["batching_parameters.txt"].splitlines()
    fields = dict(line.split(maxsplit=1) for line in lines if not line.startswith("#"))
    assert fields["max_batch_size"] == "{ value: 32 }"  # at least the 2 of the warm-up requests

    assert list(yaml.safe_load(files["compose.yaml"])["services"]) == ["model-2024-my-model"]
    service = compose_service(files)
    assert service["image"] == IMAGE
    model, config = service["volumes"]
    assert model["source"] == "../my $$aved models/2024.My_model"
    assert (model["target"], config["target"]) == ("/models/2024.My_model", "/config")
    assert "--batching_parameters_file=/config/batching_parameters.txt" in service["command"]
    kserve = yaml.safe_load(files["kserve.yaml"])["spec"]["predictor"]["model"]
    assert kserve["storageUri"] == "pvc://saved-models/2024.My_model"
    assert IMAGE.endswith(f":{kserve['runtimeVersion']}")
    config_map, deployment, service = yaml.safe_load_all(files["kubernetes.yaml"])
    assert config_map["data"] == {file: files[file] for file in CONFIG_FILES}
    pod = deployment["spec"]["template"]
    assert pod["metadata"]["labels"] == deployment["spec"]["selector"]["matchLabels"]
    assert pod["metadata"]["labels"] == service["spec"]["selector"]
    (container,) = pod["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/v1/models/2024.My_model"
    assert pod["spec"]["volumes"][1]["configMap"]["name"] == config_map["metadata"]["name"]


@pytest.mark.parametrize(("name", "code"), [("keras_tiny", 0), ("other", 1)])
def test_the_health_check_fails_unless_the_model_is_available(server_of, tmp_path, name, code):
    files = written_files(tmp_path / name, tmp_path / "files")
    *_, command = compose_service(files)["healthcheck"]["test"]
    command = command.replace("8501", server_of("keras_tiny").rpartition(":")[2])
    assert subprocess.run(["bash", "-c", command], timeout=20).returncode == code


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "bert_keras.exporting.export.export",
        lambda model, folder, **_: folder.mkdir(parents=True) or folder,
    )
    assert main(["export", "model", "sst2", "--serving-config", "serving/sst2"]) == 0
    written = {path.name: path.read_text() for path in (tmp_path / "serving/sst2").iterdir()}
    assert written.keys() == {*CONFIG_FILES, *CONTAINER_FILES}
    assert compose_service(written)["volumes"][0]["source"] == "../../saved_models/sst2"
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "saved_models/sst2/1"
    assert lines[-1].endswith("docker compose -f serving/sst2/compose.yaml up")
