"""TF Serving, Docker and Kubernetes can read the files of `export --serving-config`."""

import subprocess

import pytest
import yaml
from google.protobuf import text_format
from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

from bert_keras.cli import main
from bert_keras.serving.container_files import (
    CONFIG_FILES,
    CONTAINER_FILES,
    write_container_files,
)

IMAGE = "tensorflow/serving:2.20.0"  # the oldest one, whose ops exporting/serving_ops.py lists


def written_files(model_folder, folder):
    folder.mkdir(parents=True)
    write_container_files(model_folder, folder)
    return {path.name: path.read_text() for path in folder.iterdir()}


def compose_service(files):
    (service,) = yaml.safe_load(files["compose.yaml"])["services"].values()
    return service


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The files of a model whose name and path contain special characters."""
    root = tmp_path_factory.mktemp("root")
    return written_files(root / "my $aved models" / "My_model.2", root / "files")


def test_the_files_of_tf_serving(written):
    configs = text_format.Parse(written["models.config"], ModelServerConfig())
    (model,) = configs.model_config_list.config
    assert (model.name, model.base_path) == ("My_model.2", "/models/My_model.2")
    assert model.model_version_policy.latest.num_versions == 1
    assert 'path: "/monitoring/prometheus/metrics"' in written["monitoring.config"]
    lines = written["batching_parameters.txt"].splitlines()
    fields = dict(line.split(maxsplit=1) for line in lines if not line.startswith("#"))
    assert fields["max_batch_size"] == "{ value: 32 }"  # at least the 2 of the warm-up requests


@pytest.mark.parametrize(
    ("name", "expected"),
    [("My_model.2", "my-model-2"), ("2024.x", "model-2024-x"), ("a" * 62 + "_b", "a" * 62)],
)
def test_the_name_in_containers_is_a_dns_label(tmp_path, name, expected):
    files = written_files(tmp_path / name, tmp_path / "files")
    assert list(yaml.safe_load(files["compose.yaml"])["services"]) == [expected]


def test_docker_and_kserve(written):
    service = compose_service(written)
    assert service["image"] == IMAGE
    assert service["ports"] == ["127.0.0.1:8501:8501", "127.0.0.1:8500:8500"]
    model, config = service["volumes"]
    assert model["source"] == "../my $$aved models/My_model.2"
    assert (model["target"], model["read_only"]) == ("/models/My_model.2", True)
    assert (config["source"], config["target"], config["read_only"]) == (".", "/config", True)
    assert "--batching_parameters_file=/config/batching_parameters.txt" in service["command"]
    kserve = yaml.safe_load(written["kserve.yaml"])["spec"]["predictor"]["model"]
    assert kserve["storageUri"] == "pvc://saved-models/My_model.2"
    assert IMAGE.endswith(f":{kserve['runtimeVersion']}")


def test_kubernetes(written):
    files, deployment, service = yaml.safe_load_all(written["kubernetes.yaml"])
    assert files["data"] == {file: written[file] for file in CONFIG_FILES}
    pod = deployment["spec"]["template"]
    assert pod["metadata"]["labels"] == deployment["spec"]["selector"]["matchLabels"]
    assert pod["metadata"]["labels"] == service["spec"]["selector"]
    (container,) = pod["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/v1/models/My_model.2"
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounted == {"models": "/models", "config": "/config"}
    assert pod["spec"]["volumes"][1]["configMap"]["name"] == files["metadata"]["name"]


@pytest.mark.parametrize(("name", "code"), [("keras_tiny", 0), ("other", 1)])
def test_the_health_check_fails_unless_the_model_is_available(server_of, tmp_path, name, code):
    files = written_files(tmp_path / name, tmp_path / "files")
    *_, command = compose_service(files)["healthcheck"]["test"]
    command = command.replace("8501", server_of("keras_tiny").rpartition(":")[2])
    assert subprocess.run(["bash", "-c", command], timeout=20).returncode == code


def test_the_command(tmp_path, monkeypatch, capsys):
    exported = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "bert_keras.exporting.export.export",
        lambda model, folder, **_: exported.append(folder.mkdir(parents=True)) or folder,
    )
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine").touch()
    for arguments, word in (
        ("sst2 --serving-config taken", "taken"),
        ("ß --serving-config n", "ß"),
    ):
        assert main(f"export model {arguments}".split()) == 2
        assert word in capsys.readouterr().err
    assert not exported  # the long export comes after the checks
    assert main(["export", "model", "sst2", "--serving-config", "serving/sst2"]) == 0
    written = {path.name: path.read_text() for path in (tmp_path / "serving/sst2").iterdir()}
    assert written.keys() == {*CONFIG_FILES, *CONTAINER_FILES}
    assert compose_service(written)["volumes"][0]["source"] == "../../saved_models/sst2"
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "saved_models/sst2/1"
    assert lines[-1].endswith("docker compose -f serving/sst2/compose.yaml up")
