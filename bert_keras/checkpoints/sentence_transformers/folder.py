"""Reads and writes the folders of sentence-transformers; see `modules` for the files.

The encoder and its tokenizer are files of transformers, in the folder itself or in a subfolder that
modules.json names. sentence_bert_config.json states the maximum length of an input.
"""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from bert_keras.architectures import ENCODER, SENTENCE_ENCODER
from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.foreign import write_json
from bert_keras.checkpoints.huggingface import folder as huggingface
from bert_keras.checkpoints.huggingface.config import note_if_ignored
from bert_keras.checkpoints.huggingface.tokenizer import sentence_settings
from bert_keras.checkpoints.huggingface.weights import SAFETENSORS, stored_weights
from bert_keras.checkpoints.mapping import weight_problems
from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.checkpoints.safetensors_file import write_tensors
from bert_keras.checkpoints.sentence_transformers.modules import (
    DENSE,
    KNOWN,
    MODULES,
    POOLING,
    TRANSFORMER,
    ListedModule,
    read_embedding,
    read_modules,
    write_modules,
)
from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.checkpoints.weight_rows import rows
from bert_keras.errors import InputError, listed

SENTENCES = "sentence_bert_config.json"
# Keys of SENTENCES that change what the encoder computes, and the only supported value of each.
FIXED = {"transformer_task": "feature-extraction", "module_output_name": "token_embeddings"}
WEIGHTS = {"kernel": "linear.weight", "bias": "linear.bias"}  # of a dense module


def recognises(path: Path) -> bool:
    """Returns whether the folder contains a modules.json."""
    return (path / MODULES).is_file()


def read(path: Path, *, ignore: Collection[str], pad_vocabulary: bool) -> Checkpoint:
    """Reads a folder of sentence-transformers; see `formats.Format`.

    If `ignore` names the pooling or a module that is not supported, only the encoder is read. A
    folder without a pooling, as of a CrossEncoder, is a folder of transformers.
    """
    modules = read_modules(path)
    if not modules or modules[0].kind != TRANSFORMER:
        raise InputError(
            f"{path / MODULES} does not begin with a {TRANSFORMER}; expected a file of "
            "sentence-transformers"
        )
    (_, folder), *others = modules
    checkpoint = huggingface.read(folder, ignore=ignore, pad_vocabulary=pad_vocabulary)
    if notes := _ignored(path, others, ignore):
        return replace(checkpoint, notes=(*notes, *checkpoint.notes))
    if not others:
        return checkpoint
    source = checkpoint.metadata
    notes = _setting_notes(folder, source, ignore)
    embedding, embedding_notes = read_embedding(
        path, others, hidden_size=source.config.hidden_size, ignore=ignore
    )
    is_encoder = source.model == ENCODER.name
    metadata = source.of_model(SENTENCE_ENCODER.name, keeps_head=is_encoder, embedding=embedding)
    tensors = {**checkpoint.tensors, **_dense_tensors(others, metadata)}
    names = {row.name for row in rows(metadata)}
    return replace(
        checkpoint,
        metadata=metadata,
        tensors={name: tensor for name, tensor in tensors.items() if name in names},
        unused=(*checkpoint.unused, *(name for name in tensors if name not in names)),
        notes=(*notes, *embedding_notes, *checkpoint.notes),
    )


def _ignored(path: Path, modules: list[ListedModule], ignore: Collection[str]) -> list[str]:
    """Returns notes on modules that `ignore` contains; any other one must be supported."""
    notes = []
    for kind, _ in modules:
        if kind not in KNOWN:
            problem = (
                f"the module {kind} of {path / MODULES} is not supported; known: "
                f"{', '.join(KNOWN)}; without it, only the encoder is read"
            )
            notes.append(note_if_ignored(kind, problem, ignore=ignore))
        elif kind == POOLING and kind in ignore:
            notes.append(f"the module {kind} is ignored as requested; only the encoder is read")
    return notes


def _setting_notes(folder: Path, source: ModelMetadata, ignore: Collection[str]) -> list[str]:
    """Checks the settings of the encoder, and returns notes on those that are ignored."""
    values, notes = sentence_settings(folder), []
    for name, expected in FIXED.items():
        if values.get(name) not in (None, expected):
            raise InputError(
                f"{folder / SENTENCES}: {name} is {values[name]!r}; expected {expected!r}"
            )
    if values.get("do_lower_case") and not source.lowercase:
        problem = (
            f"{folder / SENTENCES} lower-cases texts before a cased tokenizer; bert-keras does not"
        )
        notes.append(note_if_ignored("do_lower_case", problem, ignore=ignore))
    return notes


def _dense_tensors(modules: list[ListedModule], metadata: ModelMetadata) -> dict[str, StoredTensor]:
    """Reads the weights of the dense modules under our names."""
    table = [row for row in rows(metadata) if row.name.startswith("sentence/")]
    tensors = {}
    for index, (_, folder) in enumerate(each for each in modules if each.kind == DENSE):
        layer, (stored, _) = f"sentence/dense_{index}/", stored_weights(folder)
        own = {row.name: row.shape for row in table if row.name.startswith(layer)}
        names = {name: WEIGHTS[name.rpartition("/")[2]] for name in own}
        shapes = {names[name]: shape[::-1] for name, shape in own.items()}
        problems = weight_problems(stored, shapes)
        problems += [f"{name} is unexpected" for name in stored if name not in shapes]
        if problems:
            raise InputError(f"{folder} is not the dense module of its config: {listed(problems)}")
        for name, theirs in names.items():
            is_matrix = len(stored[theirs].shape) == 2
            tensors[name] = stored[theirs].transposed() if is_matrix else stored[theirs]
    return tensors


def write(checkpoint: Checkpoint, folder: Path) -> tuple[str, ...]:
    """Writes the files of transformers and of each module; see `formats.Format`."""
    metadata = checkpoint.metadata
    if (embedding := metadata.embedding) is None:
        raise InputError(
            f"sentence-transformers cannot store a {metadata.model}; write it as a sentence "
            "encoder: bert-keras convert SRC DST --to sentence-transformers --model "
            f"{SENTENCE_ENCODER.name}"
        )
    encoder = metadata.of_model(ENCODER.name, keeps_head=True)
    names = {row.name for row in rows(encoder)}
    parts = {name: tensor for name, tensor in checkpoint.tensors.items() if name in names}
    notes = huggingface.write(replace(checkpoint, metadata=encoder, tensors=parts), folder)
    settings: dict[str, Any] = {"max_seq_length": metadata.max_length, "do_lower_case": False}
    write_json(folder / SENTENCES, settings)
    folders = write_modules(embedding, folder, hidden_size=metadata.config.hidden_size)
    for index, each in enumerate(folders):
        tensors = {}
        for ours, theirs in WEIGHTS.items():
            if (name := f"sentence/dense_{index}/{ours}") in checkpoint.tensors:
                tensor = checkpoint.tensors[name]
                tensors[theirs] = tensor.transposed() if ours == "kernel" else tensor
        write_tensors(each / SAFETENSORS, tensors, metadata={"format": "pt"})
    return notes
