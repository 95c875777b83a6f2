"""Reads and writes the tokenizer files of a Hugging Face folder.

tokenizer.json               the tokens and all rules, in the format of the library `tokenizers`
vocab.txt                    the tokens of WordPiece, one a line
vocab.json, merges.txt       byte-level BPE, the files of the published RoBERTa
spiece.model                 SentencePiece Unigram, the file of the published ALBERT and KoBERT
sentencepiece.bpe.model      SentencePiece Unigram, the file of XLM-RoBERTa and CamemBERT
spm.model                    SentencePiece Unigram, the file of the published DeBERTa
tokenizer_config.json        tokenizer class, letter case, maximum length and added tokens
added_tokens.json, special_tokens_map.json       added and special tokens, of older folders
sentence_bert_config.json    maximum length of a sentence-transformers model, which takes precedence
"""

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import AddedToken, Tokenizer, decoders
from tokenizers.models import BPE

from bert_keras.checkpoints.huggingface.config import CONFIG, check_fixed, note_if_ignored
from bert_keras.config import ModelMetadata
from bert_keras.errors import InputError, check_name, listed
from bert_keras.files import existing_file, json_object, optional_json, write_json
from bert_keras.text import fast_tokenizer
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import wordpiece
from bert_keras.text.vocab import MPNET_SPECIALS, Vocabulary, in_order_of_ids, seems_lowercase

VOCAB_TXT = "vocab.txt"
VOCAB_JSON = "vocab.json"
MERGES_TXT = "merges.txt"
TOKENIZER_JSON = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
# Tokenizer classes of transformers that split text as BERT does
BERT_TOKENIZER_CLASSES = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer")
BERT_TOKENIZER_CLASSES += ("MPNetTokenizer",)
BERT_TOKENIZER_CLASSES += tuple(f"{name}Fast" for name in BERT_TOKENIZER_CLASSES)
GENERIC_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")  # do what tokenizer.json says
SPECIAL_ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
# Fields of tokenizer.json, tokenizer_config.json and special_tokens_map.json; a note names each
# field that is in none of these tables and does not end in _token.
FLAGS = ("add_prefix_space", "do_lower_case", "keep_accents", "strip_accents")
# Their values are special tokens: a list, or an object of tokens by name.
TOKEN_LISTS = ("additional_special_tokens", "extra_special_tokens", "model_specific_special_tokens")
READ = {"added_tokens", "added_tokens_decoder", "model", "model_input_names", "model_max_length"}
READ |= {"normalizer", "post_processor", "pre_tokenizer", "tokenizer_class", *FLAGS, *TOKEN_LISTS}
# The only supported value of each field; other values would give other tokens.
FIXED_FIELDS: dict[str, Any] = {
    "do_basic_tokenize": True,
    "never_split": [],
    "padding_side": "right",
    "remove_space": True,
    "sp_model_kwargs": {},
    "split_by_punct": False,
    "split_special_tokens": False,
    "tokenize_chinese_chars": True,
    "truncation_side": "right",
}
# Fields for loading and decoding, and for padding and truncation, which bert-keras does itself
UNUSED = {"auto_map", "backend", "is_local", "legacy", "local_files_only", "name_or_path"}
UNUSED |= {"special_tokens_map_file", "tokenizer_file", "use_fast", "version", "vocab_type"}
UNUSED |= {"chat_template", "clean_up_tokenization_spaces", "decoder", "errors", "trim_offsets"}
UNUSED |= {"max_len", "max_length", "pad_to_multiple_of", "pad_token_type_id", "padding"}
UNUSED |= {"spaces_between_special_tokens", "stride", "truncation", "truncation_strategy", "unk_id"}
Problem = tuple[str, str]  # the name with which `ignore` accepts a problem, and its description
MASK_NOTE = "transformers treats [MASK] or <mask> in a text as a special token, bert-keras as text"
WORDPIECE_NOTE = f"{MASK_NOTE}; long words, rare characters and final Greek sigmas also differ"


class FolderTokenizer(NamedTuple):
    """The tokenizer of a Hugging Face folder."""

    vocabulary: Vocabulary | None  # None if the folder has no vocabulary
    lowercase: bool  # whether the tokenizer lower-cases text
    max_length: int | None  # maximum length of an input in tokens; None if no file states it
    notes: tuple[str, ...] = ()  # one sentence for each difference from transformers' tokenizer


