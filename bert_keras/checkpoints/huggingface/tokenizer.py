"""Reads the tokenizer files of a Hugging Face folder.

vocab.txt               the tokens, one a line
tokenizer.json          the tokens and all rules, in the format of the library `tokenizers`
tokenizer_config.json   tokenizer class, letter case and maximum length
sentence_bert_config.json   maximum length of a sentence-transformers model, which takes precedence
"""

import json
from collections.abc import Collection, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from bert_keras.checkpoints.huggingface.config import note_if_ignored
from bert_keras.checkpoints.huggingface.rules import read_rules
from bert_keras.checkpoints.metadata import seems_lowercase
from bert_keras.errors import InputError, listed
from bert_keras.family import Family
from bert_keras.files import json_object
from bert_keras.text.fast_tokenizer import (
    BYTE_SPACE,
    SUPPORTED,
    is_uncased,
    rules_vocabulary,
)
from bert_keras.text.tokenizer import MAX_WORD_CHARACTERS
from bert_keras.text.vocab import Vocabulary, in_order_of_ids

VOCABULARY, TOKENIZER, SETTINGS = "vocab.txt", "tokenizer.json", "tokenizer_config.json"
ADDED, SENTENCES = "added_tokens.json", "sentence_*_config.json"
# Tokenizer classes of transformers that split text as BERT does.
CLASSES = (
    *("BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast"),
    *("ElectraTokenizer", "ElectraTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend"),
)
TRANSFORMERS_WORD_CHARACTERS = (
    100  # longest word that transformers' BertTokenizer splits, in characters
)
SPECIAL_ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")


class TextRules(NamedTuple):
    """The tokenizer of a folder."""

    vocabulary: Vocabulary | None  # None if the folder has no vocabulary
    lowercase: bool  # whether the tokenizer lower-cases text
    max_length: int | None  # maximum length of an input in tokens; None if no file states it
    notes: tuple[str, ...]  # one sentence for each difference from the tokenizer of transformers


def read_tokenizer(
    folder: Path, *, tokenizer_class: str | None, ignore: Collection[str]
) -> TextRules:
    """Reads the tokenizer of a folder.

    Args:
        folder: The folder with the files of the tokenizer.
        tokenizer_class: The value of tokenizer_class in config.json, None if it has none.
        ignore: Names of tokenizer rules that may differ from BERT's.

    Raises:
        InputError: Files contradict each other or are damaged, or a rule that `ignore` does not
            contain differs from BERT's tokenizer.
    """
    try:
        return _read(folder, tokenizer_class, ignore)
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(
            f"{folder}: {TOKENIZER} or {SETTINGS} is not what transformers writes ({error!r}); "
            "copy both again"
        ) from error


def _read(folder: Path, tokenizer_class: str | None, ignore: Collection[str]) -> TextRules:
    settings = json_object(folder / SETTINGS) if (folder / SETTINGS).is_file() else {}
    tokenizer = json_object(folder / TOKENIZER) if (folder / TOKENIZER).is_file() else {}
    max_length, rules = _length(folder, settings), read_rules(folder, settings)
    vocabulary = rules_vocabulary(rules) if rules is not None else _vocabulary(folder, tokenizer)
    if vocabulary is None:
        return TextRules(None, True, max_length, ())
    problems = [*_role_problems(settings, vocabulary), *_side_problems(settings)]
    problems += _divided_token_problems(tokenizer, vocabulary)
    if rules is not None:
        problems += _prefix_problems(settings, vocabulary)
    else:
        problems += _settings_problems(settings, tokenizer_class)
        problems += _tokenizer_problems(tokenizer)
        problems += _added_token_problems(folder, tokenizer, vocabulary)
    notes = [note_if_ignored(name, problem, ignore=ignore) for name, problem in problems]
    if rules is not None:
        return TextRules(vocabulary, is_uncased(vocabulary), max_length, tuple(notes))
    lowercase, case_notes = _lowercase(settings, tokenizer, vocabulary, ignore)
    limit = tokenizer.get("model", {}).get("max_input_chars_per_word", TRANSFORMERS_WORD_CHARACTERS)
    if limit not in (TRANSFORMERS_WORD_CHARACTERS, MAX_WORD_CHARACTERS):
        notes.append(
            f"{TOKENIZER} maps words of more than {limit} characters to [UNK], bert-keras those of "
            f"more than {MAX_WORD_CHARACTERS}"
        )
    return TextRules(vocabulary, lowercase, max_length, (*notes, *case_notes))


