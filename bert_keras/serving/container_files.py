"""Writes the files that run TF Serving with an exported model in Docker, Kubernetes or KServe."""

import json
import os
import re
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from bert_keras.errors import check
from bert_keras.serving.monitoring import METRICS_PATH

IMAGE = "tensorflow/serving:2.20.0"  # bert_keras/exporting/serving_ops.py checks models for its ops
CONFIG_FILES = ("models.config", "batching_parameters.txt", "monitoring.config")
CONTAINER_FILES = ("compose.yaml", "kubernetes.yaml", "kserve.yaml")
# Port 8500 is gRPC and 8501 is REST; both open after every model has run its warm-up requests.
_FLAGS = (
    "--model_config_file=/config/models.config",
    "--monitoring_config_file=/config/monitoring.config",
    "--enable_batching=true",
    "--batching_parameters_file=/config/batching_parameters.txt",
)


def write_container_files(model_folder: str | os.PathLike, folder: str | os.PathLike) -> None:
    """Writes the files for a model into an existing folder.

    Args:
        model_folder: saved_models/NAME.
        folder: The folder for the files, which refer to `model_folder` by a relative path.
    """
    model, folder = Path(model_folder).resolve(), Path(folder).resolve()
    for name, text in container_files(model.name, models=os.path.relpath(model, folder)).items():
        (folder / name).write_text(text, encoding="utf-8")


def check_name(name: str) -> None:
    """Raises InputError for a model name that is not valid in the files."""
    check(
        re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]*", name),
        f"the model's name is {name!r}; the files of --serving-config allow a letter or digit, "
        "followed by letters, digits, '.', '_' and '-'",
    )


def container_files(name: str, *, models: str) -> dict[str, str]:
    """Renders the templates.

    Args:
        name: Name of the model.
        models: Path from the folder of the files to saved_models/NAME.

    Returns:
        The texts of the files, by file name.
    """
    templates = Environment(
        loader=PackageLoader("bert_keras.serving"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    values = {
        "name": name,
        "dns_name": dns_name(name),
        "models": json.dumps(models.replace("$", "$$")),
        "image": IMAGE,
        "flags": _FLAGS,
        "monitoring_path": METRICS_PATH,
        "health_command": health_command(name),
    }

    def text(file: str, **more: object) -> str:
        return templates.get_template(file).render(**values, **more)

    config = {file: text(file) for file in CONFIG_FILES}
    return {**config, **{file: text(file, config=config) for file in CONTAINER_FILES}}


def dns_name(name: str) -> str:
    """Returns the model's name as a name of a Kubernetes service: a DNS label (RFC 1035)."""
    label = re.sub("[^a-z0-9]+", "-", name.lower())
    return (label if label[0].isalpha() else f"model-{label}")[:63].strip("-")


def health_command(name: str, *, port: int = 8501) -> str:
    """Returns a bash command that fails unless a version of the model is available."""
    request = rf"GET /v1/models/{name} HTTP/1.0\r\n\r\n"
    return f'exec 3<>/dev/tcp/127.0.0.1/{port} && printf "{request}" >&3 && grep -qw AVAILABLE <&3'