def read_tokenizer(
    folder: Path, *, tokenizer_class: str | None, ignore: Collection[str], has_segments: bool = True
) -> FolderTokenizer:
    """Reads the tokenizer of a folder.

    Args:
        folder: The folder of the model.
        tokenizer_class: The class of transformers that config.json names, or None.
        ignore: Names of fields and tokens whose differences from our tokenizer become notes.
        has_segments: Whether the model has segment embeddings.

    Raises:
        InputError: A file is damaged, or its tokenizer differs from ours and `ignore` lacks the
            name of the field or token.
    """
    names = (TOKENIZER_JSON, TOKENIZER_CONFIG, "special_tokens_map.json")
    files = {name: optional_json(folder / name) for name in names}
    tokenizer, settings = files[TOKENIZER_JSON], files[TOKENIZER_CONFIG]
    added = _added_tokens(folder, files)
    class_name = settings.get("tokenizer_class") or tokenizer_class
    for name in FLAGS:
        what = f"value of {name} in {TOKENIZER_CONFIG}"
        check_name(settings.get(name), (None, True, False), what=what)
    lengths = (sentence_settings(folder).get("max_seq_length"), settings.get("model_max_length"))
    # A sequence has at least [CLS], one token and [SEP].
    max_length = next((each for each in lengths if isinstance(each, int) and each >= 3), None)
    # `actual` has the values in tokenizer.json that tokenizer_config.json may contradict.
    if (rules := read_tokenizer_json(folder, settings)) is not None:
        vocabulary = fast_tokenizer.rules_vocabulary(rules, added=added)
        actual = {
            "add_prefix_space": (json.loads(rules)["pre_tokenizer"] or {}).get("add_prefix_space"),
            "do_lower_case": fast_tokenizer.is_uncased(vocabulary),
            "keep_accents": '"StripAccents"' not in vocabulary.rules,
        }
    elif (vocabulary := _read_vocabulary(folder, tokenizer)) is not None:
        actual = {"do_lower_case": (tokenizer.get("normalizer") or {}).get("lowercase")}
    else:
        return FolderTokenizer(None, True, max_length)
    problems = [
        (name, f"{name} is {settings[name]} in {TOKENIZER_CONFIG} and {value} in {TOKENIZER_JSON}")
        for name, value in actual.items()
        if value is not None
        and settings.get(name) not in (None, value)
        # These classes use only the first value; do_lower_case is True in paraphrase-multilingual.
        and (name == "add_prefix_space" or class_name not in GENERIC_CLASSES)
    ]
    stated = (actual["do_lower_case"], settings.get("do_lower_case"), seems_lowercase(vocabulary))
    lowercase = next(each for each in stated if each is not None)
    if rules is None:
        problems += _wordpiece_problems(files, vocabulary, class_name, lowercase)
    problems += _token_problems(files, added, vocabulary)
    problems += _packing_problems(files, class_name, vocabulary, has_segments)
    notes = tuple(note_if_ignored(name, problem, ignore=ignore) for name, problem in problems)
    return FolderTokenizer(vocabulary, lowercase, max_length, (*notes, *_unknown_fields(files)))


def _unknown_fields(files: Mapping[str, Mapping]) -> Iterator[str]:
    """Yields a note for each file with fields that are in none of the tables above."""
    for file, values in files.items():
        stated = {n for n in values if values[n] is not None and not n.endswith("_token")}
        if unknown := sorted(stated - READ - FIXED_FIELDS.keys() - UNUSED):
            yield f"{file} has {listed(unknown, mark=', ')}, which bert-keras does not read"


def _added_tokens(folder: Path, files: Mapping[str, Mapping]) -> dict[str, dict]:
    """Returns the tokens that the files add to a vocabulary -> their options and their ids."""
    specials = []  # texts, or objects with the text as `content`
    ids = optional_json(folder / "added_tokens.json")
    added = [{"content": token, "id": token_id} for token, token_id in ids.items()]
    for values in files.values():
        specials += [values[name] for name in values if name.endswith("_token")]
        for name in TOKEN_LISTS:
            listed_tokens = values.get(name) or []
            is_object = isinstance(listed_tokens, dict)
            specials += listed_tokens.values() if is_object else listed_tokens
        decoder = values.get("added_tokens_decoder") or {}
        added += [{**each, "id": int(token_id)} for token_id, each in decoder.items()]
        added += values.get("added_tokens") or []
    contents = (each.get("content") if isinstance(each, dict) else each for each in specials)
    tokens: dict[str, dict] = {each: {"special": True} for each in contents if type(each) is str}
    for each in added:
        tokens[each["content"]] = {**tokens.get(each["content"], {}), **each}
    return tokens