def _vocabulary(folder: Path, tokenizer: Mapping[str, Any]) -> Vocabulary | None:
    path = folder / VOCABULARY
    vocabulary = Vocabulary.from_file(path) if path.is_file() else None
    if not tokenizer:
        return vocabulary
    model = tokenizer.get("model") or {}
    if (kind := model.get("type", "WordPiece")) != "WordPiece":
        raise InputError(f"{TOKENIZER} is of a {kind} tokenizer; {SUPPORTED}")
    for name, expected in (("continuing_subword_prefix", "##"), ("unk_token", "[UNK]")):
        if model.get(name, expected) != expected:
            raise InputError(f"{TOKENIZER}: {name} is {model[name]!r}; expected {expected!r}")
    if not isinstance(ids := model.get("vocab"), dict):
        raise InputError(f"{TOKENIZER} has no table of tokens and their ids; copy it again")
    tokens = in_order_of_ids(ids, file=TOKENIZER)
    if vocabulary is None:
        return Vocabulary(tokens)
    for index, (one, other) in enumerate(zip_longest(vocabulary.tokens, tokens)):
        if one != other:
            raise InputError(
                f"token {index} is {one!r} in {VOCABULARY}, {other!r} in {TOKENIZER}; remove the "
                "file that the weights were not trained with"
            )
    return vocabulary


# Differences from BERT's tokenizer: the name of the rule for `ignore`, and a description.
Problems = Iterator[tuple[str, str]]


def _role_problems(settings: Mapping[str, Any], vocabulary: Vocabulary) -> Problems:
    for role, token in zip(SPECIAL_ROLES, vocabulary.specials.tokens, strict=True):
        value = settings.get(role, token)
        value = value.get("content") if isinstance(value, dict) else value
        if value not in (None, token):
            yield role, f"{SETTINGS}: {role} is {value!r}; expected {token!r}"


def _side_problems(settings: Mapping[str, Any]) -> Problems:
    for name in ("padding_side", "truncation_side"):
        if (side := settings.get(name)) not in (None, "right"):
            yield name, f"{SETTINGS}: {name} is {side!r}; expected 'right'"


def _prefix_problems(settings: Mapping[str, Any], vocabulary: Vocabulary) -> Problems:
    """Yields a contradiction about the space that byte-level BPE may add before a text."""
    name = "add_prefix_space"
    stated, used = settings.get(name), json.loads(vocabulary.rules)["pre_tokenizer"].get(name)
    if None not in (stated, used) and stated != used:
        values = f"{json.dumps(stated)}, in {TOKENIZER} {json.dumps(used)}"
        yield name, f"{SETTINGS}: {name} is {values}, which bert-keras uses"


def _divided_token_problems(tokenizer: Mapping[str, Any], vocabulary: Vocabulary) -> Problems:
    """Yields the added tokens that transformers finds in texts and this tokenizer divides.

    Special tokens are divided on purpose, and byte-level BPE divides no others.
    """
    tokens = [
        token["content"]
        for token in tokenizer.get("added_tokens") or ()
        if token["content"] in vocabulary.ids
        and token["content"] not in vocabulary.specials.tokens
        and not token.get("special")
    ]
    if tokens and vocabulary.specials.word_start != BYTE_SPACE:
        names = listed(tokens, most=3)
        yield "added_tokens", f"{TOKENIZER} never divides the added tokens {names}; bert-keras does"


def _settings_problems(settings: Mapping[str, Any], tokenizer_class: str | None) -> Problems:
    for name in (settings.get("tokenizer_class"), tokenizer_class):
        if name not in (None, *CLASSES):
            problem = f"the tokenizer_class is {name}; expected one that splits text as BERT's"
            yield "tokenizer_class", problem
            break
    yield from _switch_problems(SETTINGS, settings, "tokenize_chinese_chars", "do_basic_tokenize")
    if settings.get("never_split"):
        words = ", ".join(settings["never_split"])
        yield "never_split", f"{SETTINGS} never splits {words}; this tokenizer does"


