"""Reads and writes the tokenizer files of a Hugging Face folder.

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

from tokenizers import AddedToken, Tokenizer, decoders
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

from bert_keras.checkpoints.card import ModelCard, seems_lowercase
from bert_keras.checkpoints.foreign import write_json
from bert_keras.checkpoints.huggingface.config import left_if_named
from bert_keras.checkpoints.huggingface.rules import read_rules
from bert_keras.errors import InputError
from bert_keras.storage import json_object
from bert_keras.text.fast_tokenizer import KNOWN, lowers, rules_vocabulary, write_vocabulary
from bert_keras.text.tokenizer import MAX_WORD_CHARACTERS, normalizer
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary, in_order_of_ids

VOCABULARY, WHOLE, SETTINGS = "vocab.txt", "tokenizer.json", "tokenizer_config.json"
ADDED, SENTENCES = "added_tokens.json", "sentence_bert_config.json"
# Tokenizer classes of transformers that split text as BERT does.
CLASSES = (
    *("BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast"),
    *("PreTrainedTokenizerFast", "TokenizersBackend"),
)
THEIR_WORD_CHARACTERS = 100  # longest word that transformers' BertTokenizer splits, in characters
SPECIAL_ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
TOKENS = (
    "transformers' tokenizer takes [MASK] and the like in a text for the piece, and some hundred "
    "rare characters and the capital sigma that ends a word otherwise than BERT's and this one"
)
TOKENS_OF_RULES = (
    "transformers' tokenizer takes a special piece that is written in a text for the piece, this "
    "one for its characters"
)


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
            f"{folder}: {WHOLE} or {SETTINGS} is not what transformers writes ({error!r}); copy "
            "both anew"
        ) from error


def _read(folder: Path, tokenizer_class: str | None, ignore: Collection[str]) -> TextRules:
    settings = json_object(folder / SETTINGS) if (folder / SETTINGS).is_file() else {}
    whole = json_object(folder / WHOLE) if (folder / WHOLE).is_file() else {}
    max_length, rules = _length(folder, settings), read_rules(folder, settings)
    vocabulary = rules_vocabulary(rules) if rules is not None else _vocabulary(folder, whole)
    if vocabulary is None:
        return TextRules(None, True, max_length, ())
    faults = [*_faults_of_roles(settings, vocabulary)]
    if rules is None:
        faults += [
            *_faults_of_settings(settings, tokenizer_class),
            *(_faults_of_whole(whole) if whole else ()),
            *_faults_of_added(folder, whole, vocabulary),
        ]
    notes = [left_if_named(name, fault, ignore=ignore) for name, fault in faults]
    if rules is not None:
        return TextRules(vocabulary, lowers(vocabulary), max_length, tuple(notes))
    lowercase, case_notes = _lowercase(settings, whole, vocabulary, ignore)
    limit = whole.get("model", {}).get("max_input_chars_per_word", THEIR_WORD_CHARACTERS)
    if limit not in (THEIR_WORD_CHARACTERS, MAX_WORD_CHARACTERS):
        notes.append(
            f"{WHOLE} takes words of more than {limit} characters for [UNK], this tokenizer those "
            f"of more than {MAX_WORD_CHARACTERS}"
        )
    return TextRules(vocabulary, lowercase, max_length, (*notes, *case_notes))


def _vocabulary(folder: Path, whole: Mapping[str, Any]) -> Vocabulary | None:
    listed = folder / VOCABULARY
    vocabulary = Vocabulary.from_file(listed) if listed.is_file() else None
    if not whole:
        return vocabulary
    model = whole.get("model") or {}
    if (kind := model.get("type", "WordPiece")) != "WordPiece":
        raise InputError(f"{WHOLE} is of a {kind} tokenizer; {KNOWN}")
    for name, expected in (("continuing_subword_prefix", "##"), ("unk_token", "[UNK]")):
        if model.get(name, expected) != expected:
            raise InputError(f"{WHOLE}: {name} is {model[name]!r}; expected {expected!r}")
    if not isinstance(ids := model.get("vocab"), dict):
        raise InputError(f"{WHOLE} has no table of pieces and their ids; copy it anew")
    pieces = in_order_of_ids(ids, file=WHOLE)
    if vocabulary is None:
        return Vocabulary(pieces)
    for number, (one, other) in enumerate(zip_longest(vocabulary.pieces, pieces)):
        if one != other:
            raise InputError(
                f"piece {number} is {one!r} in {VOCABULARY}, {other!r} in {WHOLE}; remove the file "
                "that the weights were not trained with"
            )
    return vocabulary


# Differences from BERT's tokenizer: the name of the rule for `ignore`, and a description.
Faults = Iterator[tuple[str, str]]


def _faults_of_roles(settings: Mapping[str, Any], vocabulary: Vocabulary) -> Faults:
    for role, piece in zip(SPECIAL_ROLES, vocabulary.specials.pieces, strict=True):
        given = settings.get(role, piece)
        given = given.get("content") if isinstance(given, dict) else given
        if given not in (None, piece):
            yield role, f"{SETTINGS}: {role} is {given!r}; expected {piece!r}"


def _faults_of_settings(settings: Mapping[str, Any], tokenizer_class: str | None) -> Faults:
    for given in (settings.get("tokenizer_class"), tokenizer_class):
        if given not in (None, *CLASSES):
            yield "tokenizer_class", f"texts are read by a {given} there; here by BERT's alone"
            break
    yield from _faults_of_switches(
        SETTINGS, settings, "tokenize_chinese_chars", "do_basic_tokenize"
    )
    if settings.get("never_split"):
        never = ", ".join(settings["never_split"])
        yield "never_split", f"{SETTINGS} never splits {never}; this tokenizer does"


def _faults_of_whole(whole: Mapping[str, Any]) -> Faults:
    for name, expected in (
        ("normalizer", "BertNormalizer"),
        ("pre_tokenizer", "BertPreTokenizer"),
    ):
        if (kind := (whole.get(name) or {}).get("type")) != expected:
            yield name, f"{WHOLE}: {name} is {kind}; BERT's is {expected}"
    normalizer = whole.get("normalizer") or {}
    yield from _faults_of_switches(WHOLE, normalizer, "clean_text", "handle_chinese_chars")


def _faults_of_switches(file: str, values: Mapping[str, Any], *names: str) -> Faults:
    for name in names:
        if values.get(name, True) is not True:
            yield name, f"{file}: {name} is {json.dumps(values[name])}; BERT's has it true"


def _faults_of_added(folder: Path, whole: Mapping[str, Any], vocabulary: Vocabulary) -> Faults:
    """Yields added tokens that are not in the vocabulary under their id.

    The token table has rows for such tokens, but the vocabulary does not list them.
    """
    told = [(token["content"], token["id"]) for token in whole.get("added_tokens", ())]
    if (folder / ADDED).is_file():
        told += json_object(folder / ADDED).items()
    for token, number in dict(told).items():
        if vocabulary.ids.get(token) != number:
            yield token, f"the token {token} of id {number} is not of the vocabulary"


def _lowercase(
    settings: Mapping[str, Any],
    whole: Mapping[str, Any],
    vocabulary: Vocabulary,
    ignore: Collection[str],
) -> tuple[bool, list[str]]:
    """Returns whether the tokenizer lower-cases text, and notes.

    BERT's tokenizer strips accents if and only if it lower-cases text.
    """
    rules, notes = whole.get("normalizer") or {}, []
    said = {
        f"{SETTINGS}: do_lower_case": settings.get("do_lower_case"),
        f"{WHOLE}: lowercase": rules.get("lowercase"),
    }
    given = {where: value for where, value in said.items() if value is not None}
    if len(set(given.values())) == 2:
        parts = ", ".join(f"{where} is {json.dumps(value)}" for where, value in given.items())
        raise InputError(f"{parts}; correct the one that the weights were not trained with")
    lowercase = next(iter(given.values()), None)
    if lowercase is None:
        lowercase = seems_lowercase(vocabulary)
        how = "lower-cased" if lowercase else "cased"
        notes.append(f"no file says whether texts are lower-cased; by its pieces they are {how}")
    for file, values in ((SETTINGS, settings), (WHOLE, rules)):
        if values.get("strip_accents") not in (None, lowercase):
            fault = (
                f"{file}: strip_accents is {json.dumps(values['strip_accents'])} and lower case "
                f"{json.dumps(lowercase)}; BERT's tokenizer does both or none"
            )
            notes.append(left_if_named("strip_accents", fault, ignore=ignore))
    return lowercase, notes


def _length(folder: Path, settings: Mapping[str, Any]) -> int | None:
    sentences = json_object(folder / SENTENCES) if (folder / SENTENCES).is_file() else {}
    given = (sentences.get("max_seq_length"), settings.get("model_max_length"))
    lengths = (n for n in given if isinstance(n, int) and n >= 3)  # [CLS], one token, [SEP]
    return next(lengths, None)


def write_tokenizer(card: ModelCard, vocabulary: Vocabulary, folder: Path) -> tuple[str, ...]:
    """Writes the tokenizer files.

    Returns:
        One sentence for each difference between our tokenizer and that of transformers.
    """
    settings = {
        "model_max_length": card.max_length,
        **dict(zip(SPECIAL_ROLES, vocabulary.specials.pieces, strict=True)),
    }
    if card.config.num_segments == 0 or not vocabulary.specials.second_segment:
        settings["model_input_names"] = ["input_ids", "attention_mask"]
    if vocabulary.rules:
        write_vocabulary(vocabulary, folder)
        write_json(folder / SETTINGS, settings | {"tokenizer_class": "PreTrainedTokenizerFast"})
        return (TOKENS_OF_RULES,)
    vocabulary.save(folder / VOCABULARY)
    tokenizer = Tokenizer(
        WordPiece(vocabulary.ids, unk_token="[UNK]", max_input_chars_per_word=MAX_WORD_CHARACTERS)
    )
    tokenizer.normalizer = normalizer(lowercase=card.lowercase)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary.cls_id), ("[SEP]", vocabulary.sep_id)],
    )
    tokenizer.add_special_tokens([AddedToken(piece, special=True) for piece in SPECIAL_PIECES])
    tokenizer.save(str(folder / WHOLE))
    bert = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": card.lowercase,
        "strip_accents": None,
        "tokenize_chinese_chars": True,
    }
    write_json(folder / SETTINGS, bert | settings)
    return (
        f"transformers 5 takes words of more than {THEIR_WORD_CHARACTERS} characters for [UNK], "
        f"bert-keras those of more than {MAX_WORD_CHARACTERS}",
        TOKENS,
    )
