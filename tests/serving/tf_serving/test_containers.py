"""The files that start containers are what Docker, Kubernetes and TF Serving read."""

import subprocess

import pytest
import yaml
from google.protobuf import text_format
from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

from bert_keras.serving.server import running_server
from bert_keras.serving.tf_serving.containers import (
    IMAGE,
    compose_file,
    health_command,
    kubernetes_file,
    models_file,
    monitoring_file,
)
from tests.serving.tf_serving.protos import message


def test_the_model_and_its_versions():
    (model,) = text_format.Parse(
        models_file("My_model.2"), ModelServerConfig()
    ).model_config_list.config
    assert (model.name, model.base_path) == ("My_model.2", "/models/My_model.2")
    assert model.model_platform == "tensorflow"
    assert model.model_version_policy.latest.num_versions == 1


def test_monitoring():
    read = text_format.Parse(monitoring_file(), message("MonitoringConfig")).prometheus_config
    assert read.enable and read.path == "/monitoring/prometheus/metrics"


def test_compose(figures):
    models = "../my $aved models/My_model.2"
    told = yaml.safe_load(compose_file("My_model.2", models=models, found=figures()))
    (service,) = told["services"].values()
    assert list(told["services"]) == ["my-model-2"]
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


def test_kubernetes(figures):
    config = {"models.config": models_file("sst2"), "two.txt": "# a\n\nb { value: 1 }\n"}
    documents = yaml.safe_load_all(kubernetes_file("sst2", found=figures(), config=config))
    files, deployment, service = documents
    assert files["data"] == config
    pod = deployment["spec"]["template"]
    assert pod["metadata"]["labels"] == deployment["spec"]["selector"]["matchLabels"]
    assert pod["metadata"]["labels"] == service["spec"]["selector"]
    (container,) = pod["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/v1/models/sst2", "port": "rest"}
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
def test_the_health_check_tells_whether_a_model_answers(saved, name, code):
    with running_server(saved().parent) as url:
        command = health_command(name, port=int(url.rpartition(":")[2]))
        assert subprocess.run(["bash", "-c", command], timeout=20).returncode == code
    assert subprocess.run(["bash", "-c", command], stderr=subprocess.DEVNULL).returncode != 0