def _tokenizer_problems(tokenizer: Mapping[str, Any]) -> Problems:
    if not tokenizer:
        return
    for name, expected in {
        "normalizer": "BertNormalizer",
        "pre_tokenizer": "BertPreTokenizer",
    }.items():
        if (kind := (tokenizer.get(name) or {}).get("type")) != expected:
            yield name, f"{TOKENIZER}: {name} is {kind}; expected {expected}"
    normalizer = tokenizer.get("normalizer") or {}
    yield from _switch_problems(TOKENIZER, normalizer, "clean_text", "handle_chinese_chars")


def _switch_problems(file: str, values: Mapping[str, Any], *names: str) -> Problems:
    for name in names:
        if values.get(name, True) is not True:
            yield name, f"{file}: {name} is {json.dumps(values[name])}; expected true"


def _added_token_problems(
    folder: Path, tokenizer: Mapping[str, Any], vocabulary: Vocabulary
) -> Problems:
    """Yields added tokens that are not in the vocabulary under their id.

    The token table has rows for such tokens, but the vocabulary does not list them.
    """
    ids = {token["content"]: token["id"] for token in tokenizer.get("added_tokens", ())}
    if (folder / ADDED).is_file():
        ids |= json_object(folder / ADDED)
    for token, token_id in ids.items():
        if vocabulary.ids.get(token) != token_id:
            yield token, f"the added token {token} with id {token_id} is not in the vocabulary"


def _lowercase(
    settings: Mapping[str, Any],
    tokenizer: Mapping[str, Any],
    vocabulary: Vocabulary,
    ignore: Collection[str],
) -> tuple[bool, list[str]]:
    """Returns whether the tokenizer lower-cases text, and notes.

    BERT's tokenizer strips accents if and only if it lower-cases text.
    """
    rules, notes = tokenizer.get("normalizer") or {}, []
    cases = {
        f"{SETTINGS}: do_lower_case": settings.get("do_lower_case"),
        f"{TOKENIZER}: lowercase": rules.get("lowercase"),
    }
    cases = {key: value for key, value in cases.items() if value is not None}
    if len(set(cases.values())) == 2:
        parts = ", ".join(f"{key} is {json.dumps(value)}" for key, value in cases.items())
        raise InputError(f"{parts}; correct the one that the weights were not trained with")
    lowercase = next(iter(cases.values()), None)
    if lowercase is None:
        lowercase = seems_lowercase(vocabulary)
        case = "lower-cased" if lowercase else "cased"
        notes.append(f"no file states the letter case of texts; the vocabulary is {case}")
    for file, values in ((SETTINGS, settings), (TOKENIZER, rules)):
        if values.get("strip_accents") not in (None, lowercase):
            problem = (
                f"{file}: strip_accents is {json.dumps(values['strip_accents'])} and lower case "
                f"{json.dumps(lowercase)}; BERT's tokenizer does both or neither"
            )
            notes.append(note_if_ignored("strip_accents", problem, ignore=ignore))
    return lowercase, notes


def _length(folder: Path, settings: Mapping[str, Any]) -> int | None:
    lengths = (sentence_settings(folder).get("max_seq_length"), settings.get("model_max_length"))
    # A sequence has at least [CLS], one token and [SEP].
    return next((length for length in lengths if isinstance(length, int) and length >= 3), None)


def sentence_settings(folder: Path) -> dict[str, Any]:
    """Returns the values of sentence_bert_config.json, {} without one.

    Old versions of sentence-transformers name the file after the family, such as "roberta".
    """
    return next(map(json_object, sorted(folder.glob(SENTENCES))), {})


def check_padding(family: Family | None, vocabulary: Vocabulary | None) -> None:
    """Raises InputError if the padding id is not the one from which the family counts positions."""
    expected = family and family.fixed_values.get("pad_token_id")
    if family and vocabulary and expected not in (None, vocabulary.pad_id):
        raise InputError(
            f"pad_token_id is {vocabulary.pad_id}; expected {expected}, from which a {family.kind} "
            "counts positions: choose another format for a model with this vocabulary"
        )
