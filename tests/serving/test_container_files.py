"""TF Serving, Docker and Kubernetes can read the files of `export --serving-config`."""

import json
import shlex
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml
from google.protobuf import text_format
from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

from bert_keras.serving import container_files
from bert_keras.serving.version_folder import METADATA

IMAGE = f"tensorflow/serving:{container_files.IMAGE_VERSION}"
KSERVE_SCHEMA = Path(__file__).with_name("schemas") / "kserve.json"  # of the public documentation


def written_files(model_folder, folder):
    folder.mkdir(parents=True)
    container_files.write_container_files(model_folder, folder)
    return {path.name: path.read_text() for path in folder.iterdir()}


def compose_service(files):
    (service,) = yaml.safe_load(files["compose.yaml"])["services"].values()
    return service


def test_the_files_of_a_model_whose_name_and_path_have_special_characters(tmp_path):
    files = written_files(tmp_path / "my $aved models" / "2024.My_model", tmp_path / "files")
    assert files.keys() == {*container_files.CONFIG_FILES, *container_files.CONTAINER_FILES}
    configs = text_format.Parse(files["models.config"], ModelServerConfig())
    (model,) = configs.model_config_list.config
    assert (model.name, model.base_path) == ("2024.My_model", "/models/2024.My_model")
    assert model.model_version_policy.latest.num_versions == 1
    assert 'path: "/monitoring/prometheus/metrics"' in files["monitoring.config"]
    lines = files["batching_parameters.txt"].splitlines()
    fields = dict(line.split(maxsplit=1) for line in lines if not line.startswith("#"))
    assert fields["max_batch_size"] == "{ value: 32 }"

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
    assert config_map["data"] == {file: files[file] for file in container_files.CONFIG_FILES}
    pod, selectors = deployment["spec"]["template"], deployment["spec"]["selector"]
    labels = pod["metadata"]["labels"]
    assert labels == selectors["matchLabels"] == service["spec"]["selector"]
    (container,) = pod["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/v1/models/2024.My_model"
    assert pod["spec"]["volumes"][1]["configMap"]["name"] == config_map["metadata"]["name"]


@pytest.mark.parametrize(("name", "code"), [("keras_tiny", 0), ("other", 1)])
def test_the_health_check_fails_unless_the_model_is_available(server_of, tmp_path, name, code):
    files = written_files(tmp_path / name, tmp_path / "files")
    *_, command = compose_service(files)["healthcheck"]["test"]
    command = command.replace("8501", server_of("keras_tiny").rpartition(":")[2])
    assert subprocess.run(["bash", "-c", command], timeout=20).returncode == code


def test_instructions_of_an_export(tmp_path):
    example = {"instance": {"question": "who's", "context": "é"}}
    example["prediction"] = {"embedding": [0.123456, *range(400)]}
    (tmp_path / "sst2" / "1" / METADATA).parent.mkdir(parents=True)
    (tmp_path / "sst2" / "1" / METADATA).write_text(json.dumps({"example": example}))
    lines = container_files.instructions(tmp_path / "sst2" / "1").splitlines()
    assert lines[0] == "Serve it:" and "docker" not in lines[1]  # TF Serving needs a SavedModel
    (tmp_path / "sst2" / "1" / "saved_model.pb").touch()
    lines = container_files.instructions(tmp_path / "sst2" / "1").splitlines()
    assert f":{container_files.IMAGE_VERSION}" in lines[1]
    body = json.dumps({"instances": [example["instance"]]}, ensure_ascii=False)
    assert shlex.split(lines[-3])[:3] == ["curl", "-d", body]
    assert lines[-1].strip() == '{"predictions": [[0.1235, 0, 1, 2, 3, ...]]}'


def test_the_script_for_vertex_builds_pushes_and_uploads_one_image(tmp_path):
    files = written_files(tmp_path / "saved models" / "2024.My_model", tmp_path / "files")
    copy = next(line for line in files["Dockerfile"].splitlines() if line.startswith("COPY"))
    assert json.loads(copy.removeprefix("COPY")) == ["2024.My_model", "/models/2024.My_model"]
    for program in ("docker", "gcloud"):
        path = tmp_path / program
        path.write_text(f'#!/bin/bash\necho {program} "$@" >> "$LOG"\n')
        path.chmod(0o755)
    variables = {"PROJECT": "mine", "REGION": "europe-west4", "REPOSITORY": "models"}
    environment = {**variables, "LOG": str(tmp_path / "log"), "PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run(["bash", tmp_path / "files" / "vertex.sh"], env=environment, check=True)
    build, push, upload = (tmp_path / "log").read_text().splitlines()
    image = "europe-west4-docker.pkg.dev/mine/models/model-2024-my-model:latest"
    assert image in build and build.endswith(" ../saved models")
    assert push == f"docker push {image}"
    flags = dict(flag[2:].split("=") for flag in upload.split() if flag.startswith("--"))
    assert (flags["container-image-uri"], flags["container-ports"]) == (image, "8501")
    assert flags["container-health-route"] == "/v1/models/2024.My_model"
    assert flags["container-predict-route"] == "/v1/models/2024.My_model:predict"


@pytest.mark.extra
def test_the_manifests_have_the_fields_of_compose_and_kserve(tmp_path):
    check_jsonschema = pytest.importorskip("check_jsonschema", reason="of the extra test")
    files = written_files(tmp_path / "saved_models" / "sst2", tmp_path / "files")
    builtin = Path(check_jsonschema.__file__).parent / "builtin_schemas/vendor/compose-spec.json"
    for file, path in ("compose.yaml", builtin), ("kserve.yaml", KSERVE_SCHEMA):
        jsonschema.validate(yaml.safe_load(files[file]), json.loads(path.read_text("utf-8")))
