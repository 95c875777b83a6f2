"""Reads and writes the tokenizer files of a Hugging Face folder.

tokenizer.json               the tokens and all rules, in the format of the library `tokenizers`
vocab.txt                    the tokens of WordPiece, one a line
vocab.json, merges.txt       byte-level BPE, the files of the published RoBERTa
spiece.model                 SentencePiece Unigram, the file of the published ALBERT and KoBERT
sentencepiece.bpe.model      SentencePiece Unigram, the file of the published XLM-RoBERTa
tokenizer_config.json        tokenizer class, letter case, maximum length and added tokens
added_tokens.json, special_tokens_map.json       added and special tokens, of older folders
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
from bert_keras.errors import InputError, check_name, listed
from bert_keras.files import existing_file, json_object, optional_json, write_json
from bert_keras.text import fast_tokenizer
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import MAX_WORD_CHARACTERS, normalizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary, in_order_of_ids, seems_lowercase

VOCABULARY, TOKENIZER, SETTINGS = "vocab.txt", "tokenizer.json", "tokenizer_config.json"
ADDED, SPECIALS, PROCESSOR = "added_tokens.json", "special_tokens_map.json", "post_processor"
TOKENS, MERGES, MODEL = "vocab.json", "merges.txt", "spiece.model"
XLM_ROBERTA_MODEL, SENTENCES = "sentencepiece.bpe.model", "sentence_*_config.json"
UNIGRAM = 1  # value of SentencePiece's enum TrainerSpec.ModelType
# Tokenizer classes of transformers that split text as BERT does.
CLASSES = (
    *("BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast"),
    *("ElectraTokenizer", "ElectraTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend"),
)
SPECIAL_ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
# Fields of tokenizer.json, tokenizer_config.json and special_tokens_map.json; fields in none of
# these tables are noted unless they end in _token. READ: applied, or compared with our rules.
SWITCHES = ("add_prefix_space", "do_lower_case", "keep_accents", "strip_accents")
SEVERAL_TOKENS = tuple(f"{e}_special_tokens" for e in ("additional", "extra", "model_specific"))
READ = {"added_tokens", "added_tokens_decoder", "model", "model_input_names", "model_max_length"}
READ |= {"normalizer", "pre_tokenizer", PROCESSOR, "tokenizer_class", *SWITCHES, *SEVERAL_TOKENS}
FIXED: dict[str, Any] = {  # other values would make other tokens
    **{"do_basic_tokenize": True, "never_split": [], "padding_side": "right", "remove_space": True},
    **{"sp_model_kwargs": {}, "split_special_tokens": False, "tokenize_chinese_chars": True},
    "truncation_side": "right",
}
WITHOUT_EFFECT = {
    *("auto_map", "backend", "chat_template", "clean_up_tokenization_spaces", "decoder", "errors"),
    *("is_local", "legacy", "local_files_only", "max_len", "max_length", "name_or_path"),
    *("pad_to_multiple_of", "pad_token_type_id", "padding", "special_tokens_map_file", "stride"),
    *("tokenizer_file", "trim_offsets", "truncation", "truncation_strategy", "use_fast", "version"),
}
RULES_NOTE = "transformers' tokenizer reads special tokens such as [MASK] in a text as tokens"
WORDPIECE_NOTE = f"{RULES_NOTE}; it also differs for long words, rare characters and a final sigma"


class TextRules(NamedTuple):
    """The tokenizer of a folder."""

    vocabulary: Vocabulary | None  # None if the folder has no vocabulary
    lowercase: bool  # whether the tokenizer lower-cases text
    max_length: int | None  # maximum length of an input in tokens; None if no file states it
    notes: tuple[str, ...] = ()  # one sentence for each difference from transformers' tokenizer


def read_tokenizer(
    folder: Path, *, tokenizer_class: str | None, ignore: Collection[str], has_segments: bool = True
) -> TextRules:
    """Reads the tokenizer of a folder; config.json may name the `tokenizer_class`."""
    files = {name: optional_json(folder / name) for name in (TOKENIZER, SETTINGS, SPECIALS)}
    tokenizer, settings = files[TOKENIZER], files[SETTINGS]
    added, class_name = _added_tokens(folder, files), settings.get("tokenizer_class")
    class_name = class_name or tokenizer_class
    for name in SWITCHES:
        check_name(settings.get(name), (None, True, False), what=f"value of {name} in {SETTINGS}")
    lengths = (sentence_settings(folder).get("max_seq_length"), settings.get("model_max_length"))
    # A sequence has at least [CLS], one token and [SEP].
    max_length = next((each for each in lengths if isinstance(each, int) and each >= 3), None)
    if (rules := read_rules(folder, settings)) is not None:
        vocabulary = fast_tokenizer.rules_vocabulary(rules, added=added)
        prefixed = json.loads(rules)["pre_tokenizer"].get("add_prefix_space")
        keeps_accents = '"StripAccents"' not in vocabulary.rules
        used = (prefixed, fast_tokenizer.is_uncased(vocabulary), keeps_accents)
    elif (vocabulary := _read_vocabulary(folder, tokenizer)) is not None:
        used = (None, (tokenizer.get("normalizer") or {}).get("lowercase"), None)
    else:
        return TextRules(None, True, max_length)
    problems, lowercase = [], settings.get("do_lower_case") if used[1] is None else used[1]
    lowercase = seems_lowercase(vocabulary) if lowercase is None else lowercase
    for name, value in zip(SWITCHES, used, strict=False):
        if None not in (value, stated := settings.get(name)) and value != stated:
            problem = f"{name} is {stated} in {SETTINGS} and {value} in {TOKENIZER}"
            problems.append((name, problem))
    if rules is None:
        problems += _wordpiece_problems(files, vocabulary, class_name, lowercase)
    problems += _token_problems(files, added, vocabulary)
    problems += _packing_problems(files, class_name, vocabulary, has_segments)
    notes = tuple(note_if_ignored(name, problem, ignore=ignore) for name, problem in problems)
    return TextRules(vocabulary, lowercase, max_length, (*notes, *_unknown_fields(files)))


def _unknown_fields(files: Mapping[str, Mapping]) -> Iterator[str]:
    for file, values in files.items():
        stated = {n for n in values if values[n] is not None and not n.endswith("_token")}
        if unknown := sorted(stated - READ - FIXED.keys() - WITHOUT_EFFECT):
            yield f"{file} has {listed(unknown, mark=', ')}, which bert-keras does not read"


def _added_tokens(folder: Path, files: Mapping[str, Mapping]) -> dict[str, dict]:
    """Returns the tokens that the files add to a vocabulary, with their options and ids."""
    ids, specials = optional_json(folder / ADDED), []
    added = [{"content": token, "id": token_id} for token, token_id in ids.items()]
    for values in files.values():
        specials += [values[name] for name in values if name.endswith("_token")]
        for several in filter(None, map(values.get, SEVERAL_TOKENS)):
            specials += several.values() if isinstance(several, dict) else several
        decoder = values.get("added_tokens_decoder") or {}
        added += [{**each, "id": int(token_id)} for token_id, each in decoder.items()]
        added += values.get("added_tokens") or []
    contents = (each.get("content") if isinstance(each, dict) else each for each in specials)
    tokens: dict[str, dict] = {each: {"special": True} for each in contents if type(each) is str}
    for each in added:
        tokens[each["content"]] = {**tokens.get(each["content"], {}), **each}
    return tokens


def read_rules(folder: Path, settings: Mapping[str, Any]) -> str | None:
    """Returns the rules of BPE or Unigram as a tokenizer.json text, or None for WordPiece."""
    if (folder / TOKENIZER).is_file():
        model = json_object(folder / TOKENIZER).get("model") or {}
        # Old files, such as RoBERTa's, do not state the type of the model.
        default = "BPE" if "merges" in model else "Unigram" if "unk_id" in model else "WordPiece"
        has_rules = model.get("type", default) in fast_tokenizer.SPECIALS
        return (folder / TOKENIZER).read_text("utf-8") if has_rules else None
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
    fixed = {"type": "WordPiece", "continuing_subword_prefix": "##", "unk_token": "[UNK]"}
    check_fixed(model, fixed, file=TOKENIZER)
    return vocabulary or Vocabulary(in_order_of_ids(model["vocab"], file=TOKENIZER))


def _wordpiece_problems(
    files: Mapping[str, Mapping], vocabulary: Vocabulary, class_name: str | None, lowercase: bool
) -> Iterator[tuple[str, str]]:
    """Yields differences from BERT's tokenizer as pairs: a name for `ignore`, and a sentence."""
    if class_name not in (None, *CLASSES):
        yield "tokenizer_class", f"{class_name} does not split texts as BERT's tokenizer does"
    parts: list[tuple[Mapping, dict]] = [(files[SETTINGS], {})]
    if tokenizer := files[TOKENIZER]:
        if tokenizer["model"]["vocab"] != vocabulary.ids:
            yield VOCABULARY, f"{VOCABULARY} and {TOKENIZER} have different tokens; remove one"
        if (most := tokenizer["model"].get(limit := "max_input_chars_per_word", 100)) < 100:
            yield limit, f"{TOKENIZER} makes [UNK] of words over {most} characters"
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
    files: Mapping[str, Mapping], added: Mapping[str, Mapping], vocabulary: Vocabulary
) -> Iterator[tuple[str, str]]:
    """Yields, as above, fields and added tokens that make other tokens than ours."""
    specials, ids = vocabulary.specials.tokens, vocabulary.ids
    for name, expected in {**FIXED, **dict(zip(SPECIAL_ROLES, specials, strict=True))}.items():
        for value in (values.get(name) for values in files.values()):
            value = value["content"] if isinstance(value, dict) and "content" in value else value
            if value not in (None, expected):
                yield name, f"{name} of the tokenizer is {value!r}; expected {expected!r}"
    for token, each in added.items():
        if "id" in each and ids.get(token, each["id"]) != each["id"]:
            yield token, f"the added token {token} has the id {ids[token]}, not {each['id']}"
    whole = [token for token in added if "id" in added[token] or token in ids]
    if (whole := sorted({*whole} - {*specials})) and not vocabulary.rules:
        names = listed(whole, most=3, mark=", ")
        yield "added_tokens", f"transformers never divides the tokens {names}; bert-keras does"


