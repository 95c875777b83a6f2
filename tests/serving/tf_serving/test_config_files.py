"""TF Serving, Docker and Kubernetes can read the configuration files."""

import os
import subprocess

import pytest
import yaml
from google.protobuf import text_format
from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

from bert_keras.cli import main
from bert_keras.errors import InputError
from bert_keras.serving import tf_serving
from bert_keras.serving.server import running_server
from bert_keras.serving.tf_serving.config_files import (
    CONFIG_FILES,
    CONTAINER_FILES,
    IMAGE,
    check_name,
    config_files,
    dns_name,
    health_command,
)
from tests.serving.tf_serving.protos import message


@pytest.fixture
def written(figures):
    """The files of a model whose name and path contain special characters."""
    return config_files("My_model.2", models="../my $aved models/My_model.2", measurement=figures())


def parsed(measurement):
    text = config_files("sst2", models="sst2", measurement=measurement)["batching_parameters.txt"]
    assert max(map(len, text.splitlines())) <= 100
    return text, text_format.Parse(text, message("BatchingParameters"))


def test_the_measurement_determines_the_batching(figures):
    text, read = parsed(figures())
    assert read.max_execution_batch_size.value == 8  # 100 texts/s; 16 give 103.2
    assert read.batch_timeout_micros.value == 2000
    assert read.num_batch_threads.value == 2
    assert read.max_enqueued_batches.value == 468  # 30 s of 125 texts/s
    assert read.enable_large_batch_splitting.value
    assert read.max_batch_size.value == 1000
    assert not read.allowed_batch_sizes
    assert not read.pad_variable_length_inputs
    assert "#     8 of 30 words       80.0 ms      100.0 texts/s" in text
    assert "#     8 of 30 words, 2 such batches at once      125.0 texts/s" in text
    assert "#     1 of 110 words       70.0 ms" in text
    assert "must have one length" in text


def test_a_model_with_a_mask_gets_padding(figures):
    text, read = parsed(figures(can_pad=True))
    assert read.pad_variable_length_inputs
    assert "must have one length" not in text


def test_requests_are_not_split_if_their_outputs_cannot_be_joined(figures):
    text, read = parsed(figures(can_split=False))
    assert read.max_batch_size.value == 8
    assert not read.HasField("enable_large_batch_splitting")
    assert not read.HasField("max_execution_batch_size")
    assert "A larger request is refused" in text


@pytest.mark.parametrize(
    ("rate", "num_enqueued", "largest"),
    [(0.1, 1, 2), (10.0, 150, 300), (5000.0, 75_000, 1000)],
)
def test_a_slow_model_has_a_shorter_queue(figures, rate, num_enqueued, largest):
    """A batch of two is always accepted, because the warm-up requests have two rows."""
    _, read = parsed(figures(seconds={1: 1 / rate, 2: 2 / rate}, rates={1: rate}))
    assert read.max_execution_batch_size.value == 2
    assert read.max_enqueued_batches.value == num_enqueued
    assert read.max_batch_size.value == largest


def test_the_model_and_its_versions(written):
    (model,) = text_format.Parse(
        written["models.config"], ModelServerConfig()
    ).model_config_list.config
    assert (model.name, model.base_path) == ("My_model.2", "/models/My_model.2")
    assert model.model_platform == "tensorflow"
    assert model.model_version_policy.latest.num_versions == 1


def test_monitoring(written):
    read = text_format.Parse(
        written["monitoring.config"], message("MonitoringConfig")
    ).prometheus_config
    assert read.enable and read.path == "/monitoring/prometheus/metrics"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("My_model.2", "my-model-2"),
        ("a-", "a"),
        ("2024.x", "model-2024-x"),
        ("a" * 70, "a" * 63),
        ("a" * 62 + "_b", "a" * 62),
    ],
)
def test_the_name_in_containers_is_a_dns_label(name, expected):
    assert dns_name(name) == expected


