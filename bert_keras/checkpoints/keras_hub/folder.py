"""Reads and writes KerasHub's preset folders, those of `save_to_preset` and `from_preset`.

config.json, model.weights.h5       BertBackbone; many shards where model.weights.json says so
task.json, task.weights.h5          the head of a BertMaskedLM or BertTextClassifier
tokenizer.json, preprocessor.json, assets/tokenizer/vocabulary.txt
metadata.json                       has our key

The files are read and written as they are, without keras_hub: no model is built for it.
"""

import re
from collections.abc import Collection
from functools import partial
from pathlib import Path

import numpy as np

from bert_keras.architectures import CLASSIFIER, ENCODER, MASKED_LM
from bert_keras.checkpoints.card import ModelCard, numbered_labels, seems_lowercase
from bert_keras.checkpoints.checkpoint import Checkpoint, fitting
from bert_keras.checkpoints.foreign import training_fields
from bert_keras.checkpoints.keras_hub import weights
from bert_keras.checkpoints.keras_hub.config import (
    CONFIG,
    METADATA,
    read_config,
    read_own,
    read_task,
    read_text,
    write_configs,
)
from bert_keras.checkpoints.mapping import Column, foreign_tensors, renamed, rows, translated
from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.errors import InputError
from bert_keras.text.vocab import Vocabulary

VOCABULARY = Path("assets/tokenizer/vocabulary.txt")
WEIGHTS, SHARDS, TASK_WEIGHTS = "model.weights.h5", "model.weights.json", "task.weights.h5"
# Our layers and weights to KerasHub's.
BLOCK, HUB_BLOCK = "encoder/layer_{}", "transformer_layer_{}"
NAMES = {
    "encoder/embeddings/token": "token_embedding/embeddings",
    "encoder/embeddings/position": "position_embedding/embeddings",
    "encoder/embeddings/segment": "segment_embedding/embeddings",
    "encoder/embeddings/norm": "embeddings_layer_norm",
    f"{BLOCK}/attention/query": f"{HUB_BLOCK}/self_attention_layer/query",
    f"{BLOCK}/attention/key": f"{HUB_BLOCK}/self_attention_layer/key",
    f"{BLOCK}/attention/value": f"{HUB_BLOCK}/self_attention_layer/value",
    f"{BLOCK}/attention/output": f"{HUB_BLOCK}/self_attention_layer/attention_output",
    f"{BLOCK}/attention_norm": f"{HUB_BLOCK}/self_attention_layer_norm",
    f"{BLOCK}/feed_forward/intermediate": f"{HUB_BLOCK}/feedforward_intermediate_dense",
    f"{BLOCK}/feed_forward/output": f"{HUB_BLOCK}/feedforward_output_dense",
    f"{BLOCK}/feed_forward_norm": f"{HUB_BLOCK}/feedforward_layer_norm",
    "encoder/pooler": "pooled_dense",
    "masked_lm/transform": "mlm_head/intermediate_dense",
    "masked_lm/norm": "mlm_head/intermediate_layer_norm",
    "masked_lm/output_bias": "mlm_head/output_bias",
    "classification/dense": "logits",
}
KERAS_HUB = Column(
    format="keras_hub",
    name=lambda name, card: renamed(name, NAMES),
    is_reshaped=True,  # its attention arrays are cut into heads
)
# A file of weights names a layer by its class and its turn among those of its class, and its
# weights by theirs: kernel before bias, gamma before beta.
LAYERS = {
    "token_embedding": "reversible_embedding",
    "segment_embedding": "embedding",
    "embeddings_layer_norm": "layer_normalization",
    "pooled_dense": "dense",
    "mlm_head": "masked_lm_head",
    "logits": "dense",
}
ATTENTION = {
    "query": "query_dense",
    "key": "key_dense",
    "value": "value_dense",
    "attention_output": "output_dense",
}
HEADS = {MASKED_LM.name: "mlm_head/", CLASSIFIER.name: "logits/"}
# What `from_preset` compiles a head with, and warns of where it is not there: Adam's step and rate.
OPTIMIZER = {"optimizer/vars/0": np.int64(0), "optimizer/vars/1": np.float32(5e-5)}


def recognises(path: Path) -> bool:
    """Returns whether there are weights of KerasHub or its config.json."""
    if not (path / CONFIG).is_file():
        return any((path / name).is_file() for name in (WEIGHTS, SHARDS))
    text = (path / CONFIG).read_text("utf-8", "replace")
    return any(f'"{key}"' in text for key in ("registered_name", "class_name"))  # a Keras object's


