"""The commands and files that run TF Serving with an exported model."""

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from bert_keras.errors import InputError
from bert_keras.files import json_object
from bert_keras.serving.version_folder import METADATA

IMAGE_VERSION = "2.20.0"  # of TF Serving, whose ops the tests of exports compare
CONFIG_FILES = ("models.config", "batching_parameters.txt", "monitoring.config")
CONTAINER_FILES = ("compose.yaml", "kubernetes.yaml", "kserve.yaml", "Dockerfile", "vertex.sh")


def instructions(version_folder: str | os.PathLike) -> str:
    """Returns commands that serve saved_models/NAME and send a request, and the answer."""
    model = Path(version_folder).parent
    name, path = shlex.quote(model.name), shlex.quote(os.fspath(model.resolve()))
    example = json_object(Path(version_folder) / METADATA)["example"]
    instance, prediction = (
        next(iter(values.values())) if len(values) == 1 else values  # as in TF Serving's REST API
        for values in (example["instance"], example["prediction"])
    )
    request = shlex.quote(json.dumps({"instances": [instance]}, ensure_ascii=False))
    answer = json.dumps({"predictions": [_rounded(prediction)]}, ensure_ascii=False)
    volume, server = f"-v {path}:/models/{name}:ro", f"tensorflow/serving:{IMAGE_VERSION}"
    docker = f"  docker run --rm -p 127.0.0.1:8501:8501 {volume} -e MODEL_NAME={name} {server}\n"
    has_saved_model = (Path(version_folder) / "saved_model.pb").is_file()
    return f"""Serve it{" with TF Serving in Docker, or without Docker" * has_saved_model}:
{docker * has_saved_model}  bert-keras serve {shlex.quote(os.fspath(model))} --port 8501
Send it a request:
  curl -d {request} http://localhost:8501/v1/models/{quote(model.name)}:predict
It answers, with more digits:
  {answer.replace('"..."', "...")}"""


def _rounded(value: Any) -> Any:
    """Rounds numbers to four digits and keeps the first five items of a list."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in sorted(value.items())}
    if isinstance(value, list):
        return [*map(_rounded, value[:5]), *(["..."] if len(value) > 5 else [])]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def check_name_in_files(name: str) -> None:
    """Raises InputError for a model name that is not valid in the files."""
    if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise InputError(
            f"the model's name is {name!r}; with --serving-config it begins with a letter or digit "
            "and contains only letters, digits, '.', '_' and '-'"
        )


def write_container_files(model_folder: str | os.PathLike, folder: str | os.PathLike) -> None:
    """Fills the templates for saved_models/NAME; the path of the model is relative to `folder`."""
    model, folder = Path(model_folder).resolve(), Path(folder).resolve()
    dns_name = re.sub("[^a-z0-9]+", "-", model.name.lower())  # as a DNS label has to be (RFC 1035)
    dns_name = dns_name if dns_name[0].isalpha() else f"model-{dns_name}"
    templates = Environment(loader=PackageLoader("bert_keras.serving"), undefined=StrictUndefined)
    templates.trim_blocks = templates.lstrip_blocks = templates.keep_trailing_newline = True
    values: dict[str, Any] = {
        "name": model.name,
        "version": IMAGE_VERSION,
        "dns_name": dns_name[:63].strip("-"),
        "models": json.dumps(os.path.relpath(model, folder).replace("$", "$$")),
        "parent": shlex.quote(os.path.relpath(model.parent, folder)),
        "config": {},
    }
    for file in (*CONFIG_FILES, *CONTAINER_FILES):
        text = templates.get_template(file).render(**values)
        (folder / file).write_text(text, encoding="utf-8")
        if file in CONFIG_FILES:
            values["config"][file] = text
