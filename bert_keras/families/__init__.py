"""Finds BERT and its relatives: each is a module of this folder that defines a `FAMILY`."""

import dataclasses
import re
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from bert_keras.config import BertConfig
from bert_keras.errors import check_name
from bert_keras.families.family import Family
from bert_keras.text.vocab import Vocabulary

_names = sorted((each.name for each in iter_modules(__path__)), key=lambda name: name != "bert")
_modules = [import_module(f"{__name__}.{name}") for name in _names if name != "family"]
FAMILIES: dict[str, Family] = {each.FAMILY.kind: each.FAMILY for each in _modules}


def family_of(config: BertConfig, vocabulary: Vocabulary | None = None) -> Family | None:
    """Returns the family of an encoder, or None if only the native format can store it.

    If several families have this configuration, the vocabulary's special tokens decide.
    """
    families = [family for family in FAMILIES.values() if family.includes(config)]
    families.sort(key=lambda family: len(family.specials.unused))  # CamemBERT after RoBERTa
    if vocabulary is not None:
        families.sort(key=lambda family: family.specials != vocabulary.specials)
    return families[0] if families else None


def presets() -> dict[str, BertConfig]:
    """Returns the configurations of all families by their names, such as "tiny" and "base"."""
    return {name: size for each in FAMILIES.values() for name, size in each.presets.items()}


def hub_names() -> dict[str, str]:
    """Returns the names of well-known models on Hugging Face, each with its model_type."""
    return {name: kind for kind, family in FAMILIES.items() for name in family.hub_names}


def preset(name: str, **changes: Any) -> BertConfig:
    """Returns the configuration of a named size.

    Args:
        name: A name in `presets()`, or a name such as "L-3_H-768_A-12", which states the number of
            layers, the hidden size and the number of attention heads.
        **changes: Fields of `BertConfig` to change.

    Raises:
        InputError: `name` is unknown, or a value is impossible.

    Example:

    ```python
    config = preset("tiny", vocab_size=4_000)
    ```
    """
    known = presets()
    if match := re.fullmatch(r"L-(\d+)_H-(\d+)_A-(\d+)", str(name)):
        layers, hidden, heads = map(int, match.groups())
        config = BertConfig(num_layers=layers, hidden_size=hidden, num_heads=heads)
    else:
        check_name(name, ("L-LAYERS_H-HIDDEN_A-HEADS", *known), what="size")
        config = known[name]
    return dataclasses.replace(config, **changes)