def read_tokenizer_json(folder: Path, settings: Mapping[str, Any]) -> str | None:
    """Returns the text of tokenizer.json, or builds it from older files; None for WordPiece.

    `settings` are the values of tokenizer_config.json.
    """
    if (folder / TOKENIZER_JSON).is_file():
        model = json_object(folder / TOKENIZER_JSON).get("model") or {}
        # Old files, such as RoBERTa's, do not state the type of the model.
        default = "BPE" if "merges" in model else "Unigram" if "unk_id" in model else "WordPiece"
        has_rules = model.get("type", default) in fast_tokenizer.SPECIALS  # WordPiece has none
        return (folder / TOKENIZER_JSON).read_text("utf-8") if has_rules else None
    if (path := folder / "sentencepiece.bpe.model").is_file():
        is_camembert = optional_json(folder / CONFIG).get("model_type") == "camembert"
        specials = (fast_tokenizer.XLM_ROBERTA_SPECIALS, fast_tokenizer.CAMEMBERT_SPECIALS)
        return fast_tokenizer.xlm_roberta_rules(sentencepiece_model(path), specials[is_camembert])
    if (path := folder / "spm.model").is_file():
        specials = fast_tokenizer.SENTENCEPIECE_SPECIALS
        return fast_tokenizer.sentencepiece_rules(sentencepiece_model(path), specials)
    if (path := folder / "spiece.model").is_file():
        model = sentencepiece_model(path)
        specials = fast_tokenizer.SENTENCEPIECE_SPECIALS.tokens
        if {*specials} <= {each.piece for each in model.pieces}:
            return fast_tokenizer.kobert_rules(model)
        return fast_tokenizer.unigram_rules(
            model,
            lowercase=settings.get("do_lower_case", True),
            keeps_accents=settings.get("keep_accents", False),
        )
    has_byte_pairs = any((folder / name).is_file() for name in (VOCAB_JSON, MERGES_TXT))
    if has_byte_pairs and not (folder / VOCAB_TXT).is_file():
        in_order_of_ids(json_object(folder / VOCAB_JSON), file=VOCAB_JSON)  # raises InputError
        model = BPE.from_file(str(folder / VOCAB_JSON), str(existing_file(folder / MERGES_TXT)))
        prefixed = settings.get("add_prefix_space", False)
        return fast_tokenizer.byte_pair_rules(model, prefixed=prefixed)
    return None


def sentencepiece_model(path: Path):
    """Reads SentencePiece's ModelProto of a Unigram model."""
    from google.protobuf.message import DecodeError

    try:
        model = fast_tokenizer.sentencepiece_proto(path.read_bytes())
        is_unigram = model.trainer_spec.model_type == model.trainer_spec.UNIGRAM
        is_valid = is_unigram and model.HasField("normalizer_spec")  # absent if the file is cut off
    except DecodeError:
        is_valid = False
    if not is_valid:
        raise InputError(
            f"{path.name} cannot be read as a SentencePiece Unigram model; if it is a Git LFS "
            "pointer, run git lfs pull; otherwise download it again"
        )
    return model


def _read_vocabulary(folder: Path, tokenizer: Mapping[str, Any]) -> Vocabulary | None:
    """Reads the tokens of WordPiece from vocab.txt, or else from the values of tokenizer.json."""
    path = folder / VOCAB_TXT
    vocabulary = Vocabulary.from_file(path) if path.is_file() else None
    if not tokenizer:
        return vocabulary
    model = tokenizer.get("model") or {}
    fixed = {"type": "WordPiece", "continuing_subword_prefix": "##", "unk_token": "[UNK]"}
    check_fixed(model, fixed, file=TOKENIZER_JSON)
    tokens = in_order_of_ids(model["vocab"], file=TOKENIZER_JSON)
    return vocabulary or Vocabulary.of_wordpiece(tokens)


def _wordpiece_problems(
    files: Mapping[str, Mapping], vocabulary: Vocabulary, class_name: str | None, lowercase: bool
) -> Iterator[Problem]:
    """Yields the differences of a WordPiece tokenizer from BERT's."""
    if class_name not in (None, *BERT_TOKENIZER_CLASSES, *GENERIC_CLASSES):
        yield "tokenizer_class", f"{class_name} does not split texts as BERT's tokenizer does"
    expected = {"strip_accents": lowercase, "clean_text": True, "handle_chinese_chars": True}
    parts = [files[TOKENIZER_CONFIG]]  # values that may contain the names in `expected`
    if tokenizer := files[TOKENIZER_JSON]:
        if tokenizer["model"]["vocab"] != vocabulary.ids:
            yield VOCAB_TXT, f"{VOCAB_TXT} and {TOKENIZER_JSON} have different tokens; remove one"
        limit = "max_input_chars_per_word"
        if (most := tokenizer["model"].get(limit, 100)) < 100:  # the default of transformers
            yield limit, f"{TOKENIZER_JSON} makes [UNK] of words over {most} characters"
        for part, kind in (("normalizer", "BertNormalizer"), ("pre_tokenizer", "BertPreTokenizer")):
            values = tokenizer.get(part) or {}
            if values.get("type") != kind:
                yield part, f"{TOKENIZER_JSON}: {part} is {values.get('type')}; expected {kind}"
            parts.append(values)
    for values in parts:
        for name, value in expected.items():
            if values.get(name) not in (None, value):
                yield name, f"{name} of the tokenizer is {values[name]}; expected {value}"


