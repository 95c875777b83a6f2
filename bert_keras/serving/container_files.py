"""Writes the files that run TF Serving with an exported model in Docker, Kubernetes or KServe."""

import json
import os
import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from bert_keras.errors import check

CONFIG_FILES = ("models.config", "batching_parameters.txt", "monitoring.config")
CONTAINER_FILES = ("compose.yaml", "kubernetes.yaml", "kserve.yaml")  # with the files above


def check_name(name: str) -> None:
    """Raises InputError for a model name that is not valid in the files."""
    check(
        re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]*", name),
        f"the model's name is {name!r}; the files of --serving-config allow a letter or digit, "
        "followed by letters, digits, '.', '_' and '-'",
    )


def write_container_files(model_folder: str | os.PathLike, folder: str | os.PathLike) -> None:
    """Fills the templates for saved_models/NAME; the path of the model is relative to `folder`."""
    model, folder = Path(model_folder).resolve(), Path(folder).resolve()
    dns_name = re.sub("[^a-z0-9]+", "-", model.name.lower())  # as a DNS label has to be (RFC 1035)
    dns_name = dns_name if dns_name[0].isalpha() else f"model-{dns_name}"
    templates = Environment(
        loader=PackageLoader("bert_keras.serving"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    values: dict[str, Any] = {
        "name": model.name,
        "dns_name": dns_name[:63].strip("-"),
        "models": json.dumps(os.path.relpath(model, folder).replace("$", "$$")),
        "config": {},
    }
    for file in (*CONFIG_FILES, *CONTAINER_FILES):
        text = templates.get_template(file).render(**values)
        (folder / file).write_text(text, encoding="utf-8")
        if file in CONFIG_FILES:
            values["config"][file] = text
