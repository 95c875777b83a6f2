"""Reads and writes Google's TF1 checkpoints, which consist of these files.

bert_config.json                the hyperparameters of the encoder
vocab.txt                       the vocabulary; optional
bert_model.ckpt.{index,data-*}  the variables; a training checkpoint also has NAME/adam_m,
                                NAME/adam_v and global_step
checkpoint                      the name of the newest checkpoint if there are several
"""

import contextlib
import dataclasses
import re
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras.checkpoints import checkpoint as common
from bert_keras.checkpoints.checkpoint import Checkpoint, TrainingState
from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.config import BertConfig, ModelMetadata, numbered_labels
from bert_keras.errors import InputError, check_name, require
from bert_keras.families import FAMILIES, family_of
from bert_keras.files import json_object, write_json
from bert_keras.kinds.known import KINDS
from bert_keras.text.vocab import Vocabulary, seems_lowercase

CONFIG, VOCABULARY, PREFIX, PATHS = "bert_config.json", "vocab.txt", "bert_model.ckpt", "checkpoint"
STEP, MOMENTUM, VELOCITY = "global_step", "/adam_m", "/adam_v"
# Google's names of hyperparameters, and ours. Source: BertConfig in modeling.py of
# google-research/bert.
HYPERPARAMETERS = {
    "attention_probs_dropout_prob": "attention_dropout_rate",
    "hidden_dropout_prob": "hidden_dropout_rate",
    "hidden_size": "hidden_size",
    "initializer_range": "initializer_stddev",
    "intermediate_size": "intermediate_size",
    "max_position_embeddings": "max_positions",
    "num_attention_heads": "num_heads",
    "num_hidden_layers": "num_layers",
    "type_vocab_size": "num_segments",
    "vocab_size": "vocab_size",
}
OPTIONAL = ("attention_probs_dropout_prob", "hidden_dropout_prob", "initializer_range")
# Google's names of activations, and ours: modeling.py computes "gelu" with the tanh approximation.
ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu", "tanh": "tanh"}
WRITTEN_ACTIVATIONS = {ours: name for name, ours in ACTIVATIONS.items()}
WRITTEN_ACTIVATIONS |= {"gelu": "gelu", "gelu_new": "gelu"}
LAYER_NORM_EPSILON = 1e-12  # the value in tf.contrib.layers.layer_norm, which modeling.py calls
# Fields of BertConfig that are stored under EXTRA_KEY if they differ from Google's values.
CHANGED = ("activation", "layer_norm_epsilon", "head_dropout_rate")


def recognises(path: Path) -> bool:
    """Returns whether `path` is a TF1 checkpoint, or a folder with one or with bert_config.json."""
    if path.is_dir():
        return (path / CONFIG).is_file() or any(path.glob("*.index"))
    return Path(f"{path}.index").is_file()


def read(path: Path, *, ignore: Collection[str]) -> Checkpoint:
    """Reads a TF1 checkpoint, without the training state if `ignore` contains STEP."""
    prefix = _find_prefix(path)
    stored = _stored_variables(prefix)
    steps = {STEP: stored.pop(STEP)} if STEP in stored else {}
    slots = {name: stored.pop(name) for name in list(stored) if name.endswith((MOMENTUM, VELOCITY))}
    variables = {name: tensor for name, tensor in stored.items() if name not in ignore}
    config, extra = read_config(prefix.with_name(CONFIG))
    config = dataclasses.replace(config, has_pooler="bert/pooler/dense/kernel" in variables)
    model = "BertEncoder"
    for name, kind in reversed(KINDS.items()):  # the first kind whose head is stored
        if kind.google_prefix and any(v.startswith(kind.google_prefix) for v in variables):
            model = name
    vocabulary = prefix.with_name(VOCABULARY)
    vocabulary = Vocabulary.from_file(vocabulary) if vocabulary.is_file() else None
    text = {"lowercase": seems_lowercase(vocabulary), "max_length": config.max_positions}
    metadata = ModelMetadata(model=model, config=config, **text)
    if model == "BertClassifier":
        labels = numbered_labels(variables["output_bias"].shape[0])
        metadata = dataclasses.replace(metadata, labels=labels)
        if len(extra.get("labels", labels)) != len(labels):  # Google's code trained another head
            extra = {n: extra[n] for n in extra if n not in ("labels", "problem_type", "task")}
    ours = partial(common.our_tensors, table=weight_names(config), is_transposed=is_transposed)
    state, unused = None, [name for name in stored if name in ignore]
    if slots and STEP in ignore:
        unused.append(STEP)
    elif slots:
        momentums, velocities = (
            ours({n.removesuffix(end): t for n, t in slots.items() if n.endswith(end)})
            for end in (MOMENTUM, VELOCITY)
        )
        step = int(steps[STEP].read())
        state = TrainingState(step=step, momentums=momentums, velocities=velocities)
    return Checkpoint(
        metadata=common.with_extra(metadata, extra),
        tensors=ours(variables),
        vocabulary=vocabulary,
        state=state,
        unused=tuple(unused),
    )