def _token_problems(
    files: Mapping[str, Mapping], added: Mapping[str, Mapping], vocabulary: Vocabulary
) -> Iterator[Problem]:
    """Yields the settings and added tokens with which texts get other tokens than from us."""
    specials, ids = vocabulary.specials.tokens, vocabulary.ids
    roles = dict(zip(SPECIAL_ROLES, specials, strict=True))
    for name, expected in (FIXED_FIELDS | roles).items():
        for value in (values.get(name) for values in files.values()):
            value = value["content"] if isinstance(value, dict) and "content" in value else value
            if value not in (None, expected):
                yield name, f"{name} of the tokenizer is {value!r}; expected {expected!r}"
    for token, each in added.items():
        if "id" in each and ids.get(token, each["id"]) != each["id"]:
            yield token, f"the added token {token} has the id {ids[token]}, not {each['id']}"
    if not vocabulary.rules:  # WordPiece
        undivided = {token for token in added if "id" in added[token] or token in ids}
        if undivided := sorted(undivided - {*specials, "<unk>"}):  # MPNet never makes <unk>
            names = listed(undivided, most=3, mark=", ")
            yield "added_tokens", f"transformers never divides the tokens {names}; bert-keras does"


def _packing_problems(
    files: Mapping[str, Mapping], class_name: str | None, vocabulary: Vocabulary, has_segments: bool
) -> Iterator[Problem]:
    """Yields a problem if a packed row has other special tokens or segment ids than ours."""
    input_names = files[TOKENIZER_CONFIG].get("model_input_names")
    if input_names and has_segments and "token_type_ids" not in input_names:
        yield "model_input_names", f"{TOKENIZER_CONFIG} gives the model no token_type_ids"
    processor = files[TOKENIZER_JSON].get("post_processor")
    is_generic = bool(files[TOKENIZER_JSON]) and class_name in GENERIC_CLASSES
    if not processor and not is_generic:  # BERT's own classes need no post_processor
        return
    # Packs "a", and "a" with "b", by their post_processor and by our `pack`, and compares.
    model = {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"}
    source = json.dumps({"version": "1.0", "post_processor": processor, "model": model})
    for second, second_ids in ((None, None), ("b", [[1]])):
        theirs = Tokenizer.from_str(source).encode("a", second)
        ours = pack([[0]], second_ids, vocabulary=vocabulary, max_length=9)
        input_ids, _, segment_ids = (array[0].tolist() for array in ours.values())
        if theirs.ids != input_ids or (has_segments and theirs.type_ids != segment_ids):
            _, _, cls, sep, _ = vocabulary.specials.tokens
            packed = f"{cls} A {sep * vocabulary.specials.num_separators} B {sep}"
            problem = f"{TOKENIZER_JSON} adds other special tokens or segment ids than {packed}"
            yield "post_processor", problem
            return


def sentence_settings(folder: Path) -> dict[str, Any]:
    """Returns the values of sentence_bert_config.json (older: sentence_roberta_config.json)."""
    return next(map(json_object, sorted(folder.glob("sentence_*_config.json"))), {})


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
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"
        write_json(folder / TOKENIZER_CONFIG, settings)
        return (MASK_NOTE,)
    vocabulary.save(folder / VOCAB_TXT)
    tokenizer = wordpiece(vocabulary, lowercase=metadata.lowercase)
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.post_processor = fast_tokenizer.packing_template(vocabulary.specials, vocabulary.ids)
    specials = vocabulary.specials.tokens
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in specials])
    tokenizer.save(str(folder / TOKENIZER_JSON))
    bert = {
        "tokenizer_class": f"{'MPNet' if specials == MPNET_SPECIALS.tokens else 'Bert'}Tokenizer",
        "do_lower_case": metadata.lowercase,
        "strip_accents": None,
        "tokenize_chinese_chars": True,
    }
    write_json(folder / TOKENIZER_CONFIG, bert | settings)
    return (WORDPIECE_NOTE,)
