"""Reads and writes the tokenizer files of a Hugging Face folder.

tokenizer.json               the tokens and all rules, in the format of the library `tokenizers`
vocab.txt                    the tokens of WordPiece, one a line
vocab.json, merges.txt       byte-level BPE, the files of the published RoBERTa
spiece.model                 SentencePiece Unigram, the file of the published ALBERT and KoBERT
sentencepiece.bpe.model      SentencePiece Unigram, the file of the published XLM-RoBERTa
tokenizer_config.json        tokenizer class, letter case and maximum length
sentence_bert_config.json    maximum length of a sentence-transformers model, which takes precedence
"""

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import AddedToken, Tokenizer, decoders
from tokenizers.models import BPE, WordPiece
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

from bert_keras.checkpoints.huggingface.config import note_if_ignored
from bert_keras.checkpoints.tensors import refuse_lfs_pointer
from bert_keras.config import ModelMetadata
from bert_keras.errors import InputError, check, listed
from bert_keras.families.family import Family
from bert_keras.files import json_object, write_json
from bert_keras.text.fast_tokenizer import (
    BYTE_SPACE,
    KOBERT_SPECIALS,
    SPECIALS,
    SUPPORTED,
    is_uncased,
    rules_vocabulary,
    write_vocabulary,
)
from bert_keras.text.rules import (
    byte_pair_rules,
    kobert_rules,
    unigram_rules,
    xlm_roberta_rules,
)
from bert_keras.text.tokenizer import MAX_WORD_CHARACTERS, normalizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary, in_order_of_ids, seems_lowercase

VOCABULARY, TOKENIZER, SETTINGS = "vocab.txt", "tokenizer.json", "tokenizer_config.json"
TOKENS, MERGES, MODEL = "vocab.json", "merges.txt", "spiece.model"
XLM_ROBERTA_MODEL, SENTENCES = "sentencepiece.bpe.model", "sentence_*_config.json"
UNIGRAM = 1  # number of the Unigram model in SentencePiece's TrainerSpec.ModelType
# Tokenizer classes of transformers that split text as BERT does.
CLASSES = (
    *("BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast"),
    *("ElectraTokenizer", "ElectraTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend"),
)
SPECIAL_ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
WORDPIECE_NOTE = (
    "transformers' tokenizer reads special tokens such as [MASK] in a text as tokens; it also "
    "differs from BERT's for words of more than 100 characters, some hundred rare characters and a "
    "capital sigma at the end of a word"
)
RULES_NOTE = (
    "transformers' tokenizer reads special tokens in a text as tokens, bert-keras reads them as "
    "characters"
)


class TextRules(NamedTuple):
    """The tokenizer of a folder."""

    vocabulary: Vocabulary | None  # None if the folder has no vocabulary
    lowercase: bool  # whether the tokenizer lower-cases text
    max_length: int | None  # maximum length of an input in tokens; None if no file states it
    notes: tuple[str, ...] = ()  # one sentence for each difference from transformers' tokenizer


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
    settings = json_object(folder / SETTINGS) if (folder / SETTINGS).is_file() else {}
    tokenizer = json_object(folder / TOKENIZER) if (folder / TOKENIZER).is_file() else {}
    lengths = (sentence_settings(folder).get("max_seq_length"), settings.get("model_max_length"))
    # A sequence has at least [CLS], one token and [SEP].
    max_length = next((each for each in lengths if isinstance(each, int) and each >= 3), None)
    if (rules := read_rules(folder, settings)) is not None:
        vocabulary = rules_vocabulary(rules)
        lowercase, problems = is_uncased(vocabulary), [*_prefix_problems(settings, vocabulary)]
    elif (vocabulary := _vocabulary(folder, tokenizer)) is not None:
        lowercase = _is_lowercase(settings, tokenizer, vocabulary)
        problems = [*_wordpiece_problems(settings, tokenizer, tokenizer_class, lowercase)]
    else:
        return TextRules(None, True, max_length)
    problems += _token_problems(settings, tokenizer, vocabulary)
    notes = tuple(note_if_ignored(name, problem, ignore=ignore) for name, problem in problems)
    return TextRules(vocabulary, lowercase, max_length, notes)


