"""Reads and writes Google's TF1 checkpoints, which consist of these files.

bert_config.json                the hyperparameters of the encoder
vocab.txt                       the vocabulary; optional
bert_model.ckpt.{index,data-*}  the variables; a training checkpoint also has NAME/adam_m,
                                NAME/adam_v and global_step
checkpoint                      the name of the newest checkpoint if there are several

The graph in bert_model.ckpt.meta is neither read nor written, because restoring variables does not
need it.
"""

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from bert_keras import architectures
from bert_keras.checkpoints import foreign, mapping
from bert_keras.checkpoints.checkpoint import Checkpoint, TrainingState, fitted_vocabulary
from bert_keras.checkpoints.google.variables import (
    checkpoint_prefix,
    stored_variables,
    write_variables,
)
from bert_keras.checkpoints.metadata import ModelMetadata, numbered_labels, seems_lowercase
from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.files import json_object
from bert_keras.text.vocab import Vocabulary

CONFIG = "bert_config.json"
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
LAYER_NORM_EPSILON = 1e-12  # the value in tf.contrib.layers.layer_norm, which modeling.py calls
# Fields of our config that are stored under EXTRA_KEY if they differ from Google's values.
CHANGED = ("activation", "layer_norm_epsilon")
# Keys in the files of the Chinese and multilingual models; modeling.py does not read them.
WITHOUT_EFFECT = (
    *("directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers"),
    *("pooler_size_per_head", "pooler_type"),
)
VOCABULARY, PREFIX = "vocab.txt", "bert_model.ckpt"
STEP, MOMENTUM, VELOCITY = "global_step", "/adam_m", "/adam_v"
# Google's names of our layers and weights. Source: modeling.py, run_pretraining.py,
# run_classifier.py and run_squad.py of google-research/bert.
BLOCK, GOOGLE_BLOCK = "encoder/layer_{}", "bert/encoder/layer_{}"
LAYERS = {
    "encoder/embeddings/token": "bert/embeddings/word_embeddings",
    "encoder/embeddings/position": "bert/embeddings/position_embeddings",
    "encoder/embeddings/segment": "bert/embeddings/token_type_embeddings",
    "encoder/embeddings/norm": "bert/embeddings/LayerNorm",
    f"{BLOCK}/attention/query": f"{GOOGLE_BLOCK}/attention/self/query",
    f"{BLOCK}/attention/key": f"{GOOGLE_BLOCK}/attention/self/key",
    f"{BLOCK}/attention/value": f"{GOOGLE_BLOCK}/attention/self/value",
    f"{BLOCK}/attention/output": f"{GOOGLE_BLOCK}/attention/output/dense",
    f"{BLOCK}/attention_norm": f"{GOOGLE_BLOCK}/attention/output/LayerNorm",
    f"{BLOCK}/feed_forward/intermediate": f"{GOOGLE_BLOCK}/intermediate/dense",
    f"{BLOCK}/feed_forward/output": f"{GOOGLE_BLOCK}/output/dense",
    f"{BLOCK}/feed_forward_norm": f"{GOOGLE_BLOCK}/output/LayerNorm",
    "encoder/pooler": "bert/pooler/dense",
    "masked_lm/transform": "cls/predictions/transform/dense",
    "masked_lm/norm": "cls/predictions/transform/LayerNorm",
    "masked_lm/output_bias": "cls/predictions/output_bias",
    "next_sentence/dense/kernel": "cls/seq_relationship/output_weights",
    "next_sentence/dense/bias": "cls/seq_relationship/output_bias",
    "span/dense/kernel": "cls/squad/output_weights",
    "span/dense/bias": "cls/squad/output_bias",
    "classification/dense/kernel": "output_weights",
    "classification/dense/bias": "output_bias",
}
GOOGLE = mapping.NameColumn(
    format="google",
    name=lambda name, metadata: mapping.renamed(name, LAYERS),
    # The output_weights of a head are stored as [outputs, D].
    is_transposed=lambda name: name.endswith("/dense/kernel"),
)
# The model class of a checkpoint by the start of a variable name; the first match decides.
MODELS = {
    "cls/seq_relationship/": architectures.PRETRAINER.name,
    "cls/predictions/": architectures.MASKED_LM.name,
    "cls/squad/": architectures.QUESTION_ANSWERING.name,
    "output_weights": architectures.CLASSIFIER.name,
}


