"""Reads and writes the folders of sentence-transformers, which consist of these files.

modules.json                        the modules in order, each with its class and its subfolder
config.json, model.safetensors ...  the encoder, a folder of transformers
sentence_bert_config.json           the maximum length of an input
1_Pooling/config.json               the pooling, as one value or as a flag for each kind
2_Dense/..., 3_Normalize            the modules after the pooling
config_sentence_transformers.json   prompts and the similarity function
"""

import json
import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from bert_keras.checkpoints.checkpoint import Checkpoint, cannot_store, our_tensors, their_tensors
from bert_keras.checkpoints.huggingface import folder as huggingface
from bert_keras.checkpoints.huggingface.config import CONFIG, check_fixed, note_if_ignored
from bert_keras.checkpoints.huggingface.tokenizer import sentence_settings
from bert_keras.checkpoints.tensors import write_tensors
from bert_keras.config import BertConfig, DenseModule, EmbeddingConfig, NormalizeModule
from bert_keras.errors import InputError, check_name
from bert_keras.files import existing_file, inner_path, json_object, optional_json, write_json

MODULES, SETTINGS = "modules.json", "config_sentence_transformers.json"
SENTENCES = "sentence_bert_config.json"
LIBRARY = "sentence_transformers"
TRANSFORMER, POOLING, DENSE, NORMALIZE = "Transformer", "Pooling", "Dense", "Normalize"
DROPOUT = "Dropout"  # a module that has no effect outside of training
# The flags of the poolings, which all versions read. Version 6 writes `pooling_mode` instead.
FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
}
ACTIVATIONS = {
    "torch.nn.modules.linear.Identity": "identity",
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.activation.GELU": "gelu",
    "torch.nn.modules.activation.ReLU": "relu",
}
# The only supported value of each key; other values would change what a module computes.
FIXED = {
    "transformer_task": "feature-extraction",
    "module_input_name": "sentence_embedding",
    "use_residual": False,
    "include_prompt": True,
}


def recognises(path: Path) -> bool:
    """Returns whether the folder contains a modules.json or, without it, a pooling module."""
    return (path / MODULES).is_file() or (path / "1_Pooling").is_dir()


def read(path: Path, *, ignore: Collection[str]) -> Checkpoint:
    """Reads a folder, or only its encoder if it has no other module; see `formats.FORMATS`."""
    (first, folder), *modules = _read_modules(path)
    names, notes = [name for name, _ in modules], []
    is_known = {*names[1:]} <= {DENSE, NORMALIZE, DROPOUT}
    if first != TRANSFORMER or (names and names[0] != POOLING) or not is_known:
        raise InputError(
            f"{MODULES} lists {', '.join([first, *names])}; expected {TRANSFORMER}, {POOLING} and "
            f"then {DENSE}, {NORMALIZE} or {DROPOUT}; the encoder alone is in {folder}"
        )
    checkpoint = huggingface.read(folder, ignore=ignore)
    if not modules:
        return checkpoint
    settings = sentence_settings(folder)
    dimensions = optional_json(path / SETTINGS).get("truncate_dim")
    check_fixed(settings, FIXED, file=SENTENCES)
    if settings.get("do_lower_case") and not checkpoint.metadata.lowercase:
        problem = f"{SENTENCES} lower-cases texts before a cased tokenizer; bert-keras does not"
        notes.append(note_if_ignored("do_lower_case", problem, ignore=ignore))
    if dimensions is not None:
        problem = f"{SETTINGS} cuts embeddings to {dimensions} values; encode(dimensions=...) does"
        notes.append(note_if_ignored("truncate_dim", problem, ignore=ignore))
    embedding = _read_embedding(path, modules)
    tensors, metadata = dict(checkpoint.tensors), checkpoint.metadata
    for index, folder in enumerate(folder for name, folder in modules if name == DENSE):
        stored, table = huggingface.stored_weights(folder), _dense_names(index)
        tensors |= our_tensors(stored, table, is_transposed=huggingface.is_transposed)
    keeps_head = metadata.model == "BertEncoder"
    metadata = metadata.of_model("BertSentenceEncoder", keeps_head=keeps_head, embedding=embedding)
    notes += checkpoint.notes
    return replace(checkpoint, metadata=metadata, tensors=tensors, notes=tuple(notes))


def stored_config(path: Path) -> BertConfig:
    """Returns the configuration of the encoder; see `formats.FORMATS`."""
    return huggingface.stored_config(_read_modules(path)[0][1])


def _read_modules(path: Path) -> list[tuple[str, Path]]:
    """Returns the class and the folder of each module in modules.json."""
    modules = json.loads(existing_file(path / MODULES).read_text(encoding="utf-8"))
    # A class of another library keeps its full name, which `read` does not support.
    names = [re.sub(rf"^{LIBRARY}\..*\.", "", each["type"]) for each in modules]
    folders = [inner_path(path, each["path"]) for each in modules]
    return list(zip(names, folders, strict=True))


