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

from bert_keras.checkpoints.huggingface.config import check_fixed, note_if_ignored
from bert_keras.config import ModelMetadata
from bert_keras.errors import InputError, listed
from bert_keras.files import existing_file, json_object, write_json
from bert_keras.text import fast_tokenizer
from bert_keras.text.tokenizer import MAX_WORD_CHARACTERS, normalizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary, in_order_of_ids, seems_lowercase

VOCABULARY, TOKENIZER, SETTINGS = "vocab.txt", "tokenizer.json", "tokenizer_config.json"
TOKENS, MERGES, MODEL = "vocab.json", "merges.txt", "spiece.model"
XLM_ROBERTA_MODEL, SENTENCES = "sentencepiece.bpe.model", "sentence_*_config.json"
UNIGRAM = 1  # value of SentencePiece's enum TrainerSpec.ModelType
# Tokenizer classes of transformers that split text as BERT does.
CLASSES = (
    *("BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast"),
    *("ElectraTokenizer", "ElectraTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend"),
)
SPECIAL_ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
RULES_NOTE = "transformers' tokenizer reads special tokens such as [MASK] in a text as tokens"
WORDPIECE_NOTE = f"{RULES_NOTE}; it also differs for long words, rare characters and a final sigma"


class TextRules(NamedTuple):
    """The tokenizer of a folder."""

    vocabulary: Vocabulary | None  # None if the folder has no vocabulary
    lowercase: bool  # whether the tokenizer lower-cases text
    max_length: int | None  # maximum length of an input in tokens; None if no file states it
    notes: tuple[str, ...] = ()  # one sentence for each difference from transformers' tokenizer


def read_tokenizer(
    folder: Path, *, tokenizer_class: str | None, ignore: Collection[str]
) -> TextRules:
    """Reads the tokenizer of a folder; config.json may name the `tokenizer_class`."""
    settings = json_object(folder / SETTINGS) if (folder / SETTINGS).is_file() else {}
    tokenizer = json_object(folder / TOKENIZER) if (folder / TOKENIZER).is_file() else {}
    lengths = (sentence_settings(folder).get("max_seq_length"), settings.get("model_max_length"))
    # A sequence has at least [CLS], one token and [SEP].
    max_length = next((each for each in lengths if isinstance(each, int) and each >= 3), None)
    if (rules := read_rules(folder, settings)) is not None:
        vocabulary = fast_tokenizer.rules_vocabulary(rules)
        lowercase, problems = fast_tokenizer.is_uncased(vocabulary), []
        used = json.loads(rules)["pre_tokenizer"].get("add_prefix_space")
        stated = settings.get("add_prefix_space", used)
        if used not in (None, stated):  # byte-level BPE may add a space before a text
            problem = f"add_prefix_space is {stated} in {SETTINGS} and {used} in {TOKENIZER}"
            problems.append(("add_prefix_space", problem))
    elif (vocabulary := _read_vocabulary(folder, tokenizer)) is not None:
        normalizer_values = tokenizer.get("normalizer") or {}
        stated = {settings.get("do_lower_case"), used := normalizer_values.get("lowercase")}
        if used is not None:
            check_fixed(settings, {"do_lower_case": used}, file=f"{SETTINGS}, unlike {TOKENIZER}")
        lowercase = bool(next(iter(stated - {None}), seems_lowercase(vocabulary)))
        problems = [*_wordpiece_problems(settings, tokenizer, tokenizer_class, lowercase)]
    else:
        return TextRules(None, True, max_length)
    problems += _token_problems(settings, tokenizer, vocabulary)
    notes = tuple(note_if_ignored(name, problem, ignore=ignore) for name, problem in problems)
    return TextRules(vocabulary, lowercase, max_length, notes)


def read_rules(folder: Path, settings: Mapping[str, Any]) -> str | None:
    """Returns the rules of BPE or Unigram as a tokenizer.json text, or None for WordPiece."""
    if (folder / TOKENIZER).is_file():
        model = json_object(folder / TOKENIZER).get("model") or {}
        # Old files, such as RoBERTa's, do not state the type of the model.
        default = "BPE" if "merges" in model else "Unigram" if "unk_id" in model else "WordPiece"
        if model.get("type", default) in fast_tokenizer.SPECIALS:
            return (folder / TOKENIZER).read_text("utf-8")
        return None
    if (folder / XLM_ROBERTA_MODEL).is_file():
        return fast_tokenizer.xlm_roberta_rules(sentencepiece_model(folder / XLM_ROBERTA_MODEL))
    if (folder / MODEL).is_file():
        model = sentencepiece_model(folder / MODEL)
        if set(fast_tokenizer.KOBERT_SPECIALS.tokens) <= {each.piece for each in model.pieces}:
            return fast_tokenizer.kobert_rules(model)
        return fast_tokenizer.unigram_rules(
            model,
            lowercase=settings.get("do_lower_case", True),
            keeps_accents=settings.get("keep_accents", False),
        )
    files = [(folder / name).is_file() for name in (TOKENS, MERGES, VOCABULARY)]
    if any(files[:2]) and not files[2]:
        in_order_of_ids(json_object(folder / TOKENS), file=TOKENS)
        model = BPE.from_file(str(folder / TOKENS), str(existing_file(folder / MERGES)))
        prefixed = settings.get("add_prefix_space", False)
        return fast_tokenizer.byte_pair_rules(model, prefixed=prefixed)
    return None


