"""Reads the rows of a split of a TensorFlow Datasets builder, named `tfds:NAME:SPLIT`."""

import logging
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from bert_keras.errors import InputError
from bert_keras.storage import StrPath

PREFIX = "tfds:"


def is_tfds(place: StrPath) -> bool:
    """Whether a place names a TFDS builder, not a file."""
    return os.fspath(place).startswith(PREFIX)


def tfds_rows(place: str) -> Iterator[dict[str, object]]:
    """Each row's columns as Python values, in the order of the builder's files, which need not be
    that of the official ones.

    NAME is such as `glue/mrpc` or `glue/mrpc:2.0.0`; what is not in TFDS' folder yet is downloaded.
    A class is told by its name, and by None where it is not told (-1). Raises InputError where
    there is no such builder or split, or no way to download it.
    """
    name, _, split = place.removeprefix(PREFIX).rpartition(":")
    builder = _builder(name)
    if split not in builder.info.splits:
        raise InputError(f"{place}: {name!r} has the splits {', '.join(builder.info.splits)}")
    import tensorflow_datasets as tfds

    features = builder.info.features
    for row in tfds.as_numpy(builder.as_dataset(split=split)):
        yield {column: _python(value, features[column]) for column, value in row.items()}


def tfds_splits(place: str) -> tuple[str, ...]:
    """The splits of `tfds:NAME`."""
    return tuple(_builder(place.removeprefix(PREFIX)).info.splits)


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
        retries.setLevel(logging.ERROR)  # TFDS tries each file ten times: minutes of warnings
        builder.download_and_prepare()
    except requests.RequestException as error:
        host = urlsplit(error.request.url).hostname if error.request else "its server"
        status = "" if error.response is None else f" (it answered {error.response.status_code})"
        raise InputError(
            f"tfds:{name} is not in TFDS' folder ({builder.data_dir}) and could not be downloaded "
            f"from {host}{status}; run it once where there is a network and copy that folder, or "
            "name the task's files instead"
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
