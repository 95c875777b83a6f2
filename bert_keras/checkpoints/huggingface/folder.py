"""Reads and writes the folders of BERT and its relatives in Hugging Face's transformers.

config.json         hyperparameters, class and labels; see config.py
model.safetensors   the weights, or their shards, or pytorch_model.bin
vocab.txt, tokenizer.json, ...    the tokenizer; see tokenizer.py
"""

import dataclasses
import pickle
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from bert_keras.checkpoints.checkpoint import (
    EXTRA_KEY,
    Checkpoint,
    cannot_store,
    name_table,
    our_tensors,
    their_tensors,
    with_extra,
)
from bert_keras.checkpoints.huggingface import config as config_file
from bert_keras.checkpoints.huggingface.tokenizer import read_tokenizer, write_tokenizer
from bert_keras.checkpoints.tensors import StoredTensor, stored_tensors, write_tensors
from bert_keras.config import SIGMOID, BertConfig, ModelMetadata
from bert_keras.errors import InputError
from bert_keras.families import family_of
from bert_keras.families.family import Family
from bert_keras.files import inner_path, json_object
from bert_keras.kinds.known import KINDS

SAFETENSORS, TORCH, INDEX = "model.safetensors", "pytorch_model.bin", ".index.json"
FILES = (SAFETENSORS, f"{SAFETENSORS}{INDEX}", TORCH, f"{TORCH}{INDEX}")  # in order of precedence
# Values that older versions of transformers stored beside the weights.
BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")


def recognises(path: Path) -> bool:
    """Returns whether the folder has weights or config.json of transformers."""
    is_config = (path / config_file.CONFIG).is_file() and not any(path.glob("*.index"))
    return is_config or any((path / name).is_file() for name in FILES)


def read(path: Path, *, ignore: Collection[str]) -> Checkpoint:
    """Reads a folder of transformers; see `formats.FORMATS`."""
    values, family = config_file.read_values(path)
    config = config_file.read_config(values, family)
    named_model = config_file.read_architecture(values, family, ignore=ignore)
    prefix, stored = f"{family.prefix or family.kind}.", {}
    for name, tensor in stored_weights(path).items():  # older files have gamma and beta
        name = name.removeprefix("module.").replace(".LayerNorm.gamma", ".LayerNorm.weight")
        stored[name.replace(".LayerNorm.beta", ".LayerNorm.bias").removeprefix(prefix)] = tensor
    stored = _native_weights(stored, family)
    starts = tuple(family.unused_weights)
    unused = [name for name in stored if name in ignore or name.startswith(starts)]
    heads = [each.name for each in sorted(path.glob("*_linear.pt"))]  # of bge-m3
    weights = {name: tensor for name, tensor in stored.items() if name not in unused}
    _drop_copies(weights, family, config)
    model = _find_model(weights, named_model, family, config)
    table = weight_names(family, model, config)
    weights = _reordered(weights, family, config)
    tensors = our_tensors(weights, table, is_transposed=is_transposed)
    labels, problem_type = (), ""
    if KINDS[model].is_labelled:
        head = KINDS[model].heads[0]
        labels = config_file.read_labels(values, tensors[f"{head}/dense/bias"].shape[0])
    if model == "BertClassifier":
        problem_type = config_file.read_problem_type(path, values, num_labels=len(labels))
    name, has_segments = values.get("tokenizer_class"), config.num_segments > 1
    tokenizer = read_tokenizer(path, tokenizer_class=name, has_segments=has_segments, ignore=ignore)
    has_pooler = KINDS[model].reads_pooled_output or "encoder/pooler/kernel" in tensors
    metadata = ModelMetadata(
        model=model,
        config=dataclasses.replace(config, has_pooler=has_pooler),
        lowercase=tokenizer.lowercase,
        max_length=min(tokenizer.max_length or config.max_positions, config.max_positions),
        shortens_first=True,  # as transformers does
        labels=labels,
        problem_type=problem_type,
        task={"name": "regression", "kind": "probability"} if problem_type == SIGMOID else {},
    )
    extra = values.get(EXTRA_KEY, {})
    if extra.get("model") == model:  # transformers keeps it even if it saves another class
        metadata = with_extra(metadata, extra)
    return Checkpoint(
        metadata=metadata,
        tensors=tensors,
        vocabulary=tokenizer.vocabulary,
        unused=(*unused, *heads),
        notes=tokenizer.notes,
    )


