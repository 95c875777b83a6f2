"""Reads and writes the native checkpoint format, a folder with these files.

bert_keras.json             model metadata (`ModelMetadata`)
vocab.txt                   WordPiece tokens, one a line; other tokenizers have a tokenizer.json
weights.safetensors         every weight under its public name
training_state.safetensors  Adam's averages `momentum/NAME` and `velocity/NAME`, and the number of
                            steps as the metadata `step`; absent if there is no training state
"""

from collections.abc import Collection
from pathlib import Path

from safetensors import safe_open

from bert_keras.checkpoints.checkpoint import Checkpoint, TrainingState
from bert_keras.checkpoints.tensors import stored_tensors, write_tensors
from bert_keras.config import BertConfig, ModelMetadata
from bert_keras.files import StrPath, json_object, write_json
from bert_keras.text import fast_tokenizer

METADATA, WEIGHTS = "bert_keras.json", "weights.safetensors"
# If `ignore` contains STEP, the training state is not read.
STATE, STEP = "training_state.safetensors", "global_step"
FILES = (METADATA, WEIGHTS, STATE, "vocab.txt", fast_tokenizer.RULES_FILE, "README.md")


def recognises(path: Path) -> bool:
    """Returns whether the folder contains a bert_keras.json."""
    return (path / METADATA).is_file()


def read(path: Path, *, ignore: Collection[str]) -> Checkpoint:
    """Reads a folder in the native format; see `formats.FORMATS`."""
    stored, state = stored_tensors(path / WEIGHTS), None
    names = [*stored, STEP] if (path / STATE).is_file() else list(stored)
    unused = [name for name in names if name in ignore]
    if STEP in names and STEP not in ignore:
        averages: dict[str, dict] = {"momentum": {}, "velocity": {}}
        for name, tensor in stored_tensors(path / STATE).items():
            kind, _, weight = name.partition("/")
            averages[kind][weight] = tensor
        with safe_open(path / STATE, framework="numpy") as file:
            step = int(file.metadata()["step"])
        momentums, velocities = averages.values()
        state = TrainingState(step=step, momentums=momentums, velocities=velocities)
    return Checkpoint(
        metadata=read_metadata(path),
        tensors={name: tensor for name, tensor in stored.items() if name not in unused},
        vocabulary=fast_tokenizer.vocabulary_in(path),
        state=state,
        unused=tuple(unused),
    )


def stored_config(path: Path) -> BertConfig:
    """Returns the configuration of a folder; see `formats.FORMATS`."""
    return read_metadata(path).config


def write(checkpoint: Checkpoint, folder: Path) -> tuple[str, ...]:
    """Writes a folder in the native format, training state included; see `formats.FORMATS`."""
    write_json(folder / METADATA, checkpoint.metadata.to_dict())
    if checkpoint.vocabulary is not None:
        fast_tokenizer.write_vocabulary(checkpoint.vocabulary, folder)
    write_tensors(folder / WEIGHTS, checkpoint.tensors)
    if (state := checkpoint.state) is not None:
        slots = {f"momentum/{name}": tensor for name, tensor in state.momentums.items()}
        slots |= {f"velocity/{name}": tensor for name, tensor in state.velocities.items()}
        write_tensors(folder / STATE, slots, metadata={"step": str(state.step)})
    return ()


def read_metadata(folder: StrPath) -> ModelMetadata:
    """Reads the metadata of a folder; raises InputError if they are missing or damaged."""
    return ModelMetadata.from_dict(json_object(Path(folder) / METADATA))
