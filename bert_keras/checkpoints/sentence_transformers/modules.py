"""Reads and writes the configuration of each module of a sentence-transformers folder.

modules.json                        the modules in order, each with its class and its subfolder
1_Pooling/config.json               the pooling, as one value or as a flag for each kind
2_Dense/config.json, 3_Normalize    the modules after the pooling
config_sentence_transformers.json   prompts and the similarity function
"""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from bert_keras.checkpoints.foreign import check_keys, write_json
from bert_keras.checkpoints.huggingface.config import CONFIG, note_if_ignored
from bert_keras.embedding import POOLINGS, DenseModule, EmbeddingConfig, NormalizeModule
from bert_keras.errors import InputError
from bert_keras.files import json_object

MODULES, SETTINGS = "modules.json", "config_sentence_transformers.json"
LIBRARY = "sentence_transformers"
TRANSFORMER, POOLING, DENSE, NORMALIZE = "Transformer", "Pooling", "Dense", "Normalize"
DROPOUT = "Dropout"  # has no effect outside of training
KNOWN = (TRANSFORMER, POOLING, DENSE, NORMALIZE, DROPOUT)
# Flag of each kind of pooling, which all versions read; the key `pooling_mode` is of version 6.
FLAG = "pooling_mode_"
FLAGS = {
    f"{FLAG}cls_token": "cls",
    f"{FLAG}max_tokens": "max",
    f"{FLAG}mean_tokens": "mean",
    f"{FLAG}mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    f"{FLAG}weightedmean_tokens": "weightedmean",
    f"{FLAG}lasttoken": "lasttoken",
}
FIRST_FLAGS = (*FLAGS,)[:4]  # flags that every version has
SIZES = ("word_embedding_dimension", "embedding_dimension")  # keys of the hidden size
ACTIVATIONS = {
    "torch.nn.modules.linear.Identity": "identity",
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.activation.GELU": "gelu",
    "torch.nn.modules.activation.ReLU": "relu",
}
# The only supported value of each key of Dense and Normalize.
FIXED = {
    "module_input_name": "sentence_embedding",
    "module_output_name": "sentence_embedding",
    "use_residual": False,
}


class ListedModule(NamedTuple):
    """A module of modules.json."""

    kind: str  # the name of its class
    folder: Path  # its folder


def read_modules(path: Path) -> list[ListedModule]:
    """Reads modules.json of the folder `path`.

    Raises:
        InputError: The file is damaged, or a module is outside of `path`.
    """
    file = path / MODULES
    try:
        listed = json.loads(file.read_text(encoding="utf-8"))
        modules = [(str(each["type"]), PurePosixPath(each["path"])) for each in listed]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(
            f"{file} is not a list of modules; expected a file of sentence-transformers"
        ) from error
    for name, folder in modules:
        if folder.is_absolute() or ".." in folder.parts:
            raise InputError(f"{file} names {folder} of {name}; expected a subfolder")
    return [
        # A class of another library keeps its full name, which is not in KNOWN.
        ListedModule(name.rpartition(".")[2] if name.startswith(LIBRARY) else name, path / folder)
        for name, folder in modules
    ]


def read_embedding(
    path: Path, modules: Sequence[ListedModule], *, hidden_size: int, ignore: Collection[str]
) -> tuple[EmbeddingConfig, list[str]]:
    """Reads how the modules after the encoder compute an embedding.

    Args:
        path: The folder with modules.json.
        modules: The modules after the encoder, those of `KNOWN`.
        hidden_size: The size of the encoder's hidden states.
        ignore: Keys of the files that may be ignored.

    Returns:
        The configuration, and notes.

    Raises:
        InputError: The first module is not a pooling, or a value is unknown or contradicts others.
    """
    (first, folder), *others = modules
    if first != POOLING or any(kind in (POOLING, TRANSFORMER) for kind, _ in others):
        kinds = ", ".join(module.kind for module in modules)
        raise InputError(
            f"{path / MODULES} lists {kinds} after the encoder; expected one {POOLING} and then "
            f"{DENSE}, {NORMALIZE} and {DROPOUT}"
        )
    pooling, includes_prompt = _pooling(folder / CONFIG, hidden_size, ignore)
    notes, read = [], []
    for kind, each in others:
        if kind == DENSE:
            read.append(_dense(each / CONFIG, ignore))
        elif kind == NORMALIZE:
            if (each / CONFIG).is_file():
                _check_fixed(json_object(each / CONFIG), each / CONFIG)
            read.append(NormalizeModule())
        else:
            notes.append(f"the module {DROPOUT} has no effect outside of training; it is not kept")
    sizes = EmbeddingConfig(pooling=pooling, modules=tuple(read)).sizes(hidden_size)
    denses = [each for each in others if each.kind != DROPOUT]
    for size, (kind, each) in zip(sizes, denses, strict=False):
        if kind == DENSE and (stated := json_object(each / CONFIG)["in_features"]) != size:
            raise InputError(f"{each / CONFIG}: in_features is {stated}; expected {size}")
    settings, setting_notes = _settings(path / SETTINGS, ignore)
    config = EmbeddingConfig(
        pooling=pooling, modules=tuple(read), includes_prompt=includes_prompt, **settings
    )
    return config, [*notes, *setting_notes]