def stored_config(path: Path) -> BertConfig:
    """Returns the configuration in bert_config.json; see `formats.FORMATS`."""
    return read_config(_find_prefix(path).with_name(CONFIG))[0]


def write(checkpoint: Checkpoint, folder: Path) -> tuple[str, ...]:
    """Writes a TF1 checkpoint, training state included; see `formats.FORMATS`."""
    require("tensorflow", what="a checkpoint of Google's BERT")
    import tensorflow as tf

    metadata, state = checkpoint.metadata, checkpoint.state
    if family_of(metadata.config) is not FAMILIES["bert"] or metadata.embedding is not None:
        raise InputError(f"google cannot store this {metadata.model}, only models of BERT")
    notes, names = write_config(metadata, folder / CONFIG), weight_names(metadata.config)
    theirs = partial(
        common.their_tensors, table=names, is_transposed=is_transposed, format="google"
    )
    values: dict[str, Any] = {n: t.read() for n, t in theirs(checkpoint.tensors).items()}
    if state is not None:
        for end, averages in ((MOMENTUM, state.momentums), (VELOCITY, state.velocities)):
            values |= {f"{name}{end}": tensor.read() for name, tensor in theirs(averages).items()}
        values[STEP] = np.int64(state.step)
    if checkpoint.vocabulary is not None:
        checkpoint.vocabulary.save(folder / VOCABULARY)
    names = sorted(values)  # a Saver writes in this order
    with tf.device("CPU"):
        tf.raw_ops.SaveV2(
            prefix=str(folder / PREFIX),
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[tf.constant(values[name]) for name in names],
        )
    fields = ("model_checkpoint_path", "all_model_checkpoint_paths")
    (folder / PATHS).write_text("".join(f'{field}: "{PREFIX}"\n' for field in fields), "utf-8")
    if not metadata.config.has_pooler:
        notes += ("the model has no pooler: Google's code starts with a random one",)
    return notes


def weight_names(config: BertConfig) -> dict[str, str]:
    """Returns Google's names (modeling.py, run_*.py) of the weights of a model by public names."""
    # transformers has the same names with dots, except for the output layers of the heads.
    names = {}
    for ours, theirs in FAMILIES["bert"].weight_names.items():
        if not ours.endswith(("/dense", "/decoder")):
            name = f"bert{theirs}" if theirs.startswith(".") else theirs
            name = name.removesuffix(".weight").replace(".layer.", ".layer_")
            names[ours] = name.replace(".", "/")
    for kind in KINDS.values():
        names |= kind.google_weights
    return common.name_table(names, num_blocks=config.num_layers)


def is_transposed(name: str) -> bool:
    """Returns whether a weight is the output_weights of a head, stored as [outputs, D]."""
    return name.endswith("/dense/kernel")