def stored_config(path: Path) -> BertConfig:
    """Returns the configuration in config.json; see `formats.FORMATS`."""
    return config_file.read_config(*config_file.read_values(path))


def write(checkpoint: Checkpoint, folder: Path) -> tuple[str, ...]:
    """Writes weights, config.json and tokenizer files; see `formats.FORMATS`."""
    metadata, vocabulary, notes = checkpoint.metadata, checkpoint.vocabulary, ()
    config, model = metadata.config, metadata.model
    family = family_of(config, vocabulary)
    if family is None or model not in config_file.transformers_classes(family):
        what = f"this {model}{f' of {family.kind}' if family else ''}"
        raise cannot_store(what, format="huggingface")
    is_bare = model == "BertEncoder"
    table = weight_names(family, model, config, is_bare=is_bare)
    tensors = their_tensors(
        checkpoint.tensors, table, is_transposed=is_transposed, format="huggingface"
    )
    tensors = _reordered(tensors, family, config, is_ours=True)
    if vocabulary is not None and (padding := family.fixed_values.get("pad_token_id")) is not None:
        found, expected = {"pad_token_id": vocabulary.pad_id}, {"pad_token_id": padding}
        config_file.check_fixed(found, expected, file=f"the {config_file.CONFIG} of {family.kind}")
    config_file.write_config(metadata, folder, family=family, vocabulary=vocabulary)
    if vocabulary is not None:
        notes += write_tokenizer(metadata, vocabulary, folder)
    write_tensors(folder / SAFETENSORS, tensors, metadata={"format": "pt"})
    class_name = config_file.transformers_classes(family)[model]
    has_pooler = family.has_pooler if is_bare else KINDS[model].reads_pooled_output
    if has_pooler and not config.has_pooler:
        notes += (f"the model has no pooler: {class_name} starts with a random one",)
    if config.has_pooler and not has_pooler:
        notes += (f"{class_name} has no pooler: transformers ignores this model's pooler",)
    head = (config.masked_lm_activation or config.activation, config.masked_lm_epsilon)
    theirs = "gelu" if family.has_gelu_head else config.activation
    theirs = family.traits.get("masked_lm_activation", theirs)
    if "masked_lm" in KINDS[model].heads and head != (theirs, 0.0):
        own = "activation or epsilon of its own, which the format cannot state"
        notes += (f"the masked-LM head has an {own}: logits differ by up to 2e-3",)
    return notes


def weight_names(
    family: Family, model: str, config: BertConfig, *, is_bare: bool = True
) -> dict[str, str]:
    """Returns the names of weights in transformers by their public names.

    Args:
        model: The name of our model class.
        is_bare: Whether the names of the encoder begin without a prefix such as "bert.".
    """
    prefix = "" if is_bare else f"{family.prefix or family.kind}."
    parts = ("encoder", "next_sentence", *KINDS[model].heads)
    names = {**KINDS[model].weight_names, **family.weight_names}
    names |= family.model_weight_names.get(model, {})
    layers = {
        ours: prefix + theirs[1:] if theirs.startswith(".") else theirs
        for ours, theirs in names.items()
        if ours.partition("/")[0] in parts
    }
    num_blocks = 1 if config.shares_layers else config.num_layers
    return name_table(layers, num_blocks=num_blocks, suffixes=(".weight", ".bias"))


def is_transposed(name: str) -> bool:
    """Returns whether transformers stores the transpose of the weight with this public name."""
    return name.endswith("/kernel")