def recognises(path: Path) -> bool:
    """Returns whether `path` is a TF1 checkpoint, or a folder with one or with bert_config.json."""
    if path.is_dir():
        return (path / CONFIG).is_file() or any(path.glob("*.index"))
    return Path(f"{path}.index").is_file()


def read(path: Path, *, ignore: Collection[str], pad_vocabulary: bool) -> Checkpoint:
    """Reads a TF1 checkpoint; see `formats.Format`.

    `ignore` may name variables and keys of bert_config.json. The name "global_step" leaves out the
    whole training state.
    """
    prefix = checkpoint_prefix(path)
    variables = stored_variables(prefix)
    step = variables.pop(STEP, None)
    slots = {n: variables.pop(n) for n in [*variables] if n.endswith((MOMENTUM, VELOCITY))}
    tensors = {name: tensor for name, tensor in variables.items() if name not in ignore}
    config, extra = read_config(prefix.with_name(CONFIG), ignore=ignore)
    has_pooler = "bert/pooler/dense/kernel" in tensors
    heads = (m for start, m in MODELS.items() if any(n.startswith(start) for n in tensors))
    model = next(heads, architectures.ENCODER.name)
    path = prefix.with_name(VOCABULARY)
    vocabulary = Vocabulary.from_file(path) if path.is_file() else None
    labels = ()
    if model == architectures.CLASSIFIER.name:
        bias = tensors.get("output_bias")
        count = bias.shape[0] if bias is not None and bias.shape else 1
        labels = tuple(extra.get("labels", ())) or numbered_labels(count)
    metadata = ModelMetadata(
        model=model,
        config=dataclasses.replace(config, has_pooler=has_pooler),
        lowercase=extra.get("lowercase", seems_lowercase(vocabulary)),
        max_length=extra.get("max_length", config.max_positions),
        labels=labels,
        **foreign.training_fields(extra),
    )
    has_state = bool(slots or step)
    names = (*variables, *((STEP,) if has_state else ()))
    return Checkpoint(
        metadata=metadata,
        tensors=mapping.translated(tensors, metadata=metadata, column=GOOGLE)[0],
        vocabulary=fitted_vocabulary(vocabulary, metadata, pad_vocabulary=pad_vocabulary),
        state=_state(slots, step, metadata, ignore) if has_state and STEP not in ignore else None,
        unused=tuple(name for name in names if name in ignore),
    )


def _state(
    slots: Mapping[str, StoredTensor],
    step: StoredTensor | None,
    metadata: ModelMetadata,
    ignore: Collection[str],
) -> TrainingState:
    remedy = f"to ignore the training state: {foreign.how_to_ignore(*ignore, STEP)}"
    if not slots or step is None:
        stored, absent = (STEP, "adam_m and adam_v") if step else ("adam_m and adam_v", STEP)
        raise InputError(f"the checkpoint has {stored} but no {absent}; {remedy}")

    def averages(suffix: str) -> dict[str, StoredTensor]:
        variables = {n.removesuffix(suffix): t for n, t in slots.items() if n.endswith(suffix)}
        try:
            return mapping.translated_averages(variables, metadata=metadata, column=GOOGLE)
        except InputError as error:
            raise InputError(f"in the variables {suffix}, {error}; {remedy}") from error

    return TrainingState(
        step=int(step.read()), momentums=averages(MOMENTUM), velocities=averages(VELOCITY)
    )