def _pooling(file: Path, hidden_size: int, ignore: Collection[str]) -> tuple[tuple[str, ...], bool]:
    values = json_object(file)
    check_keys(
        values,
        file,
        required=(),
        optional=("pooling_mode", "include_prompt", *SIZES, *FLAGS),
        ignore=ignore,
        reader="bert-keras",
    )
    stated = next((values[name] for name in SIZES if name in values), hidden_size)
    if stated != hidden_size:
        raise InputError(
            f"{file} states the hidden size {stated}; expected {hidden_size}, that of the encoder"
        )
    modes = values.get("pooling_mode")
    if modes is None:
        modes = [mode for flag, mode in FLAGS.items() if values.get(flag)] or ["mean"]
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    if unknown := [mode for mode in modes if mode not in POOLINGS]:
        raise InputError(
            f"{file}: pooling_mode has {', '.join(map(str, unknown))}; expected one or more of "
            f"{', '.join(POOLINGS)}"
        )
    return modes, bool(values.get("include_prompt", True))


def _dense(file: Path, ignore: Collection[str]) -> DenseModule:
    values = json_object(file)
    check_keys(
        values,
        file,
        required=("in_features", "out_features"),
        optional=("bias", "activation_function", *FIXED),
        ignore=ignore,
        reader="bert-keras",
    )
    _check_fixed(values, file)
    name = values.get("activation_function", "torch.nn.modules.activation.Tanh")
    if name not in ACTIVATIONS:
        raise InputError(
            f"{file}: activation_function is {name}; expected one of {', '.join(ACTIVATIONS)}"
        )
    return DenseModule(
        units=values["out_features"],
        activation=ACTIVATIONS[name],
        has_bias=bool(values.get("bias", True)),
    )


def _check_fixed(values: Mapping[str, Any], file: Path) -> None:
    for name, expected in FIXED.items():
        if values.get(name, expected) not in (expected, None):
            raise InputError(f"{file}: {name} is {values[name]!r}; expected {expected!r}")


def _settings(file: Path, ignore: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    values, notes = (json_object(file) if file.is_file() else {}), []
    if values.get("truncate_dim") is not None:
        problem = (
            f"{file.name} cuts embeddings to {values['truncate_dim']} values; bert-keras computes "
            "all values, and encode(dimensions=...) cuts them"
        )
        notes.append(note_if_ignored("truncate_dim", problem, ignore=ignore))
    prompts, default = values.get("prompts") or {}, values.get("default_prompt_name")
    if not isinstance(prompts, dict) or not isinstance(default, str | None):
        raise InputError(
            f"{file}: prompts is {prompts!r} and default_prompt_name {default!r}; expected texts "
            "by name and one of the names"
        )
    settings = {
        "prompts": {name: text or "" for name, text in prompts.items()},
        "default_prompt_name": default,
        "similarity": values.get("similarity_fn_name") or "cosine",
    }
    return settings, notes


def write_modules(embedding: EmbeddingConfig, folder: Path, *, hidden_size: int) -> list[Path]:
    """Writes modules.json and the configuration of each module after the encoder.

    Args:
        embedding: How an embedding is computed from hidden states.
        folder: The folder with the files of the encoder.
        hidden_size: The size of the hidden states.

    Returns:
        The folder of each dense module, in order.
    """
    kinds = {DenseModule: DENSE, NormalizeModule: NORMALIZE}
    names = [TRANSFORMER, POOLING, *(kinds[type(module)] for module in embedding.modules)]
    paths = ["", *(f"{index}_{name}" for index, name in enumerate(names) if index)]
    listed = [
        {"idx": i, "name": str(i), "path": path, "type": f"{LIBRARY}.models.{name}"}
        for i, (name, path) in enumerate(zip(names, paths, strict=True))
    ]
    (folder / MODULES).write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")
    _write(folder / paths[1], _pooling_values(embedding, hidden_size))
    sizes, dense_folders = embedding.sizes(hidden_size), []
    for path, size, module in zip(paths[2:], sizes, embedding.modules, strict=False):
        if isinstance(module, DenseModule):
            dense_folders.append(folder / path)
            _write(folder / path, _dense_values(module, size))
    settings = {
        "prompts": dict(embedding.prompts),
        "default_prompt_name": embedding.default_prompt_name,
        "similarity_fn_name": embedding.similarity,
    }
    write_json(folder / SETTINGS, settings)
    return dense_folders


def _write(folder: Path, values: Mapping[str, Any]) -> None:
    folder.mkdir()
    write_json(folder / CONFIG, values)


def _pooling_values(embedding: EmbeddingConfig, hidden_size: int) -> dict[str, Any]:
    """Returns flags, which all versions read, if they can state the order of the poolings."""
    values: dict[str, Any] = {SIZES[0]: hidden_size}
    in_order = [mode for mode in FLAGS.values() if mode in embedding.pooling]
    if in_order == [*embedding.pooling]:
        chosen = {flag: mode in embedding.pooling for flag, mode in FLAGS.items()}
        values |= {flag: on for flag, on in chosen.items() if on or flag in FIRST_FLAGS}
    else:
        values["pooling_mode"] = [*embedding.pooling]
    return values if embedding.includes_prompt else {**values, "include_prompt": False}


def _dense_values(module: DenseModule, size: int) -> dict[str, Any]:
    names = {ours: name for name, ours in ACTIVATIONS.items()}
    return {
        "in_features": size,
        "out_features": module.units,
        "bias": module.has_bias,
        "activation_function": names[module.activation],
    }