def read_rules(folder: Path, settings: Mapping[str, Any]) -> str | None:
    """Returns the rules of a BPE or Unigram tokenizer.

    Args:
        folder: The folder with the files of the tokenizer.
        settings: The values of tokenizer_config.json.

    Returns:
        The text of a tokenizer.json, or None if the tokenizer is WordPiece or the folder has none.

    Raises:
        InputError: A file is damaged, or of another kind of tokenizer.
    """
    if (folder / TOKENIZER).is_file():
        model = json_object(folder / TOKENIZER).get("model") or {}
        # Old files, such as RoBERTa's, do not state the type of the model.
        default = "BPE" if "merges" in model else "Unigram" if "unk_id" in model else "WordPiece"
        if model.get("type", default) in SPECIALS:
            return (folder / TOKENIZER).read_text("utf-8")
        return None
    if (folder / XLM_ROBERTA_MODEL).is_file():
        return xlm_roberta_rules(sentencepiece_model(folder / XLM_ROBERTA_MODEL))
    if (folder / MODEL).is_file():
        model = sentencepiece_model(folder / MODEL)
        if {*KOBERT_SPECIALS.tokens} <= {each.piece for each in model.pieces}:
            return kobert_rules(model)
        return unigram_rules(
            model,
            lowercase=settings.get("do_lower_case", True),
            keeps_accents=settings.get("keep_accents", False),
        )
    files = [(folder / name).is_file() for name in (TOKENS, MERGES, VOCABULARY)]
    if any(files[:2]) and not files[2]:
        in_order_of_ids(json_object(folder / TOKENS), file=TOKENS)
        try:
            model = BPE.from_file(str(folder / TOKENS), str(folder / MERGES))
        except Exception as error:  # the library raises plain Exception
            raise InputError(
                f"{TOKENS} or {MERGES} is missing or damaged ({error}); copy both again"
            ) from error
        return byte_pair_rules(model, prefixed=settings.get("add_prefix_space", False))
    return None


def sentencepiece_model(path: Path):
    """Reads SentencePiece's ModelProto of a Unigram model."""
    from google.protobuf.message import DecodeError
    from sentencepiece import sentencepiece_model_pb2 as protobuf

    # The type checker does not find the class, which protobuf creates on import.
    model = protobuf.ModelProto()  # pyright: ignore[reportAttributeAccessIssue]
    refuse_lfs_pointer(path)
    try:
        model.ParseFromString(path.read_bytes())
    except DecodeError as error:
        raise InputError(f"{path.name} is damaged ({error}); copy it again") from error
    check(
        model.pieces and model.HasField("normalizer_spec"),
        f"{path.name} ends after {len(model.pieces):,} pieces; copy it again",
    )
    check(model.trainer_spec.model_type == UNIGRAM, f"{path.name} is not a Unigram model")
    return model


def _vocabulary(folder: Path, tokenizer: Mapping[str, Any]) -> Vocabulary | None:
    path = folder / VOCABULARY
    vocabulary = Vocabulary.from_file(path) if path.is_file() else None
    if not tokenizer:
        return vocabulary
    model = tokenizer.get("model") or {}
    kind = model.get("type", "WordPiece")
    check(kind == "WordPiece", f"{TOKENIZER} is of a {kind} tokenizer; {SUPPORTED}")
    prefix = model.get("continuing_subword_prefix", "##")
    check(prefix == "##", f"{TOKENIZER}: continuing_subword_prefix is {prefix!r}; expected '##'")
    tokens = in_order_of_ids(model["vocab"], file=TOKENIZER)
    check(
        vocabulary is None or vocabulary.tokens == tokens,
        f"{VOCABULARY} and {TOKENIZER} have different tokens; remove the file that does not belong "
        "to the weights",
    )
    return vocabulary or Vocabulary(tokens)


def _is_lowercase(
    settings: Mapping[str, Any], tokenizer: Mapping[str, Any], vocabulary: Vocabulary
) -> bool:
    normalizer = tokenizer.get("normalizer") or {}
    stated = {settings.get("do_lower_case"), normalizer.get("lowercase")} - {None}
    check(
        len(stated) < 2,
        f"do_lower_case of {SETTINGS} and lowercase of {TOKENIZER} differ; correct the one that "
        "does not belong to the weights",
    )
    return stated.pop() if stated else seems_lowercase(vocabulary)


# Differences from our tokenizer: the name of the rule for `ignore`, and a description.
Problems = Iterator[tuple[str, str]]


