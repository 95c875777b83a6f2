"""Reads the rows of a split of a TensorFlow Datasets (TFDS) builder, as `tfds:NAME:SPLIT`."""

import logging
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from bert_keras.errors import InputError
from bert_keras.storage import StrPath

PREFIX = "tfds:"


def is_tfds(path: StrPath) -> bool:
    """Returns whether a data path names a TFDS builder instead of a file."""
    return os.fspath(path).startswith(PREFIX)


def tfds_rows(path: str) -> Iterator[dict[str, object]]:
    """Yields the columns of each row as Python values.

    The rows have the order of the builder's files, which may differ from that of the official
    files. A class label is given by its name, or None if it is unknown (-1). Data that is not in
    the folder of TFDS yet is downloaded.

    Args:
        path: `tfds:NAME:SPLIT`, where NAME is for example `glue/mrpc` or `glue/mrpc:2.0.0`.

    Raises:
        InputError: The builder or split does not exist, the data cannot be downloaded, or TFDS is
            not installed.
    """
    name, _, split = path.removeprefix(PREFIX).rpartition(":")
    builder = _builder(name)
    if split not in builder.info.splits:
        raise InputError(f"{path}: {name!r} has the splits {', '.join(builder.info.splits)}")
    import tensorflow_datasets as tfds

    features = builder.info.features
    for row in tfds.as_numpy(builder.as_dataset(split=split)):
        yield {column: _python(value, features[column]) for column, value in row.items()}


def tfds_splits(path: str) -> tuple[str, ...]:
    """Returns the names of the splits of `tfds:NAME`; raises the errors of `tfds_rows`."""
    return tuple(_builder(path.removeprefix(PREFIX)).info.splits)


def _builder(name: str) -> Any:
    try:
        import requests
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise InputError("tfds: needs TensorFlow Datasets; pip install bert-keras[tfds]") from error
    retries = logging.getLogger("urllib3.connectionpool")
    level = retries.level
    try:
        builder = tfds.builder(name)
        retries.setLevel(logging.ERROR)  # TFDS tries each file ten times and warns each time
        builder.download_and_prepare()
    except requests.RequestException as error:
        host = urlsplit(error.request.url).hostname if error.request else "its server"
        status = "" if error.response is None else f" (HTTP status {error.response.status_code})"
        raise InputError(
            f"tfds:{name} is not in the TFDS folder ({builder.data_dir}) and could not be "
            f"downloaded from {host}{status}; run the command once on a machine with network "
            "access and copy that folder, or pass the task's files instead"
        ) from error
    except (tfds.core.DatasetNotFoundError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"tfds:{name} cannot be read: {reason}") from error
    finally:
        retries.setLevel(level)
    return builder


def _python(value, feature):
    inner = getattr(feature, "feature", None)
    if isinstance(value, dict):
        parts = inner or feature
        return {name: _python(each, parts[name]) for name, each in value.items()}
    if isinstance(value, np.ndarray):
        return [_python(each, inner or feature) for each in value]
    if hasattr(feature, "int2str"):
        return None if value < 0 else feature.int2str(int(value))
    return value.decode("utf-8") if isinstance(value, bytes) else value.item()
