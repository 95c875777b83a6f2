"""Reads the rows of TensorFlow Datasets (TFDS), named `tfds:NAME` or `tfds:FOLDER`."""

import contextlib
import io
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from bert_keras.errors import InputError
from bert_keras.files import StrPath

PREFIX = "tfds:"
_TRIES = 3  # of each download; TFDS has 10, which take minutes without a network
# The possible names of each split.
_SPLITS = {"train": ("train",), "dev": ("validation", "dev"), "test": ("test",)}


def is_tfds(path: StrPath) -> bool:
    """Returns whether a data path names a data set of TFDS instead of a file."""
    return os.fspath(path).startswith(PREFIX)


def tfds_files(data: StrPath) -> dict[str, str]:
    """Returns the path `tfds:NAME:SPLIT` of each of the splits "train", "dev" and "test".

    Splits that the data set lacks are left out. In TFDS, "dev" is often named "validation".

    Args:
        data: `tfds:NAME`, where NAME is for example `glue/mrpc` or `glue/mrpc:2.0.0`, or
            `tfds:FOLDER`, where FOLDER is a data set that TFDS wrote.

    Raises:
        InputError: The data set does not exist or cannot be downloaded.
    """
    existing = _builder(os.fspath(data).removeprefix(PREFIX)).info.splits
    return {
        split: f"{os.fspath(data)}:{name}"
        for split, names in _SPLITS.items()
        for name in names
        if name in existing
    }


def tfds_rows(path: str) -> Iterator[dict[str, object]]:
    """Yields the columns of each row as Python values.

    The rows have the order of the builder's files, which may differ from that of the official
    files. A class label is given by its name, or None if it is unknown (-1). Data that is not in
    the folder of TFDS yet is downloaded.

    Args:
        path: `tfds:NAME:SPLIT` or `tfds:FOLDER:SPLIT`; see `tfds_files`.

    Raises:
        InputError: The data set or split does not exist, or the data cannot be downloaded.
    """
    name, _, split = path.removeprefix(PREFIX).rpartition(":")
    builder = _builder(name)
    if split not in builder.info.splits:
        raise InputError(f"{path}: {name!r} has the splits {', '.join(builder.info.splits)}")
    import tensorflow_datasets as tfds

    features = builder.info.features
    for row in tfds.as_numpy(builder.as_dataset(split=split)):
        yield {column: _python(value, features[column]) for column, value in row.items()}


def _builder(name: str) -> Any:
    """Returns the builder of a prepared data set; prepares it if necessary."""
    import requests
    import tensorflow_datasets as tfds

    if name.startswith("huggingface:"):
        raise InputError(
            f"{PREFIX}{name} is a data set of Hugging Face, which TFDS does not contain; save it "
            "as the files of the task and pass their folder"
        )
    try:
        if os.path.isfile(os.path.join(name, "dataset_info.json")):
            return tfds.builder_from_directory(name)
        builder = tfds.builder(name)
        if not os.path.isdir(builder.data_dir):
            print(f"downloading {PREFIX}{name} to {builder.data_dir}", file=sys.stderr)
            with _quiet_download():
                builder.download_and_prepare()
        return builder
    except requests.RequestException as error:
        host = urlsplit(error.request.url).hostname if error.request else "its server"
        status = "" if error.response is None else f" (HTTP status {error.response.status_code})"
        raise InputError(
            f"{PREFIX}{name} could not be downloaded from {host}{status}; run the command once on "
            f"a machine with network access and copy its TFDS folder ({builder.data_dir}), or pass "
            "the task's files instead"
        ) from error
    except (OSError, MemoryError):
        raise
    except Exception as error:  # the code of each builder raises errors of its own
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise InputError(f"{PREFIX}{name} cannot be read: {reason}") from error


@contextlib.contextmanager
def _quiet_download() -> Iterator[None]:
    """Hides what TFDS prints on stdout, its bars and the warning of each try; tries less often."""
    import tensorflow_datasets as tfds
    from tensorflow_datasets.core.download import downloader

    retries = logging.getLogger("urllib3.connectionpool")
    level, most_tries = retries.level, downloader.MAX_RETRIES
    retries.setLevel(logging.ERROR)
    downloader.MAX_RETRIES = _TRIES
    tfds.disable_progress_bar()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        tfds.enable_progress_bar()
        downloader.MAX_RETRIES = most_tries
        retries.setLevel(level)


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
