"""A model on disk: one folder that holds config, vocabulary, weights and labels.

bert_keras.json      which model, its config, how text becomes its input, its labels
vocab.txt            one piece a line
weights.safetensors  every weight under its public name
"""

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.models.classifier import BertClassifier
from bert_keras.models.pretrainer import BertMaskedLM, BertPretrainer
from bert_keras.models.task_model import TaskModel, named_weights
from bert_keras.storage import existing_file, json_object, whole_folder
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import Vocabulary

CARD, VOCABULARY, WEIGHTS = "bert_keras.json", "vocab.txt", "weights.safetensors"
MODELS = {cls.__name__: cls for cls in (BertPretrainer, BertMaskedLM, BertClassifier)}


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """What a folder says of its model beside vocabulary and weights.

    `text_columns` names the one or two texts of an example and `labels` the classes in the order
    of the logits; both are empty for a pretrainer. `max_length` counts pieces.
    """

    model: str
    config: BertConfig
    lowercase: bool
    max_length: int
    text_columns: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise InputError(f"no model is called {self.model!r}; known: {', '.join(MODELS)}")
        if not 3 <= self.max_length <= self.config.max_positions:
            raise InputError(
                f"max_length is {self.max_length}; expected 3 to {self.config.max_positions}, "
                "the encoder's positions"
            )

    def new_model(self) -> TaskModel:
        """The model with fresh weights, drawn from Keras' global seed."""
        heads = {"num_labels": len(self.labels)} if self.model == "BertClassifier" else {}
        return MODELS[self.model](self.config, **heads)


@dataclass(frozen=True)
class LoadReport:
    """Names of weights: `loaded` from the folder, `new` (fresh) and `left_over` in the folder."""

    loaded: tuple[str, ...]
    new: tuple[str, ...]
    left_over: tuple[str, ...]

    def __str__(self) -> str:
        def heads(names):
            return ", ".join(sorted({name.split("/")[0] for name in names})) or "none"

        return (
            f"{len(self.loaded)} weights loaded ({heads(self.loaded)}); new: {heads(self.new)}; "
            f"left over: {heads(self.left_over)}"
        )


def save_model(
    model: TaskModel, folder: str | os.PathLike, *, card: ModelCard, vocabulary: Vocabulary
) -> Path:
    """Write a model folder, whole or not at all. Raises InputError where one is already there."""
    with whole_folder(folder) as beside:
        values = {**dataclasses.asdict(card), "config": card.config.to_dict()}
        (beside / CARD).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
        vocabulary.save(beside / VOCABULARY)
        arrays = {name: np.asarray(weight.value) for name, weight in named_weights(model).items()}
        save_file(arrays, beside / WEIGHTS)
        (beside / WEIGHTS).chmod(0o644)
    return Path(folder)


def read_card(folder: str | os.PathLike) -> ModelCard:
    path = Path(folder) / CARD
    if Path(folder).is_dir() and not path.is_file():
        raise InputError(f"{folder} holds no {CARD}; expected a folder that bert-keras wrote")
    values = json_object(path)
    try:
        values["config"] = BertConfig.from_dict(values["config"])
        values["text_columns"] = tuple(values["text_columns"])
        values["labels"] = tuple(values["labels"])
        return ModelCard(**values)
    except (TypeError, KeyError) as error:
        raise InputError(f"{path} is not a model card ({error}); write the model anew") from error


def read_vocabulary(folder: str | os.PathLike) -> Vocabulary:
    return Vocabulary.from_file(Path(folder) / VOCABULARY)


def read_tokenizer(folder: str | os.PathLike) -> WordPieceTokenizer:
    return WordPieceTokenizer(read_vocabulary(folder), lowercase=read_card(folder).lowercase)


def load_model(folder: str | os.PathLike) -> TaskModel:
    """The model that the folder holds, with exactly its weights."""
    model = read_card(folder).new_model()
    report = load_weights(model, folder)
    if report.new or report.left_over:
        raise InputError(f"{folder}: the weights do not fit the card: {report}")
    return model


def load_weights(model: TaskModel, folder: str | os.PathLike) -> LoadReport:
    """Put a folder's weights into `model`: the encoder whole, and each head that both have, whole.

    Raises InputError that names every encoder weight missing, every head found in part and every
    shape that differs; the model is untouched then.
    """
    path = existing_file(Path(folder) / WEIGHTS)
    try:
        stored = load_file(path)
    except SafetensorError as error:
        raise InputError(f"{path} is damaged ({error}); copy or write it anew") from error
    wanted = named_weights(model)
    stored_heads = {"encoder"} | {name.split("/")[0] for name in stored}
    loaded = [name for name in wanted if name.split("/")[0] in stored_heads]
    faults = [f"{name} is missing" for name in loaded if name not in stored] + [
        f"{name} is {stored[name].shape}, expected {tuple(wanted[name].shape)}"
        for name in loaded
        if name in stored and stored[name].shape != tuple(wanted[name].shape)
    ]
    model_heads = {name.split("/")[0] for name in wanted}
    left_over = [name for name in stored if name not in wanted]
    faults += [f"{name} is unexpected" for name in left_over if name.split("/")[0] in model_heads]
    if faults:
        raise InputError(f"{path} does not fit the model: {'; '.join(faults)}")
    for name in loaded:
        wanted[name].assign(stored[name])
    new = tuple(name for name in wanted if name not in stored)
    return LoadReport(tuple(loaded), new, tuple(left_over))
