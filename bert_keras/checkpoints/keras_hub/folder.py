"""Reads and writes KerasHub's preset folders, those of `save_to_preset` and `from_preset`.

config.json, model.weights.h5       the BertBackbone; model.weights.json lists shards, if any
task.json, task.weights.h5          the head of a BertMaskedLM or BertTextClassifier
tokenizer.json, preprocessor.json, assets/tokenizer/vocabulary.txt      the tokenizer
metadata.json                       contains EXTRA_KEY

Neither reading nor writing needs keras_hub or builds a model.
"""

import re
from collections.abc import Collection
from functools import partial
from pathlib import Path

import numpy as np

from bert_keras.architectures import CLASSIFIER, ENCODER, MASKED_LM
from bert_keras.checkpoints import mapping
from bert_keras.checkpoints.checkpoint import Checkpoint, fitted_vocabulary
from bert_keras.checkpoints.foreign import training_fields
from bert_keras.checkpoints.keras_hub.config import (
    CONFIG,
    METADATA,
    read_config,
    read_extra,
    read_task,
    read_text,
    write_configs,
)
from bert_keras.checkpoints.keras_hub.weights import stored_tensors, write_tensors
from bert_keras.checkpoints.metadata import ModelMetadata, numbered_labels, seems_lowercase
from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.errors import InputError
from bert_keras.text.vocab import Vocabulary

VOCABULARY = Path("assets/tokenizer/vocabulary.txt")
WEIGHTS, SHARDS, TASK_WEIGHTS = "model.weights.h5", "model.weights.json", "task.weights.h5"
# Paths of our layers and weights in KerasHub's files, which identify a layer by its class and its
# index among the layers of that class, and a weight by its index in the layer.
BLOCK = "encoder/layer_{}"
HUB_LAYERS = f"{WEIGHTS}/layers"
HUB_BLOCK = f"{HUB_LAYERS}/transformer_encoder_{{}}"
HUB_ATTENTION = f"{HUB_BLOCK}/_self_attention_layer"
MASKED_LM_HEAD = f"{TASK_WEIGHTS}/layers/masked_lm_head"
CLASSIFIER_HEAD = f"{TASK_WEIGHTS}/layers/dense"
LAYERS = {
    "encoder/embeddings/token": f"{HUB_LAYERS}/reversible_embedding/vars/0",
    "encoder/embeddings/position": f"{HUB_LAYERS}/position_embedding/vars/0",
    "encoder/embeddings/segment": f"{HUB_LAYERS}/embedding/vars/0",
    "encoder/embeddings/norm": f"{HUB_LAYERS}/layer_normalization",
    f"{BLOCK}/attention/query": f"{HUB_ATTENTION}/query_dense",
    f"{BLOCK}/attention/key": f"{HUB_ATTENTION}/key_dense",
    f"{BLOCK}/attention/value": f"{HUB_ATTENTION}/value_dense",
    f"{BLOCK}/attention/output": f"{HUB_ATTENTION}/output_dense",
    f"{BLOCK}/attention_norm": f"{HUB_BLOCK}/_self_attention_layer_norm",
    f"{BLOCK}/feed_forward/intermediate": f"{HUB_BLOCK}/_feedforward_intermediate_dense",
    f"{BLOCK}/feed_forward/output": f"{HUB_BLOCK}/_feedforward_output_dense",
    f"{BLOCK}/feed_forward_norm": f"{HUB_BLOCK}/_feedforward_layer_norm",
    "encoder/pooler": f"{HUB_LAYERS}/dense",
    "masked_lm/transform": f"{MASKED_LM_HEAD}/_intermediate_dense",
    "masked_lm/norm": f"{MASKED_LM_HEAD}/_intermediate_layer_norm",
    "masked_lm/output_bias": f"{MASKED_LM_HEAD}/vars/0",
    "classification/dense": CLASSIFIER_HEAD,
}
SUFFIXES = {"kernel": "/vars/0", "bias": "/vars/1", "gamma": "/vars/0", "beta": "/vars/1"}
HEADS = {MASKED_LM_HEAD: MASKED_LM.name, CLASSIFIER_HEAD: CLASSIFIER.name}


def _name(name: str, metadata: ModelMetadata) -> str:
    # Keras appends no number to the first layer of a class.
    path = mapping.renamed(name, LAYERS, suffixes=SUFFIXES)
    return path.replace("transformer_encoder_0", "transformer_encoder")


def _shape(row: mapping.WeightRow, metadata: ModelMetadata) -> tuple[int, ...]:
    """Returns KerasHub's shape of a weight: attention weights have an axis for the heads."""
    size, num_heads = metadata.config.hidden_size, metadata.config.num_heads
    heads = (num_heads, size // num_heads)
    layer, weight = row.name.split("/")[-2:]
    if "/attention/" not in row.name or (layer, weight) == ("output", "bias"):
        return row.shape
    if layer == "output":
        return (*heads, size)
    return (size, *heads) if weight == "kernel" else heads


KERAS_HUB = mapping.NameColumn(format="keras_hub", name=_name, shape=_shape)
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
    extra = read_extra(path)
    config, notes = read_config(path, extra, ignore=ignore)
    arrays = _arrays(path)
    heads = (m for start, m in HEADS.items() if any(n.startswith(f"{start}/") for n in arrays))
    model = next(heads, ENCODER.name)
    if extra.get("labels") and model != CLASSIFIER.name:
        raise InputError(
            f"{path / TASK_WEIGHTS} is missing or lacks the classifier that {METADATA} describes; "
            f"add it, or remove {METADATA} to read only the encoder"
        )
    num_labels, task_notes = read_task(path, model)
    lowercase, max_length, text_notes = read_text(path, extra, config)
    file = path / VOCABULARY
    vocabulary = Vocabulary.from_file(file) if file.is_file() else None
    metadata = ModelMetadata(
        model=model,
        config=config,
        lowercase=seems_lowercase(vocabulary) if lowercase is None else lowercase,
        max_length=max_length,
        labels=tuple(extra.get("labels", ())) or numbered_labels(num_labels),
        **training_fields(extra),
    )
    # The variables of the optimizer and of dropout belong to training.
    weights = {
        n: t for n, t in arrays.items() if "/optimizer/" not in n and "/seed_generator/" not in n
    }
    tensors, unused = mapping.translated(
        weights, metadata=metadata, column=KERAS_HUB, ignore=ignore
    )
    if f"{TASK_WEIGHTS}/optimizer/vars/{len(OPTIMIZER)}" in arrays:
        notes += (f"the optimizer's averages in {TASK_WEIGHTS} are not read",)
    return Checkpoint(
        metadata=metadata,
        tensors=tensors,
        vocabulary=fitted_vocabulary(vocabulary, metadata, pad_vocabulary=pad_vocabulary),
        unused=unused,
        notes=(*notes, *task_notes, *text_notes),
    )


def write(checkpoint: Checkpoint, folder: Path) -> tuple[str, ...]:
    """Writes a preset; see `formats.Format`."""
    metadata, vocabulary = checkpoint.metadata, checkpoint.vocabulary
    tensors = mapping.foreign_tensors(checkpoint.tensors, metadata=metadata, column=KERAS_HUB)
    notes = write_configs(metadata, folder, has_text=vocabulary is not None)
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
    if vocabulary is not None:
        vocabulary.save(folder / VOCABULARY)
    return notes


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