def _wordpiece_problems(
    settings: Mapping[str, Any],
    tokenizer: Mapping[str, Any],
    tokenizer_class: str | None,
    lowercase: bool,
) -> Problems:
    name = settings.get("tokenizer_class") or tokenizer_class
    if name not in (None, *CLASSES):
        yield (
            "tokenizer_class",
            f"the tokenizer_class is {name}; expected one that splits as BERT's",
        )
    normalizer = tokenizer.get("normalizer") or {}
    if tokenizer:
        expected = {"normalizer": "BertNormalizer", "pre_tokenizer": "BertPreTokenizer"}
        for key, kind in expected.items():
            if (actual := (tokenizer.get(key) or {}).get("type")) != kind:
                yield key, f"{TOKENIZER}: {key} is {actual}; expected {kind}"
    for values, switches in (
        (settings, ("tokenize_chinese_chars", "do_basic_tokenize")),
        (normalizer, ("clean_text", "handle_chinese_chars")),
    ):
        for switch in switches:
            if values.get(switch, True) is not True:
                yield switch, f"{switch} of the tokenizer is false; expected true"
        if values.get("strip_accents") not in (None, lowercase):
            problem = f"strip_accents of the tokenizer is {values['strip_accents']}; BERT's "
            yield "strip_accents", f"{problem} does so if and only if it lower-cases texts"


def _prefix_problems(settings: Mapping[str, Any], vocabulary: Vocabulary) -> Problems:
    """Yields a contradiction about the space that byte-level BPE may add before a text."""
    name = "add_prefix_space"
    stated, used = settings.get(name), json.loads(vocabulary.rules)["pre_tokenizer"].get(name)
    if None not in (stated, used) and stated != used:
        yield name, f"{SETTINGS}: {name} is {stated}, in {TOKENIZER} {used}, which bert-keras uses"


def _token_problems(
    settings: Mapping[str, Any], tokenizer: Mapping[str, Any], vocabulary: Vocabulary
) -> Problems:
    for role, token in zip(SPECIAL_ROLES, vocabulary.specials.tokens, strict=True):
        value = settings.get(role, token)
        value = value.get("content") if isinstance(value, dict) else value
        if value not in (None, token):
            yield role, f"{SETTINGS}: {role} is {value!r}; expected {token!r}"
    added = {each["content"]: each for each in tokenizer.get("added_tokens") or ()}
    for token, each in added.items():
        if vocabulary.ids.get(token) != each["id"]:
            yield token, f"the added token {token} with id {each['id']} is not in the vocabulary"
    # Special tokens are divided on purpose, and byte-level BPE divides no others.
    whole = [
        token
        for token, each in added.items()
        if token not in vocabulary.specials.tokens and not each.get("special")
    ]
    if whole and vocabulary.specials.word_start != BYTE_SPACE:
        names = listed(whole, most=3)
        yield "added_tokens", f"{TOKENIZER} never divides the added tokens {names}; bert-keras does"


def sentence_settings(folder: Path) -> dict[str, Any]:
    """Returns the values of sentence_bert_config.json, {} without one.

    Old versions of sentence-transformers name the file after the family, such as "roberta".
    """
    return next(map(json_object, sorted(folder.glob(SENTENCES))), {})


def check_padding(family: Family, vocabulary: Vocabulary | None) -> None:
    """Raises InputError if the padding id is not the one from which the family counts positions."""
    expected = family.fixed_values.get("pad_token_id")
    check(
        vocabulary is None or expected in (None, vocabulary.pad_id),
        f"the id of padding is not {expected}, from which a {family.kind} counts positions; choose "
        "another format for a model with this vocabulary",
    )


def write_tokenizer(
    metadata: ModelMetadata, vocabulary: Vocabulary, folder: Path
) -> tuple[str, ...]:
    """Writes the tokenizer files.

    Returns:
        One sentence for each difference between our tokenizer and that of transformers.
    """
    settings = {
        "model_max_length": metadata.max_length,
        **dict(zip(SPECIAL_ROLES, vocabulary.specials.tokens, strict=True)),
        "model_input_names": ["input_ids", "attention_mask"],
    }
    if metadata.config.num_segments > 1 and vocabulary.specials.second_segment:
        settings["model_input_names"].insert(1, "token_type_ids")
    if vocabulary.rules:
        write_vocabulary(vocabulary, folder)
        write_json(folder / SETTINGS, settings | {"tokenizer_class": "PreTrainedTokenizerFast"})
        return (RULES_NOTE,)
    vocabulary.save(folder / VOCABULARY)
    tokenizer = Tokenizer(
        WordPiece(vocabulary.ids, unk_token="[UNK]", max_input_chars_per_word=MAX_WORD_CHARACTERS)
    )
    tokenizer.normalizer = normalizer(lowercase=metadata.lowercase)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary.cls_id), ("[SEP]", vocabulary.sep_id)],
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    tokenizer.save(str(folder / TOKENIZER))
    bert = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": metadata.lowercase,
        "strip_accents": None,
        "tokenize_chinese_chars": True,
    }
    write_json(folder / SETTINGS, bert | settings)
    return (WORDPIECE_NOTE,)
