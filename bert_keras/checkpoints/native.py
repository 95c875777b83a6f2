"""Reads and writes the native checkpoint format, a folder with these files.

bert_keras.json             model metadata (a ModelCard)
vocab.txt                   WordPiece tokens, one a line; other tokenizers have a tokenizer.json
weights.safetensors         every weight under its public name
training_state.safetensors  Adam's averages `momentum/NAME` and `velocity/NAME`, and the number of
                            steps as the metadata `step`; only if the checkpoint has training state
"""

import dataclasses
import json
import os
from collections.abc import Collection
from pathlib import Path

from bert_keras.checkpoints.card import ModelCard
from bert_keras.checkpoints.checkpoint import Checkpoint, TrainingState, fitting
from bert_keras.checkpoints.mapping import Column, translated, translated_averages
from bert_keras.checkpoints.safetensors_file import metadata, stored_tensors, write_tensors
from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.storage import json_object
from bert_keras.text.fast_tokenizer import vocabulary_in, write_vocabulary

CARD, WEIGHTS = "bert_keras.json", "weights.safetensors"
# `ignore` leaves out the training state if it contains the name STEP.
STATE, STEP = "training_state.safetensors", "global_step"
COLUMN = Column(format="bert-keras", name=lambda name, card: name, kinds=None)


def recognises(path: Path) -> bool:
    """Returns whether the folder contains a bert_keras.json."""
    return (path / CARD).is_file()


def read(path: Path, *, ignore: Collection[str], pad_vocabulary: bool) -> Checkpoint:
    """Reads a folder in the native format; see `formats.Format`."""
    card = read_card(path)
    tensors, left_over = translated(
        stored_tensors(path / WEIGHTS), card=card, column=COLUMN, ignore=ignore
    )
    has_state = (path / STATE).is_file()
    if has_state and STEP in ignore:
        left_over = (*left_over, STEP)
    return Checkpoint(
        card=card,
        tensors=tensors,
        vocabulary=fitting(vocabulary_in(path), card, pad_vocabulary=pad_vocabulary),
        state=_state(path / STATE, card) if has_state and STEP not in ignore else None,
        left_over=left_over,
    )


def write(checkpoint: Checkpoint, folder: Path) -> tuple[str, ...]:
    """Writes a folder in the native format, training state included; see `formats.Format`."""
    values = {**dataclasses.asdict(checkpoint.card), "config": checkpoint.card.config.to_dict()}
    (folder / CARD).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    if checkpoint.vocabulary is not None:
        write_vocabulary(checkpoint.vocabulary, folder)
    write_tensors(folder / WEIGHTS, checkpoint.tensors)
    if (state := checkpoint.state) is not None:
        slots = {f"momentum/{name}": tensor for name, tensor in state.momentums.items()}
        slots |= {f"velocity/{name}": tensor for name, tensor in state.velocities.items()}
        write_tensors(folder / STATE, slots, metadata={"step": str(state.step)})
    return ()


def read_card(folder: str | os.PathLike) -> ModelCard:
    """Reads the model metadata of a folder.

    Raises:
        InputError: The folder has no bert_keras.json, or its contents are invalid.
    """
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


def _state(path: Path, card: ModelCard) -> TrainingState:
    stored, told = stored_tensors(path), metadata(path)
    if not told.get("step", "").isdecimal():
        raise InputError(f"{path} holds no step; remove it to begin from the weights alone")

    def averages(start: str) -> dict[str, StoredTensor]:
        given = {n.removeprefix(start): t for n, t in stored.items() if n.startswith(start)}
        return translated_averages(given, card=card, column=COLUMN)

    return TrainingState(
        step=int(told["step"]), momentums=averages("momentum/"), velocities=averages("velocity/")
    )
