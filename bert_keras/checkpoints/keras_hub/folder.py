"""Reads and writes KerasHub's preset folders, those of `save_to_preset` and `from_preset`.

config.json, model.weights.h5       the backbone; model.weights.json lists shards, if any
task.json, task.weights.h5          the head of a masked-LM model or text classifier
tokenizer.json, preprocessor.json, assets/tokenizer/    the tokenizer
metadata.json                       contains EXTRA_KEY

Neither reading nor writing needs keras_hub or builds a model.
"""

import dataclasses
import re
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np

from bert_keras.architectures import CLASSIFIER, ENCODER, MASKED_LM
from bert_keras.checkpoints import mapping
from bert_keras.checkpoints.checkpoint import Checkpoint, fitted_vocabulary
from bert_keras.checkpoints.foreign import training_fields
from bert_keras.checkpoints.keras_hub.config import (
    CONFIG,
    METADATA,
    check_model,
    read_config,
    read_extra,
    read_family,
    read_max_length,
    read_task,
    write_configs,
)
from bert_keras.checkpoints.keras_hub.families import (
    CLASSIFIER_HEAD,
    HUB_FAMILIES,
    MASKED_LM_HEAD,
    TASK_WEIGHTS,
    WEIGHTS,
)
from bert_keras.checkpoints.keras_hub.tokenizer import read_tokenizer, write_tokenizer
from bert_keras.checkpoints.keras_hub.weights import stored_tensors, write_tensors
from bert_keras.checkpoints.metadata import ModelMetadata, numbered_labels
from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.checkpoints.weight_rows import rows
from bert_keras.errors import InputError
from bert_keras.families import family_of
from bert_keras.family import Family

SHARDS = "model.weights.json"
HEADS = {MASKED_LM_HEAD: MASKED_LM.name, CLASSIFIER_HEAD: CLASSIFIER.name}
POSITIONS, SEGMENTS = "encoder/embeddings/position", "encoder/embeddings/segment"
# Adam's step and learning rate. `from_preset` compiles a task with an optimizer, and prints a
# warning if these variables are missing.
OPTIMIZER = {"optimizer/vars/0": np.int64(0), "optimizer/vars/1": np.float32(5e-5)}


def recognises(path: Path) -> bool:
    """Returns whether the folder has weights or a config.json of KerasHub."""
    if not (path / CONFIG).is_file():
        return any((path / name).is_file() for name in (WEIGHTS, SHARDS))
    text = (path / CONFIG).read_text("utf-8", "replace")
    # Keys that Keras writes when it serializes an object.
    return any(f'"{key}"' in text for key in ("registered_name", "class_name"))


def read(path: Path, *, ignore: Collection[str], pad_vocabulary: bool) -> Checkpoint:
    """Reads a preset; see `formats.Format`.

    `ignore` may name arrays, such as task.weights.h5/layers/dense/vars/0, and keys of config.json.
    """
    extra, hub, arrays = read_extra(path), read_family(path), _arrays(path)
    heads = (m for start, m in HEADS.items() if any(n.startswith(f"{start}/") for n in arrays))
    model = next(heads, ENCODER.name)
    if extra.get("labels") and model != CLASSIFIER.name:
        raise InputError(
            f"{path / TASK_WEIGHTS} is missing or lacks the classifier that {METADATA} describes; "
            f"add it, or remove {METADATA} to read only the encoder"
        )
    config, notes = read_config(path, extra, hub=hub, model=model, ignore=ignore)
    num_labels, task_notes = read_task(path, hub, model)
    vocabulary, lowercase, text_notes = read_tokenizer(path, hub, lowercase=extra.get("lowercase"))
    metadata = ModelMetadata(
        model=model,
        config=config,
        lowercase=lowercase,
        max_length=read_max_length(path, extra, config),
        labels=tuple(extra.get("labels", ())) or numbered_labels(num_labels),
        **training_fields(extra),
    )
    # The variables of the optimizer and of dropout belong to training.
    weights = {
        n: t for n, t in arrays.items() if "/optimizer/" not in n and "/seed_generator/" not in n
    }
    tensors, unused = mapping.translated(
        weights, metadata=hub.stored_metadata(metadata), column=hub.column, ignore=ignore
    )
    if f"{TASK_WEIGHTS}/optimizer/vars/{len(OPTIMIZER)}" in arrays:
        notes += (f"the optimizer's averages in {TASK_WEIGHTS} are not read",)
    return Checkpoint(
        metadata=metadata,
        tensors=_expanded(tensors, metadata),
        vocabulary=fitted_vocabulary(vocabulary, metadata, pad_vocabulary=pad_vocabulary),
        unused=unused,
        notes=(*notes, *task_notes, *text_notes),
    )