def _native_weights(stored: Mapping[str, StoredTensor], family: Family) -> dict[str, StoredTensor]:
    """Gives published weights their names in transformers, and divides them."""
    native = {}
    for name, tensor in stored.items():
        names = [name]
        for published, parts in family.published_names.items():
            if published in name:
                parts = (parts,) if isinstance(parts, str) else parts
                names = [each.replace(published, part) for part in parts for each in names]
        native |= zip(names, tensor.split(len(names)), strict=True)
    return native


def _reordered(
    weights: dict[str, StoredTensor], family: Family, config: BertConfig, *, is_ours: bool = False
) -> dict[str, StoredTensor]:
    """Brings the rows of their weights into our order, or, if `is_ours`, back into theirs."""
    orders = {name: family.row_order(name, config) for name in weights}
    return weights | {
        name: weights[name].reordered(np.argsort(rows) if is_ours else rows)
        for name, rows in orders.items()
        if rows is not None
    }


def _find_model(
    weights: Mapping[str, StoredTensor], named_model: str, family: Family, config: BertConfig
) -> str:
    """Returns the model class whose heads are among the weights."""
    # If the weights of several heads have the same names, the class in config.json decides. For
    # bert-base-uncased, which has two heads, config.json names a class with one of them.
    found = [
        model
        for model, kind in KINDS.items()
        if model in config_file.transformers_classes(family)
        and weight_names(family, model, config).get(kind.head_weight) in weights
    ]
    if "BertMaskedLM" in found:
        names = weight_names(family, "BertPretrainer", config)
        return "BertPretrainer" if names.get("next_sentence/dense/kernel") in weights else found[0]
    if len(found) > 1 and named_model not in found:
        classes = ", ".join(config_file.transformers_classes(family)[model] for model in found)
        raise InputError(
            f"the head can be of {classes}; name it in the architectures of {config_file.CONFIG}"
        )
    return named_model if named_model in found else next(iter(found), "BertEncoder")


def stored_weights(folder: Path) -> dict[str, StoredTensor]:
    """Returns the arrays of a folder under their names in the file."""
    file = next((file for file in FILES if (folder / file).is_file()), SAFETENSORS)
    shards = [file]
    if file.endswith(INDEX):
        shards = sorted(set(json_object(folder / file)["weight_map"].values()))
    read = _read_torch_tensors if file.startswith(TORCH) else stored_tensors
    paths = [inner_path(folder, shard) for shard in shards]
    return {name: tensor for path in paths for name, tensor in read(path).items()}


def _read_torch_tensors(path: Path) -> dict[str, StoredTensor]:
    """Reads a pytorch_model.bin without running pickled code."""
    try:
        import torch

        if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6):  # CVE-2025-32434
            raise ImportError("an older PyTorch can run code of the file")
        tensors = torch.load(path, map_location="cpu", weights_only=True)
        arrays = {name: tensor.detach().float().numpy() for name, tensor in tensors.items()}
    except (ImportError, pickle.UnpicklingError, RuntimeError, EOFError, AttributeError) as error:
        raise InputError(
            f"{path} cannot be read: pip install torch>=2.6, save it as {SAFETENSORS}, or, in a "
            "clone, git lfs pull"
        ) from error
    return {name: StoredTensor(a.shape, lambda a=a: a) for name, a in arrays.items()}


def _drop_copies(weights: dict[str, StoredTensor], family: Family, config: BertConfig) -> None:
    """Removes buffers and the copies of tied weights; raises InputError if a copy differs."""
    for name in BUFFERS:
        weights.pop(name, None)
    names = weight_names(family, "BertMaskedLM", config)
    if "masked_lm/decoder" not in names:
        return
    decoder, bias = names["masked_lm/decoder"], names["masked_lm/output_bias"]
    copies = {decoder.replace(".weight", ".bias"): bias}
    if config.ties_decoder:
        copies[decoder] = names["encoder/embeddings/token"]
    for copy, first in copies.items():
        if copy in weights and copy != first:
            tensor = weights.pop(copy)
            if not np.array_equal(weights.setdefault(first, tensor).read(), tensor.read()):
                raise InputError(
                    f"{copy} and {first} differ; the model has only the second: ignore=({copy!r},)"
                )
