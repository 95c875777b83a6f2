"""Reads the rows of TensorFlow Datasets (TFDS), named `tfds:NAME` or `tfds:FOLDER`."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from bert_keras.errors import InputError, require
from bert_keras.files import StrPath

PREFIX = "tfds:"
# The possible names of each split.
_SPLITS = {"train": ("train",), "dev": ("validation", "dev"), "test": ("test",)}


def is_tfds(path: StrPath) -> bool:
    """Returns whether a data path names a data set of TFDS instead of a file."""
    return os.fspath(path).startswith(PREFIX)


def tfds_files(data: StrPath) -> dict[str, str]:
    """Returns the path `tfds:NAME:SPLIT` of each split of `tfds:NAME` or `tfds:FOLDER`."""
    data = os.fspath(data)
    existing = _prepared_builder(data.removeprefix(PREFIX)).info.splits
    names = ((split, name) for split, names in _SPLITS.items() for name in names)
    return {split: f"{data}:{name}" for split, name in names if name in existing}


def tfds_rows(path: str) -> Iterator[dict[str, Any]]:
    """Yields the columns of each row of `tfds:NAME:SPLIT` as Python values.

    The builder may have shuffled the rows of the official files. A class label becomes its name, or
    None if it is unknown (-1).
    """
    name, _, split = path.removeprefix(PREFIX).rpartition(":")
    builder = _prepared_builder(name)
    import tensorflow_datasets as tfds

    features = builder.info.features
    for row in tfds.as_numpy(builder.as_dataset(split=split)):
        yield {column: _python_value(value, features[column]) for column, value in row.items()}


def _prepared_builder(name: str) -> Any:
    """Returns the builder of a data set, which it downloads if necessary."""
    require("tensorflow", what=f"{PREFIX}{name}")
    import tensorflow_datasets as tfds

    try:
        if os.path.isfile(os.path.join(name, "dataset_info.json")):
            return tfds.builder_from_directory(name)
        builder = tfds.builder(name)
        with contextlib.redirect_stdout(sys.stderr):
            builder.download_and_prepare()  # returns at once if the data is there
        return builder
    except Exception as error:  # each builder raises its own kinds of errors
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise InputError(f"{PREFIX}{name} cannot be read or downloaded: {reason}") from error


def _python_value(value: Any, feature: Any) -> Any:
    inner = getattr(feature, "feature", None)
    if isinstance(value, dict):
        parts = inner or feature
        return {name: _python_value(each, parts[name]) for name, each in value.items()}
    if isinstance(value, np.ndarray):
        return [_python_value(each, inner or feature) for each in value]
    if hasattr(feature, "int2str"):
        return None if value < 0 else feature.int2str(int(value))
    return value.decode("utf-8") if isinstance(value, bytes) else value.item()