def test_compose(written):
    services = yaml.safe_load(written["compose.yaml"])["services"]
    (service,) = services.values()
    assert list(services) == ["my-model-2"]
    assert service["image"] == IMAGE
    assert service["ports"] == ["127.0.0.1:8501:8501", "127.0.0.1:8500:8500"]
    model, config = service["volumes"]
    assert model == {
        "type": "bind",
        "source": "../my $$aved models/My_model.2",
        "target": "/models/My_model.2",
        "read_only": True,
    }
    assert (config["source"], config["target"], config["read_only"]) == (".", "/config", True)
    assert "--batching_parameters_file=/config/batching_parameters.txt" in service["command"]
    assert service["healthcheck"]["test"] == ["CMD", "bash", "-c", health_command("My_model.2")]
    assert service["healthcheck"]["start_period"] == "22s"
    assert service["deploy"]["resources"]["limits"]["memory"] == "1400M"


def test_kubernetes(written):
    files, deployment, service = yaml.safe_load_all(written["kubernetes.yaml"])
    assert files["data"] == {file: written[file] for file in CONFIG_FILES}
    pod = deployment["spec"]["template"]
    assert pod["metadata"]["labels"] == deployment["spec"]["selector"]["matchLabels"]
    assert pod["metadata"]["labels"] == service["spec"]["selector"]
    (container,) = pod["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"] == {
        "path": "/v1/models/My_model.2",
        "port": "rest",
    }
    assert container["resources"] == {
        "requests": {"cpu": "4", "memory": "900Mi"},
        "limits": {"memory": "1400Mi"},
    }
    assert "--tensorflow_intra_op_parallelism=4" in container["args"]
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounted == {"models": "/models", "config": "/config"}
    assert {volume["name"] for volume in pod["spec"]["volumes"]} == set(mounted)
    assert pod["spec"]["volumes"][1]["configMap"]["name"] == files["metadata"]["name"]
    named = {port["name"]: port["containerPort"] for port in container["ports"]}
    for port in service["spec"]["ports"]:
        assert named[port["targetPort"]] == port["port"]


@pytest.mark.parametrize(("name", "code"), [("words", 0), ("other", 1)])
def test_the_health_check_fails_unless_the_model_is_available(saved, name, code):
    with running_server(saved().parent) as url:
        command = health_command(name, port=int(url.rpartition(":")[2]))
        assert subprocess.run(["bash", "-c", command], timeout=20).returncode == code
    assert subprocess.run(["bash", "-c", command], stderr=subprocess.DEVNULL).returncode != 0


@pytest.fixture
def exports(monkeypatch, figures):
    """Replaces export and measurement; returns the list of exported models."""
    exported = []

    def export(model, folder, **_):
        exported.append(model)
        os.makedirs(folder)
        return folder

    monkeypatch.setattr("bert_keras.exporting.export.export", export)
    monkeypatch.setattr(tf_serving.config_files, "measure_version", lambda version: figures())
    return exported


def test_an_export_is_written_with_its_configuration(tmp_path, monkeypatch, exports, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["export", "runs/sst2/model", "sst2", "--serving-config", "serving/sst2"]) == 0
    written = {path.name: path.read_text() for path in (tmp_path / "serving/sst2").iterdir()}
    assert written.keys() == {*CONFIG_FILES, *CONTAINER_FILES}
    (service,) = yaml.safe_load(written["compose.yaml"])["services"].values()
    assert service["volumes"][0]["source"] == "../../saved_models/sst2"
    configs = next(yaml.safe_load_all(written["kubernetes.yaml"]))["data"]
    assert configs == {name: written[name] for name in configs} and configs.keys() == set(
        CONFIG_FILES
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "saved_models/sst2/1"
    assert lines[-1].endswith("docker compose -f serving/sst2/compose.yaml up")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("sst2 --serving-config taken", "taken exists already; choose another name"),
        ("größe --serving-config new", "the model's name is 'größe'; the configuration files"),
    ],
)
def test_invalid_options_are_refused_before_the_export(
    tmp_path, monkeypatch, exports, capsys, arguments, expected
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine").touch()
    assert main(f"export model {arguments}".split()) == 2
    assert expected in capsys.readouterr().err
    assert not exports


@pytest.mark.parametrize("name", ["a b", "größe", "-x", 'x"', "a/b", "", "_f"])
def test_names_that_are_invalid_in_the_files_are_refused(name):
    with pytest.raises(InputError, match="allow a letter or digit"):
        check_name(name)
    check_name("Sst-2_b.1")