def read_config(path: Path) -> tuple[BertConfig, dict[str, Any]]:
    """Reads bert_config.json: the configuration, with a pooler, and the value of EXTRA_KEY."""
    values = json_object(path)
    extra = values.pop(common.EXTRA_KEY, {})
    activation = values["hidden_act"]
    check_name(activation, ACTIVATIONS, what=f"hidden_act in {CONFIG}")
    keys = [key for key in HYPERPARAMETERS if key in values or key not in OPTIONAL]
    fields = {HYPERPARAMETERS[key]: values[key] for key in keys}
    fields |= {"activation": ACTIVATIONS[activation], "layer_norm_epsilon": LAYER_NORM_EPSILON}
    fields |= {name: extra[name] for name in CHANGED if name in extra}
    return BertConfig(**fields), extra


def write_config(metadata: ModelMetadata, path: Path) -> tuple[str, ...]:
    """Writes bert_config.json, and returns how Google's code differs."""
    config, notes = metadata.config, []
    check_name(config.activation, WRITTEN_ACTIVATIONS, what="activation of Google's BERT")
    if config.activation == "gelu":
        notes.append("Google's code approximates GELU by tanh: activations differ by up to 5e-4")
    if (epsilon := config.layer_norm_epsilon) != LAYER_NORM_EPSILON:
        theirs = f"Google's code has a LayerNorm epsilon of {LAYER_NORM_EPSILON}"
        notes.append(f"{theirs}, this model has {epsilon}")
    written = WRITTEN_ACTIVATIONS[config.activation]
    theirs = {"activation": ACTIVATIONS[written], "layer_norm_epsilon": LAYER_NORM_EPSILON}
    theirs["head_dropout_rate"] = BertConfig.head_dropout_rate
    extra = {n: getattr(config, n) for n in CHANGED if getattr(config, n) != theirs[n]}
    values = {key: getattr(config, field) for key, field in HYPERPARAMETERS.items()}
    values |= {"hidden_act": written}
    stated = {name: getattr(metadata, name) for name in common.EXTRA_FIELDS}
    write_json(path, values | {common.EXTRA_KEY: {**stated, **extra}})
    return tuple(notes)


def _find_prefix(path: Path) -> Path:
    """Returns the prefix of a checkpoint; if a folder has several, PATHS chooses one of them."""
    if not path.is_dir():
        return path
    matches = sorted(index.with_suffix("") for index in path.glob("*.index"))
    if len(matches) > 1 and (path / PATHS).is_file():
        text = (path / PATHS).read_text("utf-8", "replace")
        named = re.findall('^model_checkpoint_path: *"(.+)"', text, re.MULTILINE)
        names = [Path(name).name for name in named]
        matches = [prefix for prefix in matches if prefix.name in names] or matches
    if len(matches) != 1:
        names = ", ".join(map(str, matches)) or "PREFIX of PREFIX.index and PREFIX.data-*"
        raise InputError(f"{path} has {len(matches)} checkpoints; give the path of one: {names}")
    return matches[0]


def _stored_variables(prefix: Path) -> dict[str, StoredTensor]:
    """Returns the variables of a checkpoint, sorted by name; `read` returns floats as float32."""
    require("tensorflow", what="a checkpoint of Google's BERT")
    import tensorflow as tf

    @contextlib.contextmanager
    def reading(file: str) -> Iterator[None]:
        try:
            yield
        except (tf.errors.OpError, IndexError, ValueError) as error:  # IndexError: truncated
            raise InputError(
                f"{file} is missing or damaged ({error}); copy it again, in a clone by git lfs pull"
            ) from error

    with reading(f"{prefix}.index"):
        reader = tf.train.load_checkpoint(str(prefix))
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()

    def defer(name: str) -> StoredTensor:
        def read() -> np.ndarray:
            with reading(f"{prefix}.data-*"):
                array = reader.get_tensor(name)
            return np.asarray(array, np.float32) if dtypes[name].is_floating else array

        return StoredTensor(shapes[name], read)

    return {name: defer(name) for name in sorted(shapes)}