def sentencepiece_model(path: Path):
    """Reads SentencePiece's ModelProto of a Unigram model."""
    from google.protobuf.message import DecodeError
    from sentencepiece import sentencepiece_model_pb2 as protobuf

    # The type checker does not find the class, which protobuf creates on import.
    model = protobuf.ModelProto()  # pyright: ignore[reportAttributeAccessIssue]
    try:
        model.ParseFromString(path.read_bytes())
        is_unigram = model.trainer_spec.model_type == UNIGRAM
        is_valid = is_unigram and model.HasField("normalizer_spec")  # absent if the file is cut off
    except DecodeError:
        is_valid = False
    if not is_valid:
        raise InputError(
            f"{path.name} is damaged or not a Unigram model; copy it again, in "
            "a clone by git lfs pull"
        )
    return model


def _read_vocabulary(folder: Path, tokenizer: Mapping[str, Any]) -> Vocabulary | None:
    path = folder / VOCABULARY
    vocabulary = Vocabulary.from_file(path) if path.is_file() else None
    if not tokenizer:
        return vocabulary
    model = tokenizer.get("model") or {}
    fixed = {"type": "WordPiece", "continuing_subword_prefix": "##"}
    check_fixed(model, fixed, file=TOKENIZER)
    tokens = in_order_of_ids(model["vocab"], file=TOKENIZER)
    if vocabulary is not None and vocabulary.tokens != tokens:
        raise InputError(f"{VOCABULARY} and {TOKENIZER} have different tokens; remove one")
    return vocabulary or Vocabulary(tokens)


def _wordpiece_problems(
    settings: Mapping[str, Any],
    tokenizer: Mapping[str, Any],
    tokenizer_class: str | None,
    lowercase: bool,
) -> Iterator[tuple[str, str]]:
    """Yields differences from BERT's tokenizer as pairs: a name for `ignore`, and a sentence."""
    name = settings.get("tokenizer_class") or tokenizer_class
    if name not in (None, *CLASSES):
        problem = f"the tokenizer_class is {name}; expected one that splits texts as BERT's does"
        yield "tokenizer_class", problem
    parts = [(settings, {"tokenize_chinese_chars": True, "do_basic_tokenize": True})]
    if tokenizer:
        for part, kind in (("normalizer", "BertNormalizer"), ("pre_tokenizer", "BertPreTokenizer")):
            values = tokenizer.get(part) or {}
            if values.get("type") != kind:
                yield part, f"{TOKENIZER}: {part} is {values.get('type')}; expected {kind}"
            parts.append((values, {"clean_text": True, "handle_chinese_chars": True}))
    for values, expected in parts:
        for name, value in {**expected, "strip_accents": lowercase}.items():
            if values.get(name) not in (None, value):
                yield name, f"{name} of the tokenizer is {values[name]}; expected {value}"


def _token_problems(
    settings: Mapping[str, Any], tokenizer: Mapping[str, Any], vocabulary: Vocabulary
) -> Iterator[tuple[str, str]]:
    """Yields, as above, special and added tokens that our tokenizer treats differently."""
    for role, token in zip(SPECIAL_ROLES, vocabulary.specials.tokens, strict=True):
        value = settings.get(role, token)
        value = value.get("content") if isinstance(value, dict) else value
        if value not in (None, token):
            yield role, f"{SETTINGS}: {role} is {value!r}; expected {token!r}"
    added = {each["content"]: each for each in tokenizer.get("added_tokens") or ()}
    for token, each in added.items():
        if vocabulary.ids.get(token) != each["id"]:
            yield token, f"the added token {token} with id {each['id']} is not in the vocabulary"
    # We divide special tokens on purpose, and byte-level BPE does not divide other added tokens.
    whole = [
        token
        for token, each in added.items()
        if token not in vocabulary.specials.tokens and not each.get("special")
    ]
    if whole and vocabulary.specials.word_start != fast_tokenizer.BYTE_SPACE:
        names = listed(whole, most=3)
        yield "added_tokens", f"{TOKENIZER} never divides the added tokens {names}; bert-keras does"


def sentence_settings(folder: Path) -> dict[str, Any]:
    """Returns the values of sentence_bert_config.json (older: sentence_roberta_config.json)."""
    return next(map(json_object, sorted(folder.glob(SENTENCES))), {})


def write_tokenizer(
    metadata: ModelMetadata, vocabulary: Vocabulary, folder: Path
) -> tuple[str, ...]:
    """Writes the tokenizer files, and returns how transformers' tokenizer differs from ours."""
    settings = {
        "model_max_length": metadata.max_length,
        **dict(zip(SPECIAL_ROLES, vocabulary.specials.tokens, strict=True)),
        "model_input_names": ["input_ids", "attention_mask"],
    }
    if metadata.config.num_segments > 1 and vocabulary.specials.second_segment:
        settings["model_input_names"].insert(1, "token_type_ids")
    if vocabulary.rules:
        fast_tokenizer.write_vocabulary(vocabulary, folder)
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
