"""Writes the files that start TF Serving with an exported model, based on a measurement of it."""

import json
import os
import re
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from bert_keras.errors import InputError
from bert_keras.exporting.warmup import BATCH_SIZES
from bert_keras.serving.monitoring import METRICS_PATH
from bert_keras.serving.tf_serving.measurement import Measurement, measure_version

IMAGE = "tensorflow/serving:2.20.0"  # bert_keras/exporting/serving_ops.py checks models for its ops
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
# A text waits for others to fill a batch for at most this fraction of the time that it takes alone.
_WAITING_FRACTION = 0.1


def write_config(version: str | os.PathLike, folder: str | os.PathLike) -> None:
    """Measure a model and write the five configuration files for it.

    Args:
        version: saved_models/NAME/VERSION, which is measured.
        folder: An existing folder for the files.

    Raises:
        InputError: As `check_name` and `measure_version` do.
        RuntimeError: As `measure_version` does.
    """
    model, folder = Path(version).resolve().parent, Path(folder).resolve()
    check_name(model.name)
    models = os.path.relpath(model, folder)
    files = config_files(model.name, models=models, measurement=measure_version(version))
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def check_name(name: str) -> None:
    """Raise InputError for a model name that is not valid in the files."""
    if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise InputError(
            f"the model's name is {name!r}; the configuration files of TF Serving allow a letter "
            "or digit, followed by letters, digits, '.', '_' and '-'; export the model with such a "
            "name"
        )


def dns_name(name: str) -> str:
    """Return the model's name as a name of a Kubernetes service: a DNS label (RFC 1035)."""
    label = re.sub("[^a-z0-9]+", "-", name.lower())
    return (label if label[0].isalpha() else f"model-{label}")[:63].strip("-")


def config_files(name: str, *, models: str, measurement: Measurement) -> dict[str, str]:
    """Render the configuration files from the templates of the same names.

    Args:
        name: Name of the model.
        models: Path from the folder of the files to saved_models/NAME.
        measurement: Measurement of the model.

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
        "dns_name": dns_name(name),
        "models": json.dumps(models.replace("$", "$$")),
        "image": IMAGE,
        "flags": _FLAGS,
        "monitoring_path": METRICS_PATH,
        "queue_seconds": _QUEUE_SECONDS,
        "measurement": measurement,
        "batching": choose_batching(measurement),
        "memory": {
            "before": _mebibytes(measurement.initial_memory),
            "peak": _mebibytes(measurement.peak_memory),
            # Two versions are in memory while the new one replaces the old one.
            "limit": _mebibytes(2 * measurement.peak_memory - measurement.initial_memory),
        },
        "start_seconds": 10 + round(3 * measurement.warm_up_seconds),
        "health_command": health_command(name),
    }

    def text(file: str, **more: object) -> str:
        return templates.get_template(file).render(**values, **more)

    config = {file: text(file) for file in CONFIG_FILES}
    return {**config, **{file: text(file, config=config) for file in CONTAINER_FILES}}


def choose_batching(measurement: Measurement) -> dict[str, int]:
    """Choose the batching with the highest rate of texts and a short wait for each text.

    Args:
        measurement: Measurement of the model.

    Returns:
        Fields of tensorflow_serving/servables/tensorflow/session_bundle_config.proto, by name.
    """
    size = max(measurement.batch_size, *BATCH_SIZES)
    rate = measurement.rates[measurement.num_parallel_batches]
    num_enqueued = max(measurement.num_parallel_batches, int(_QUEUE_SECONDS * rate / size))
    return {
        # TF Serving may split a request into several runs.
        "max_batch_size": max(size, min(_MAX_ROWS, num_enqueued * size)),
        "max_execution_batch_size": size,
        "batch_timeout_micros": round(1e6 * _WAITING_FRACTION * measurement.seconds[1]),
        "num_batch_threads": measurement.num_parallel_batches,
        "max_enqueued_batches": num_enqueued,
    }


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