def _read_embedding(path: Path, modules: list[tuple[str, Path]]) -> EmbeddingConfig:
    """Returns the pooling, the modules after it and the settings of a folder."""
    (_, folder), *others = modules
    values = _read_module(folder)
    stated = values.get("pooling_mode")
    modes = [stated] if isinstance(stated, str) else list(stated or ())
    if stated is None:
        modes = [mode for flag, mode in FLAGS.items() if values.get(flag)]
    flags = [key for key, is_on in values.items() if key.startswith("pooling_mode_") and is_on]
    modes += [flag for flag in flags if flag not in FLAGS]  # EmbeddingConfig refuses new poolings
    read = []
    for module, folder in others:
        if module == NORMALIZE:
            read.append(NormalizeModule())
        elif module == DENSE:
            values = _read_module(folder)
            name = values.get("activation_function", "torch.nn.modules.activation.Tanh")
            check_name(name, ACTIVATIONS, what=f"activation_function of {folder.name}")
            options = {"activation": ACTIVATIONS[name], "has_bias": bool(values.get("bias", True))}
            read.append(DenseModule(units=values["out_features"], **options))
    settings = optional_json(path / SETTINGS)
    prompts = settings.get("prompts") or {}
    return EmbeddingConfig(
        pooling=tuple(modes) or ("mean",),
        modules=tuple(read),
        prompts={name: text or "" for name, text in prompts.items()},
        default_prompt_name=settings.get("default_prompt_name"),
        similarity=settings.get("similarity_fn_name") or "cosine",
    )


def _read_module(folder: Path) -> dict[str, Any]:
    values = json_object(folder / CONFIG)
    check_fixed(values, FIXED, file=f"{folder.name}/{CONFIG}")
    return values


def _dense_names(index: int) -> dict[str, str]:
    names = {"kernel": "linear.weight", "bias": "linear.bias"}
    return {f"sentence/dense_{index}/{ours}": theirs for ours, theirs in names.items()}


def write(checkpoint: Checkpoint, folder: Path) -> tuple[str, ...]:
    """Writes the files of transformers and of each module; see `formats.FORMATS`."""
    metadata, tensors = checkpoint.metadata, checkpoint.tensors
    if (embedding := metadata.embedding) is None:
        raise cannot_store(
            f"a {metadata.model}", format="sentence-transformers", model="BertSentenceEncoder"
        )
    encoder = replace(
        checkpoint,
        metadata=metadata.of_model("BertEncoder", keeps_head=True),
        tensors={n: tensor for n, tensor in tensors.items() if n.startswith("encoder/")},
    )
    notes = huggingface.write(encoder, folder)
    lengths = {"max_seq_length": metadata.max_length, "do_lower_case": False}
    write_json(folder / SENTENCES, lengths)
    size, num_dense = metadata.config.hidden_size, 0
    # All versions read the flags, but flags cannot state every order of poolings.
    flags = {flag: mode in embedding.pooling for flag, mode in FLAGS.items()}
    is_in_order = [FLAGS[flag] for flag, on in flags.items() if on] == list(embedding.pooling)
    stated = flags if is_in_order else {"pooling_mode": list(embedding.pooling)}
    folders: dict[str, dict] = {f"1_{POOLING}": {"word_embedding_dimension": size, **stated}}
    sizes, activations = embedding.sizes(size), {v: k for k, v in ACTIVATIONS.items()}
    for index, module in enumerate(embedding.modules):
        if isinstance(module, NormalizeModule):
            folders[f"{index + 2}_{NORMALIZE}"] = {}
            continue
        folders[name := f"{index + 2}_{DENSE}"] = {
            "in_features": sizes[index],
            "out_features": module.units,
            "bias": module.has_bias,
            "activation_function": activations[module.activation],
        }
        names = _dense_names(num_dense)
        own = {n: tensors[n] for n in names if n in tensors}
        num_dense += 1
        (folder / name).mkdir()
        write_tensors(
            folder / name / huggingface.SAFETENSORS,
            their_tensors(own, names, is_transposed=huggingface.is_transposed, format=LIBRARY),
            metadata={"format": "pt"},
        )
    listed = []
    for index, path in enumerate(["", *folders]):
        class_name = f"{LIBRARY}.models.{path.partition('_')[2] or TRANSFORMER}"
        listed.append({"idx": index, "name": str(index), "path": path, "type": class_name})
    write_json(folder / MODULES, listed)
    for name, values in folders.items():
        write_json(folder / name / CONFIG, values)
    settings = {"prompts": dict(embedding.prompts)}
    settings |= {"default_prompt_name": embedding.default_prompt_name}
    write_json(folder / SETTINGS, settings | {"similarity_fn_name": embedding.similarity})
    return notes
