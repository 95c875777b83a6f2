"""Writes the files that start TF Serving with an exported model, from what is measured of it."""

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

IMAGE = "tensorflow/serving:2.20.0"  # its ops are those of bert_keras/export/serving_ops.py
CONFIG_FILES = ("models.config", "batching_parameters.txt", "monitoring.config")
CONTAINER_FILES = ("compose.yaml", "kubernetes.yaml")
# Port 8500 is gRPC, 8501 REST; both open when every model has answered its warm-up requests.
_FLAGS = (
    "--model_config_file=/config/models.config",
    "--monitoring_config_file=/config/monitoring.config",
    "--enable_batching=true",
    "--batching_parameters_file=/config/batching_parameters.txt",
)
_QUEUE_SECONDS = 30  # TF Serving's default of rest_api_timeout_in_ms: nobody waits any longer
_MAX_ROWS = 1000  # of a request, TF Serving's own default
_WAITING_SHARE = 0.1  # of the time that a text alone takes: so long it waits for others


@dataclass(frozen=True, kw_only=True)
class Batching:
    """Fields of tensorflow_serving/servables/tensorflow/session_bundle_config.proto."""

    max_batch_size: int
    max_execution_batch_size: int
    batch_timeout_micros: int
    num_batch_threads: int
    max_enqueued_batches: int


def write_config(version: str | os.PathLike, folder: str | os.PathLike) -> None:
    """Write the five files for saved_models/NAME into `folder`, from a measurement of `version`.

    Raises:
        InputError: as `check_name` and `measured` do.
    """
    model, folder = Path(version).resolve().parent, Path(folder).resolve()
    check_name(model.name)
    files = config_files(model.name, models=os.path.relpath(model, folder), found=measured(version))
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def check_name(name: str) -> None:
    """Raise InputError for a name that the files cannot hold."""
    if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise InputError(
            f"the model's name is {name!r}; for files of TF Serving it must be of letters, digits, "
            "'.', '_' and '-'"
        )


def config_files(name: str, *, models: str, found: Measured) -> dict[str, str]:
    """The texts of the files, by file name, from the templates of the same names.

    Args:
        name: The model's name.
        models: Path from the folder of the files to saved_models/NAME.
        found: What was measured of the model.
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
        "dns_name": re.sub("[^a-z0-9]+", "-", name.lower()).strip("-"),  # as Kubernetes takes it
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
            "limit": _mebibytes(2 * found.peak - found.before),  # two versions, as one takes over
        },
        "start_seconds": 10 + round(3 * found.warm),
        "health_command": health_command(name),
    }

    def text(file: str, **more: object) -> str:
        return templates.get_template(file).render(**values, **more)

    config = {file: text(file) for file in CONFIG_FILES}
    return {**config, **{file: text(file, config=config) for file in CONTAINER_FILES}}


def batching_of(found: Measured) -> Batching:
    """The batching that answers most texts a second without letting one wait long."""
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
    """A line of bash that fails where no version of the model answers."""
    request = rf"GET /v1/models/{name} HTTP/1.0\r\n\r\n"
    return f'exec 3<>/dev/tcp/127.0.0.1/{port} && printf "{request}" >&3 && grep -qw AVAILABLE <&3'


def _mebibytes(num_bytes: int) -> int:
    return -(-num_bytes // 2**20)