def storable(checkpoint: Checkpoint) -> Checkpoint:
    """Returns a checkpoint of the same outputs that has only values which KerasHub stores.

    KerasHub's RoBERTa has no segment embedding and no positions before `position_offset`. The
    segment embedding, which every token has, is therefore added to each position embedding.

    Raises:
        InputError: KerasHub has no such encoder or tokenizer.
    """
    check_model(checkpoint.metadata, checkpoint.vocabulary)
    config, tensors = checkpoint.metadata.config, checkpoint.tensors
    if not (offset := config.position_offset):
        return checkpoint

    def positions() -> np.ndarray:
        table = tensors[POSITIONS].read() + tensors[SEGMENTS].read()
        table[:offset] = 0
        return table

    shape = tensors[SEGMENTS].shape
    changed = {
        POSITIONS: StoredTensor(tensors[POSITIONS].shape, positions),
        SEGMENTS: StoredTensor(shape, partial(np.zeros, shape, np.float32)),
    }
    return dataclasses.replace(checkpoint, tensors={**tensors, **changed})


def _expanded(
    tensors: Mapping[str, StoredTensor], metadata: ModelMetadata
) -> Mapping[str, StoredTensor]:
    """Returns the weights with the zeros that a RoBERTa has and KerasHub does not store."""
    if not (offset := metadata.config.position_offset):
        return tensors
    shapes = {row.name: row.shape for row in rows(metadata)}
    zeros = np.zeros((offset, shapes[POSITIONS][1]), np.float32)
    changed = {
        POSITIONS: StoredTensor(
            shapes[POSITIONS], lambda: np.concatenate([zeros, tensors[POSITIONS].read()])
        ),
        SEGMENTS: StoredTensor(shapes[SEGMENTS], lambda: zeros[: shapes[SEGMENTS][0]]),
    }
    return {**tensors, **changed}


def write(checkpoint: Checkpoint, folder: Path) -> tuple[str, ...]:
    """Writes a preset of a checkpoint that `storable` returned; see `formats.Format`."""
    metadata, vocabulary = checkpoint.metadata, checkpoint.vocabulary
    hub = HUB_FAMILIES[cast(Family, family_of(metadata.config)).kind]
    stored = dict(checkpoint.tensors)
    if offset := metadata.config.position_offset:
        del stored[SEGMENTS]
        table = stored[POSITIONS]
        shape = (table.shape[0] - offset, table.shape[1])
        stored[POSITIONS] = StoredTensor(shape, lambda: table.read()[offset:])
    tensors = mapping.foreign_tensors(
        stored, metadata=hub.stored_metadata(metadata), column=hub.column
    )
    tokenizer, text_notes = None, ()
    if vocabulary is not None:
        tokenizer, *text_notes = write_tokenizer(vocabulary, folder, lowercase=metadata.lowercase)
    notes = write_configs(metadata, folder, hub=hub, tokenizer=tokenizer)
    files = {WEIGHTS: {}, TASK_WEIGHTS: {}}
    for name, tensor in tensors.items():
        file, _, array = name.partition("/")
        files[file][array] = tensor
    if files[TASK_WEIGHTS]:
        for array, value in OPTIMIZER.items():
            files[TASK_WEIGHTS][array] = StoredTensor((), partial(np.array, value))
    for file, arrays in files.items():
        if arrays:
            write_tensors(folder / file, arrays)
    return (*notes, *text_notes)


def _arrays(path: Path) -> dict[str, StoredTensor]:
    """Returns all arrays of a preset by FILE/NAME.

    The arrays of all shards get the same FILE. NAME is the current name of a layer, also if an
    older version of Keras wrote the file.
    """
    files = [(WEIGHTS, path / WEIGHTS)]
    if (path / SHARDS).is_file() and not (path / WEIGHTS).is_file():
        files = [(WEIGHTS, shard) for shard in sorted(path.glob("model_*.weights.h5"))]
    if (path / TASK_WEIGHTS).is_file():
        files.append((TASK_WEIGHTS, path / TASK_WEIGHTS))
    arrays = {}
    for file, source in files:
        for name, tensor in stored_tensors(source).items():
            name = name.replace("_layer_checkpoint_dependencies/", "layers/")
            name = re.sub("/_((query|key|value|output)_dense/)", r"/\1", name)
            arrays[f"{file}/{name}"] = tensor
    return arrays
