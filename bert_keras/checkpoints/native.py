"""Reads and writes the native checkpoint format, a folder with these files.

bert_keras.json             model metadata (`ModelMetadata`)
vocab.txt                   WordPiece tokens, one a line; other tokenizers have a tokenizer.json
weights.safetensors         every weight under its public name
training_state.safetensors  Adam's averages `momentum/NAME` and `velocity/NAME`, and the number of
                            steps as the metadata `step`; only if the checkpoint has training state
"""

import json
import os
from collections.abc import Collection
from pathlib import Path

from bert_keras.checkpoints.checkpoint import Checkpoint, TrainingState, fitted_vocabulary
from bert_keras.checkpoints.mapping import NameColumn, translated, translated_averages
from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.checkpoints.safetensors_file import header_strings, stored_tensors, write_tensors
from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.config import BertConfig
from bert_keras.embedding import EmbeddingConfig
from bert_keras.errors import InputError
from bert_keras.files import json_object
from bert_keras.text.fast_tokenizer import vocabulary_in, write_vocabulary

METADATA, WEIGHTS = "bert_keras.json", "weights.safetensors"
# `ignore` leaves out the training state if it contains the name STEP.
STATE, STEP = "training_state.safetensors", "global_step"
COLUMN = NameColumn(format="bert-keras", name=lambda name, metadata: name, kinds=None)


def recognises(path: Path) -> bool:
    """Returns whether the folder contains a bert_keras.json."""
    return (path / METADATA).is_file()


def read(path: Path, *, ignore: Collection[str], pad_vocabulary: bool) -> Checkpoint:
    """Reads a folder in the native format; see `formats.Format`."""
    metadata = read_metadata(path)
    tensors, unused = translated(
        stored_tensors(path / WEIGHTS), metadata=metadata, column=COLUMN, ignore=ignore
    )
    has_state = (path / STATE).is_file()
    if has_state and STEP in ignore:
        unused = (*unused, STEP)
    return Checkpoint(
        metadata=metadata,
        tensors=tensors,
        vocabulary=fitted_vocabulary(vocabulary_in(path), metadata, pad_vocabulary=pad_vocabulary),
        state=_state(path / STATE, metadata) if has_state and STEP not in ignore else None,
        unused=unused,
    )


def write(checkpoint: Checkpoint, folder: Path) -> tuple[str, ...]:
    """Writes a folder in the native format, training state included; see `formats.Format`."""
    metadata = checkpoint.metadata
    values = {**metadata.to_dict(), "config": metadata.config.to_dict()}
    (folder / METADATA).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    if checkpoint.vocabulary is not None:
        write_vocabulary(checkpoint.vocabulary, folder)
    write_tensors(folder / WEIGHTS, checkpoint.tensors)
    if (state := checkpoint.state) is not None:
        slots = {f"momentum/{name}": tensor for name, tensor in state.momentums.items()}
        slots |= {f"velocity/{name}": tensor for name, tensor in state.velocities.items()}
        write_tensors(folder / STATE, slots, metadata={"step": str(state.step)})
    return ()


def read_metadata(folder: str | os.PathLike) -> ModelMetadata:
    """Reads the model metadata of a folder.

    Raises:
        InputError: The folder has no bert_keras.json, or its contents are invalid.
    """
    path = Path(folder) / METADATA
    if Path(folder).is_dir() and not path.is_file():
        raise InputError(f"{folder} has no {METADATA}; expected a folder that bert-keras wrote")
    values = json_object(path)
    try:
        values["config"] = BertConfig.from_dict(values["config"])
        values["text_columns"] = tuple(values["text_columns"])
        values["labels"] = tuple(values["labels"])
        if "embedding" in values:
            values["embedding"] = EmbeddingConfig.from_dict(values["embedding"])
        return ModelMetadata(**values)
    except (TypeError, KeyError) as error:
        raise InputError(
            f"{path} is not the metadata of a model ({error}); write the model again"
        ) from error


def _state(path: Path, metadata: ModelMetadata) -> TrainingState:
    stored, step = stored_tensors(path), header_strings(path).get("step", "")
    if not step.isdecimal():
        raise InputError(f"{path} states no step; remove the file to start from the weights only")

    def averages(prefix: str) -> dict[str, StoredTensor]:
        return {n.removeprefix(prefix): t for n, t in stored.items() if n.startswith(prefix)}

    return TrainingState(
        step=int(step),
        momentums=translated_averages(averages("momentum/"), metadata=metadata, column=COLUMN),
        velocities=averages("velocity/"),  # Muon keeps none of matrices
    )