def _packing_problems(
    files: Mapping[str, Mapping], class_name: str | None, vocabulary: Vocabulary, has_segments: bool
) -> Iterator[tuple[str, str]]:
    """Yields, as above, how one or two texts, "a" and "b" with the ids 0 and 1, are packed."""
    inputs, processor = files[SETTINGS].get("model_input_names"), files[TOKENIZER].get(PROCESSOR)
    if inputs and has_segments and "token_type_ids" not in inputs:
        yield "model_input_names", f"{SETTINGS} gives the model no token_type_ids"
    if processor or (files[TOKENIZER] and class_name in CLASSES[-2:]):  # others have one
        model = {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"}
        rules = json.dumps({"version": "1.0", PROCESSOR: processor, "model": model})
        for texts in ("a", "ab"):
            theirs = Tokenizer.from_str(rules).encode(texts[0], texts[1:] or None)
            rows = [[["ab".index(text)]] for text in texts]
            ids, _, segments = pack(*rows, vocabulary=vocabulary, max_length=9).values()
            ours, found = (ids[0].tolist(), segments[0].tolist()), (theirs.ids, theirs.type_ids)
            if ours[: 1 + has_segments] != found[: 1 + has_segments]:
                yield PROCESSOR, f"{TOKENIZER} packs 0 and 1 as ids, segments {found}, not {ours}"


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
