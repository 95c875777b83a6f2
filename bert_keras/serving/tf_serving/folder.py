"""An exported version comes in; a folder of files that start TF Serving with it goes out."""

import os
import re
from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.serving.tf_serving.batching import batching_file, batching_of
from bert_keras.serving.tf_serving.containers import (
    compose_file,
    kubernetes_file,
    models_file,
    monitoring_file,
)
from bert_keras.serving.tf_serving.measured import measured


def check_name(name: str) -> None:
    """Raises InputError for a name that the files cannot hold."""
    if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise InputError(
            f"the model's name is {name!r}; for files of TF Serving it must be of letters, digits, "
            "'.', '_' and '-'"
        )


def write_config(version: str | os.PathLike, folder: str | os.PathLike) -> None:
    """Write models.config, batching_parameters.txt, monitoring.config, compose.yaml and
    kubernetes.yaml for saved_models/NAME into `folder`, with what is measured of its `version`.

    Raises InputError as `check_name` and `measured` do.
    """
    place, folder = Path(version).resolve().parent, Path(folder).resolve()
    check_name(place.name)
    found = measured(version)
    config = {
        "models.config": models_file(place.name),
        "batching_parameters.txt": batching_file(batching_of(found), found),
        "monitoring.config": monitoring_file(),
    }
    models = os.path.relpath(place, folder)
    files = {
        **config,
        "compose.yaml": compose_file(place.name, models=models, found=found),
        "kubernetes.yaml": kubernetes_file(place.name, found=found, config=config),
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
