"""Writes the files that start TF Serving with an exported model, based on a measurement of it."""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from bert_keras.errors import InputError
from bert_keras.export.warmup import BATCH_SIZES
from bert_keras.serving.monitoring import PAGE_PATH
from bert_keras.serving.tf_serving.measurement import Measured, measured

IMAGE = "tensorflow/serving:2.20.0"  # bert_keras/export/serving_ops.py checks models for its ops
CONFIG_FILES = ("models.config", "batching_parameters.txt", "monitoring.config")
CONTAINER_FILES = ("compose.yaml", "kubernetes.yaml")
# Port 8500 is gRPC and 8501 is REST; both open after every model has run its warm-up requests.
_FLAGS = (
    "--model_config_file=/config/models.config",
    "--monitoring_config_file=/config/monitoring.config",
    "--enable_batching=true",
    "--batching_parameters_file=/config/batching_parameters.txt",
)
# TF Serving's default of --rest_api_timeout_in_ms: no client waits longer than this.
_QUEUE_SECONDS = 30
_MAX_ROWS = 1000  # of one request; TF Serving's default of max_batch_size
# A text waits for others to fill a batch for at most this share of the time that it runs alone.
_WAITING_SHARE = 0.1


@dataclass(frozen=True, kw_only=True)
class Batching:
    """Fields of tensorflow_serving/servables/tensorflow/session_bundle_config.proto."""

    max_batch_size: int  # the most rows of one request; TF Serving may split it into several runs
    max_execution_batch_size: int  # the most rows of one run
    batch_timeout_micros: int  # microseconds that a request waits for others
    num_batch_threads: int  # batches that run at the same time
    max_enqueued_batches: int  # batches in the queue


def write_config(version: str | os.PathLike, folder: str | os.PathLike) -> None:
    """Measure a model and write the five configuration files for it.

    Args:
        version: saved_models/NAME/VERSION, which is measured.
        folder: An existing folder for the files.

    Raises:
        InputError: As `check_name` and `measured` do.
        RuntimeError: As `measured` does.
    """
    model, folder = Path(version).resolve().parent, Path(folder).resolve()
    check_name(model.name)
    files = config_files(model.name, models=os.path.relpath(model, folder), found=measured(version))
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def check_name(name: str) -> None:
    """Raise InputError for a model name that is not valid in the files."""
    if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise InputError(
            f"the model's name is {name!r}; for files of TF Serving it must be of letters, digits, "
            "'.', '_' and '-'"
        )


def config_files(name: str, *, models: str, found: Measured) -> dict[str, str]:
    """Render the configuration files from the templates of the same names.

    Args:
        name: Name of the model.
        models: Path from the folder of the files to saved_models/NAME.
        found: Measurement of the model.

    Returns:
        The texts of the files, by file name.
    """
    templates = Environment(
        loader=PackageLoader("bert_keras.serving.tf_serving"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    values = {
        "name": name,
        "dns_name": re.sub("[^a-z0-9]+", "-", name.lower()).strip("-"),  # a DNS label
        "models": json.dumps(models.replace("$", "$$")),
        "image": IMAGE,
        "flags": _FLAGS,
        "monitoring_path": PAGE_PATH,
        "queue_seconds": _QUEUE_SECONDS,
        "found": found,
        "batching": batching_of(found),
        "memory": {
            "before": _mebibytes(found.before),
            "peak": _mebibytes(found.peak),
            # Two versions are in memory while the new one replaces the old one.
            "limit": _mebibytes(2 * found.peak - found.before),
        },
        "start_seconds": 10 + round(3 * found.warm),
        "health_command": health_command(name),
    }

    def text(file: str, **more: object) -> str:
        return templates.get_template(file).render(**values, **more)

    config = {file: text(file) for file in CONFIG_FILES}
    return {**config, **{file: text(file, config=config) for file in CONTAINER_FILES}}


def batching_of(found: Measured) -> Batching:
    """Choose the batching with the highest rate of texts and a short wait for each text."""
    size = max(found.batch_size, *BATCH_SIZES)
    rate = found.rates[found.num_at_once]
    num_enqueued = max(found.num_at_once, int(_QUEUE_SECONDS * rate / size))
    return Batching(
        max_batch_size=max(size, min(_MAX_ROWS, num_enqueued * size)) if found.splits else size,
        max_execution_batch_size=size,
        batch_timeout_micros=round(1e6 * _WAITING_SHARE * found.seconds[1]),
        num_batch_threads=found.num_at_once,
        max_enqueued_batches=num_enqueued,
    )


def health_command(name: str, *, port: int = 8501) -> str:
    """Return a bash command that fails unless a version of the model is available.

    Args:
        name: Name of the model.
        port: Port of the REST API.
    """
    request = rf"GET /v1/models/{name} HTTP/1.0\r\n\r\n"
    return f'exec 3<>/dev/tcp/127.0.0.1/{port} && printf "{request}" >&3 && grep -qw AVAILABLE <&3'


def _mebibytes(num_bytes: int) -> int:
    return -(-num_bytes // 2**20)