def read(path: Path, *, ignore: Collection[str], pad_vocabulary: bool) -> Checkpoint:
    """`ignore` names arrays, such as task.weights.h5/layers/dense/vars/0, and fields of config.json
    that may be left over.
    """
    own = read_own(path)
    config, notes = read_config(path, own, ignore=ignore)
    backbone, head = _backbone_arrays(path), {}
    if (path / TASK_WEIGHTS).is_file():
        head = weights.stored_tensors(path / TASK_WEIGHTS)
    model = _model(head)
    if own.get("labels") and model != CLASSIFIER.name:
        raise InputError(
            f"{path / TASK_WEIGHTS} is missing or without the classifier that {METADATA} tells of; "
            f"put it there, or remove {METADATA} to take the rest alone"
        )
    num_labels, task_notes = read_task(path, model)
    lowercase, max_length, text_notes = read_text(path, own, config)
    vocabulary = None
    if (path / VOCABULARY).is_file():
        vocabulary = Vocabulary.from_file(path / VOCABULARY)
    card = ModelCard(
        model=model,
        config=config,
        lowercase=seems_lowercase(vocabulary) if lowercase is None else lowercase,
        max_length=max_length,
        labels=tuple(own.get("labels", ())) or numbered_labels(num_labels),
        **training_fields(own),
    )
    foreign = _by_name(backbone, card, WEIGHTS) | _by_name(head, card, TASK_WEIGHTS)
    tensors, left_over = translated(foreign, card=card, column=KERAS_HUB, ignore=ignore)
    _refuse_other_cuts(foreign, card)
    if f"optimizer/vars/{len(OPTIMIZER)}" in head:
        notes += (f"the optimizer's averages in {TASK_WEIGHTS} stay behind",)
    return Checkpoint(
        card=card,
        tensors=tensors,
        vocabulary=fitting(vocabulary, card, pad_vocabulary=pad_vocabulary),
        left_over=left_over,
        notes=(*notes, *task_notes, *text_notes),
    )


def write(checkpoint: Checkpoint, folder: Path) -> tuple[str, ...]:
    """Writes a preset; see `formats.Format`."""
    card, vocabulary = checkpoint.card, checkpoint.vocabulary
    notes = write_configs(card, folder, has_text=vocabulary is not None)
    tensors = foreign_tensors(checkpoint.tensors, card=card, column=KERAS_HUB)
    backbone, head, shapes = {}, {}, _shapes(card)
    for name, tensor in tensors.items():
        file = head if _is_of_head(name) else backbone
        file[_place(name)] = tensor.reshaped(shapes[name])
    weights.write_tensors(folder / WEIGHTS, backbone)
    if head:
        for place, value in OPTIMIZER.items():
            head[place] = StoredTensor((), partial(np.array, value))
        weights.write_tensors(folder / TASK_WEIGHTS, head)
    if vocabulary is not None:
        vocabulary.save(folder / VOCABULARY)
    return notes


def _backbone_arrays(path: Path) -> dict[str, StoredTensor]:
    if (path / WEIGHTS).is_file() or not (path / SHARDS).is_file():
        return weights.stored_tensors(path / WEIGHTS)
    found = {}
    # Named by Keras, which fills them one after another; whatever is missing is named later.
    for shard in sorted(path.glob("model_*.weights.h5")):
        found |= weights.stored_tensors(shard)
    return found


def _model(head: dict[str, StoredTensor]) -> str:
    for model, start in HEADS.items():
        if any(place.startswith(f"layers/{LAYERS[start[:-1]]}/") for place in head):
            return model
    return ENCODER.name


def _is_of_head(name: str) -> bool:
    return name.startswith(tuple(HEADS.values()))


def _place(name: str) -> str:
    """Where a weight lies in its file: `pooled_dense/bias` in `layers/dense/vars/1`."""
    outer, *inner, kind = name.split("/")
    if outer.startswith("transformer_layer_"):
        number = outer.removeprefix("transformer_layer_")
        outer = "transformer_encoder" if number == "0" else f"transformer_encoder_{number}"
    inner = [ATTENTION.get(layer, f"_{layer}") for layer in inner]
    turn = "1" if kind in ("bias", "beta") else "0"
    return "/".join(["layers", LAYERS.get(outer, outer), *inner, "vars", turn])


def _by_name(
    stored: dict[str, StoredTensor], card: ModelCard, file: str
) -> dict[str, StoredTensor]:
    """The arrays of one file by the names of their layers; others by file and place."""
    known = {_place(n): n for n in _shapes(card) if _is_of_head(n) == (file == TASK_WEIGHTS)}
    found = {}
    for place, tensor in stored.items():
        # Older Keras wrote these two otherwise; today's reads them still.
        today = place.replace("_layer_checkpoint_dependencies/", "layers/")
        today = re.sub("/_((query|key|value|output)_dense/)", r"/\1", today)
        if not today.startswith("optimizer/") and "seed_generator/" not in today:
            found[known.get(today, f"{file}/{place}")] = tensor
    return found


def _shapes(card: ModelCard) -> dict[str, tuple[int, ...]]:
    """KerasHub's shapes, whose attention arrays are cut into heads."""
    size, heads = card.config.hidden_size, card.config.num_heads
    cut, shapes = (heads, size // heads), {}
    for row in rows(card):
        name = KERAS_HUB.name(row.name, card)
        layer, kind = name.split("/")[-2:]
        is_kernel = (size,) if kind == "kernel" else ()
        if layer in ("query", "key", "value"):
            shapes[name] = (*is_kernel, *cut)
        elif layer == "attention_output" and is_kernel:
            shapes[name] = (*cut, size)
        else:
            shapes[name] = row.shape
    return shapes


def _refuse_other_cuts(foreign: dict[str, StoredTensor], card: ModelCard) -> None:
    """Arrays of the right size may still be cut into other heads."""
    faults = [
        f"{name} is {foreign[name].shape}, expected {shape}"
        for name, shape in _shapes(card).items()
        if foreign[name].shape != shape
    ]
    if faults:
        raise InputError(
            f"the weights are not those of {card.config.num_heads} attention heads: "
            f"{'; '.join(faults)}"
        )
