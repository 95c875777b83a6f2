"""Recognises and reads preset folders of KerasHub."""

import functools
import re
from collections.abc import Collection
from pathlib import Path

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.config import BertConfig
from bert_keras.errors import check_name, require
from bert_keras.files import json_object


def recognises(path: Path) -> bool:
    """Returns whether the folder has a config.json that Keras wrote."""
    config = path / "config.json"
    return config.is_file() and '"class_name"' in config.read_text("utf-8", "replace")


@functools.cache
def stored_config(path: Path) -> BertConfig:
    """Returns the configuration of a preset, which is loaded once; see `formats.FORMATS`."""
    return read(path, ignore=()).metadata.config


def read(path: Path, *, ignore: Collection[str]) -> Checkpoint:
    """Reads a preset; see `formats.FORMATS`. Nothing in it can be ignored."""
    require("keras_hub", what="a preset of KerasHub")
    import keras_hub

    from bert_keras.checkpoints.keras_hub import HUB_CLASSES, checkpoint_of

    task = path / "task.json"
    has_task = task.is_file() and (path / "task.weights.h5").is_file()
    name = str(json_object(task if has_task else path / "config.json").get("class_name"))
    name = re.sub("(?<!Text)Classifier$", "TextClassifier", name)  # the name in older presets
    check_name(name, HUB_CLASSES, what=f"model of {path}")
    model = getattr(keras_hub.models, name).from_preset(str(path), dtype="float32")
    preprocessor = getattr(model, "preprocessor", None)
    if preprocessor is None and (path / "tokenizer.json").is_file():
        preprocessor = keras_hub.tokenizers.Tokenizer.from_preset(str(path))
    return checkpoint_of(model, preprocessor)