def write(checkpoint: Checkpoint, folder: Path) -> tuple[str, ...]:
    """Writes a TF1 checkpoint, training state included; see `formats.Format`."""
    metadata, state = checkpoint.metadata, checkpoint.state
    notes = write_config(metadata, folder / CONFIG)
    variables = mapping.foreign_tensors(checkpoint.tensors, metadata=metadata, column=GOOGLE)
    integers = {}
    if state is not None:
        for suffix, averages in ((MOMENTUM, state.momentums), (VELOCITY, state.velocities)):
            slots = mapping.foreign_tensors(averages, metadata=metadata, column=GOOGLE)
            variables |= {f"{name}{suffix}": tensor for name, tensor in slots.items()}
        integers = {STEP: state.step}
    if checkpoint.vocabulary is not None:
        checkpoint.vocabulary.save(folder / VOCABULARY)
    write_variables(folder / PREFIX, variables, integers=integers)
    if not metadata.config.has_pooler:
        notes += ("the model has no pooler: Google's code starts with a random one",)
    return notes


def read_config(path: Path, *, ignore: Collection[str]) -> tuple[BertConfig, dict[str, Any]]:
    """Reads bert_config.json.

    Args:
        path: The file.
        ignore: Unknown keys that the caller allows.

    Returns:
        The configuration, with a pooler, and the value of EXTRA_KEY, {} if the file has none.

    Raises:
        InputError: The file is missing, a key is missing or unknown, or a value is impossible.
    """
    if not path.is_file():
        raise InputError(f"{path} is missing; add the file with the hyperparameters of the model")
    values = json_object(path)
    extra = foreign.checked_extra(values.pop(foreign.EXTRA_KEY, {}), path, others=CHANGED)
    foreign.check_keys(
        values,
        path,
        required=[*(name for name in HYPERPARAMETERS if name not in OPTIONAL), "hidden_act"],
        optional=(*OPTIONAL, *WITHOUT_EFFECT),
        ignore=ignore,
        reader="Google's BERT",
    )
    activation = values["hidden_act"]
    if activation not in [*ACTIVATIONS]:  # a list, because a JSON value may be unhashable
        raise InputError(
            f"{path}: hidden_act is {activation!r}; expected one of {', '.join(ACTIVATIONS)}"
        )
    fields = {field: values[key] for key, field in HYPERPARAMETERS.items() if key in values}
    fields |= {"activation": ACTIVATIONS[activation], "layer_norm_epsilon": LAYER_NORM_EPSILON}
    fields |= {name: extra[name] for name in CHANGED if name in extra}
    return foreign.config_of(fields, path), extra


def write_config(metadata: ModelMetadata, path: Path) -> tuple[str, ...]:
    """Writes bert_config.json.

    Returns:
        One sentence for each hyperparameter for which Google's code uses another value.

    Raises:
        InputError: Google's BERT does not have the activation.
    """
    config, notes = metadata.config, []
    activations = {ours: name for name, ours in ACTIVATIONS.items()} | {"gelu": "gelu"}
    if config.activation not in activations:
        raise InputError(
            f"Google's BERT has no activation {config.activation}; choose another format"
        )
    extra = foreign.stored_fields(metadata)
    if config.activation == "gelu":
        extra["activation"] = config.activation
        notes.append(
            "Google's code approximates GELU by tanh, this model computes it exactly: an "
            "activation differs by up to 5e-4"
        )
    if config.layer_norm_epsilon != LAYER_NORM_EPSILON:
        extra["layer_norm_epsilon"] = config.layer_norm_epsilon
        notes.append(
            f"Google's code has a LayerNorm epsilon of {LAYER_NORM_EPSILON}, this model has "
            f"{config.layer_norm_epsilon}"
        )
    values = {key: getattr(config, field) for key, field in HYPERPARAMETERS.items()}
    values |= {"hidden_act": activations[config.activation], foreign.EXTRA_KEY: extra}
    foreign.write_json(path, values)
    return tuple(notes)
