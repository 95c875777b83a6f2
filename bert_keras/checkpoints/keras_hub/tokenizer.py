"""Reads and writes the tokenizer of a KerasHub preset.

tokenizer.json                            the class of the tokenizer and its settings
assets/tokenizer/vocabulary.txt           WordPiece tokens, one a line
assets/tokenizer/vocabulary.json, merges.txt    byte-level BPE of RoBERTa
assets/tokenizer/vocabulary.spm           SentencePiece model of ALBERT
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_keras.checkpoints.foreign import write_json
from bert_keras.checkpoints.huggingface.rules import byte_pair_model, sentencepiece_model
from bert_keras.checkpoints.keras_hub.config import TOKENIZER, object_config
from bert_keras.checkpoints.keras_hub.families import HubFamily
from bert_keras.checkpoints.metadata import seems_lowercase
from bert_keras.errors import InputError
from bert_keras.text.fast_tokenizer import is_uncased, rules_vocabulary
from bert_keras.text.rules import byte_pair_rules, sentencepiece_rules
from bert_keras.text.sentencepiece_files import sentencepiece_of
from bert_keras.text.vocab import Vocabulary

ASSETS = Path("assets/tokenizer")
TOKENS, BYTE_PAIRS, MERGES = "vocabulary.txt", "vocabulary.json", "merges.txt"
SENTENCEPIECE = "vocabulary.spm"
PLAIN_WORDPIECE = {"split": True, "suffix_indicator": "##", "oov_token": "[UNK]"}
WORDPIECE_NOTE = (
    "KerasHub's tokenizer differs from BERT's for invisible characters, spaces beyond ASCII and, "
    "in lower case, sharp s, final sigma, fractions and Hangul"
)
BYTE_PAIR_NOTE = (
    "KerasHub's tokenizer reads special tokens in a text as tokens, bert-keras reads them as "
    "characters, and divides repeated spaces otherwise than RoBERTa's"
)
SENTENCEPIECE_NOTE = (
    "KerasHub's tokenizer normalizes each character by itself, so it differs from ours for "
    "unusual sequences of combining characters"
)


def read_tokenizer(
    path: Path, hub: HubFamily, *, lowercase: bool | None
) -> tuple[Vocabulary | None, bool, tuple[str, ...]]:
    """Reads the tokenizer of a preset.

    Args:
        path: The folder of the preset.
        hub: The family of the model.
        lowercase: Whether the tokenizer lower-cases text if no file states it; None if unknown.

    Returns:
        The vocabulary, None without one; whether the tokenizer lower-cases text; and one sentence
        for each difference from KerasHub's tokenizer.

    Raises:
        InputError: The files describe another tokenizer, or they are damaged.
    """
    settings, notes, assets = {}, (), path / ASSETS
    if (path / TOKENIZER).is_file():
        _, settings = object_config(path / TOKENIZER, (hub.tokenizer,))
    if (assets / BYTE_PAIRS).is_file():
        model = byte_pair_model(assets / BYTE_PAIRS, assets / MERGES)
        prefixed = bool(settings.get("add_prefix_space"))
        rules = byte_pair_rules(model, prefixed=prefixed, file=BYTE_PAIRS)
        return rules_vocabulary(rules), False, ()
    if (assets / SENTENCEPIECE).is_file():
        model = sentencepiece_model(assets / SENTENCEPIECE)
        vocabulary = rules_vocabulary(sentencepiece_rules(model, file=SENTENCEPIECE))
        return vocabulary, is_uncased(vocabulary), ()
    has_tokens = (assets / TOKENS).is_file()
    vocabulary = Vocabulary.from_file(assets / TOKENS) if has_tokens else None
    if settings:
        lowercase = bool(settings.get("lowercase"))
        for name, expected in PLAIN_WORDPIECE.items():
            if settings.get(name, expected) != expected:
                raise InputError(
                    f"{path / TOKENIZER}: {name} is {settings[name]!r}; expected {expected!r}, as "
                    "in BERT's tokenizer"
                )
        if lowercase and not settings.get("strip_accents"):
            notes = ("KerasHub's tokenizer keeps accents; ours strips them, as BERT's does",)
        elif settings.get("strip_accents") and not lowercase:
            notes = ("KerasHub's tokenizer strips accents; ours keeps them in cased texts",)
    return vocabulary, seems_lowercase(vocabulary) if lowercase is None else lowercase, notes


def write_tokenizer(
    vocabulary: Vocabulary, folder: Path, *, lowercase: bool
) -> tuple[Mapping[str, Any], str]:
    """Writes the files of the vocabulary.

    Args:
        vocabulary: The vocabulary.
        folder: The folder of the preset.
        lowercase: Whether a WordPiece tokenizer lower-cases text.

    Returns:
        The configuration of the tokenizer in keras_hub, and a sentence about the differences
        between KerasHub's tokenizer and ours.
    """
    assets = folder / ASSETS
    assets.mkdir(parents=True)
    if not vocabulary.rules:
        vocabulary.save(assets / TOKENS)
        # With lowercase alone KerasHub keeps accents; BERT's tokenizer strips them.
        case = {"lowercase": lowercase, "strip_accents": lowercase}
        return {"vocabulary": None, **case}, WORDPIECE_NOTE
    rules = json.loads(vocabulary.rules)
    if rules["model"]["type"] == "BPE":
        write_json(assets / BYTE_PAIRS, vocabulary.ids)
        merges = "".join(f"{first} {second}\n" for first, second in rules["model"]["merges"])
        (assets / MERGES).write_text(merges, "utf-8")
        prefixed = rules["pre_tokenizer"]["add_prefix_space"]
        return {"vocabulary": None, "merges": None, "add_prefix_space": prefixed}, BYTE_PAIR_NOTE
    (assets / SENTENCEPIECE).write_bytes(sentencepiece_of(vocabulary).SerializeToString())
    return {"proto": None}, SENTENCEPIECE_NOTE
