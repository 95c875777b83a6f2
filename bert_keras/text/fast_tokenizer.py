"""Reads and builds the rules of a tokenizer.json, and tokenizes by these rules.

A tokenizer.json of the library `tokenizers` describes a byte-level BPE tokenizer (RoBERTa,
ModernBERT), a BPE tokenizer of characters that writes spaces as "▁" (Gemma, mmBERT) or a Unigram
tokenizer (ALBERT, XLM-RoBERTa, KoBERT). The ids equal the ids of Hugging Face's tokenizers. Rules
of Unigram are built from SentencePiece's ModelProto `model`.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE, Unigram
from tokenizers.processors import ByteLevel, RobertaProcessing, TemplateProcessing

from bert_keras.errors import InputError
from bert_keras.files import StrPath, text_lines, write_text
from bert_keras.text.columns import checked_list
from bert_keras.text.tokenizer import TextTokenizer, TokenizedText, WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, WORD_MARK, Specials, Vocabulary, in_order_of_ids

BYTE_SPACE = "Ġ"  # the space in a token of byte-level BPE
ROBERTA_SPECIALS = Specials(
    ("<pad>", "<unk>", "<s>", "</s>", "<mask>"),
    num_separators=2,
    second_segment=0,
    word_start=BYTE_SPACE,
)
MODERNBERT_SPECIALS = Specials(SPECIAL_TOKENS, second_segment=0, word_start=BYTE_SPACE)
ALBERT_SPECIALS = Specials(("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"), word_start=WORD_MARK)
XLM_ROBERTA_SPECIALS = replace(ROBERTA_SPECIALS, word_start=WORD_MARK)
CAMEMBERT_SPECIALS = replace(
    XLM_ROBERTA_SPECIALS, unused=("<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED")
)
SENTENCEPIECE_SPECIALS = Specials(SPECIAL_TOKENS, word_start=WORD_MARK)
MMBERT_SPECIALS = Specials(
    ("<pad>", "<unk>", "<bos>", "<eos>", "<mask>"), second_segment=0, word_start=WORD_MARK
)
# The keys are the values of `model.type` in a tokenizer.json.
SPECIALS = {
    "BPE": (ROBERTA_SPECIALS, MODERNBERT_SPECIALS, MMBERT_SPECIALS),
    "Unigram": (
        ALBERT_SPECIALS,
        CAMEMBERT_SPECIALS,
        XLM_ROBERTA_SPECIALS,
        SENTENCEPIECE_SPECIALS,
    ),
}
SPLITTERS = {"BPE": '"ByteLevel"', "Unigram": '"Metaspace"'}
SUPPORTED = "known are WordPiece, byte-level BPE, Gemma's BPE and SentencePiece's Unigram"
MARK_SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": WORD_MARK}  # a normalizer
_WHOLE = ((None, None), ("Split", {"String": " "}))  # types and patterns of a pre_tokenizer
OPTIONS = ("single_word", "lstrip", "rstrip", "normalized", "special")  # of an added token
EXCLUDED_SCORE = -100.0  # added to the score of a token that must never be chosen
VOCABULARY_FILE, RULES_FILE = "vocab.txt", "tokenizer.json"


def vocabulary_in(folder: Path) -> Vocabulary | None:
    """Returns the vocabulary that `write_vocabulary` wrote to `folder`, or None."""
    files = [folder / name for name in (VOCABULARY_FILE, RULES_FILE) if (folder / name).is_file()]
    return vocabulary_from(files[0]) if files else None


def records_vocabulary(records: StrPath) -> Vocabulary:
    """Returns the vocabulary in a folder of records; raises InputError if there is none."""
    if (vocabulary := vocabulary_in(Path(records))) is None:
        raise InputError(
            f"{records} is not a folder of records with their vocab.txt or tokenizer.json; name "
            "the folder that bert-tfrecords build wrote"
        )
    return vocabulary


def vocabulary_from(path: StrPath) -> Vocabulary:
    """Reads the vocabulary of a tokenizer.json (any name that ends in .json) or a vocab.txt."""
    if Path(path).suffix == Path(RULES_FILE).suffix:
        return rules_vocabulary("\n".join(text_lines(path)), file=path)
    return Vocabulary.from_file(path)


def write_vocabulary(vocabulary: Vocabulary, folder: Path) -> Path:
    """Writes vocab.txt for WordPiece, or tokenizer.json otherwise, and returns its path."""
    name, text = vocabulary_file(vocabulary)
    write_text(folder / name, text)
    return folder / name


def vocabulary_file(vocabulary: Vocabulary) -> tuple[str, str]:
    """Returns the name and the content of the file that `write_vocabulary` writes."""
    rules = vocabulary.rules
    return (RULES_FILE, rules) if rules else (VOCABULARY_FILE, vocabulary.lines)


def vocabulary_sha256(vocabulary: Vocabulary) -> str:
    """Returns the SHA-256 of the file that `write_vocabulary` writes, as hexadecimal digits."""
    return hashlib.sha256(vocabulary_file(vocabulary)[1].encode()).hexdigest()


def rules_vocabulary(
    rules: str, *, file: StrPath = RULES_FILE, added: Mapping[str, Mapping] | None = None
) -> Vocabulary:
    """Returns the vocabulary of a tokenizer.json; an older format becomes the current one.

    Args:
        rules: The text of the tokenizer.json.
        file: The path of the file, for errors.
        added: Tokens to add to the rules -> their options, and their ids if the file states them.
    """
    try:
        source, tokenizer = json.loads(rules), Tokenizer.from_str(rules)
        model, splitter = type(tokenizer.model).__name__, json.dumps(source.get("pre_tokenizer"))
        is_nested = model == "BPE" and '"pretokenizers"' in splitter
        has_marks = model == "BPE" and marks_spaces(source)
        is_known = has_marks or SPLITTERS.get(model, model) in splitter
        if model not in SPECIALS or not is_known or is_nested:
            raise ValueError(f"a {model} tokenizer that splits by {splitter}")
        if model == "BPE" and not source["model"]["merges"]:
            raise ValueError("it has no merges")
    except Exception as error:  # `tokenizers` raises no other class
        raise InputError(f"{file} is damaged or of another type ({error}); {SUPPORTED}") from error
    in_rules = {each.content for each in tokenizer.get_added_tokens_decoder().values()}
    # New tokens get the next ids, so they are added in the order of their ids.
    for token, each in sorted((added or {}).items(), key=lambda pair: pair[1].get("id", -1)):
        has_id = "id" in each or tokenizer.token_to_id(token) is not None
        if has_id and token not in in_rules:
            options = {name: each[name] for name in OPTIONS if name in each}
            tokenizer.add_tokens([AddedToken(token, **options)])
    vocab = source["model"]["vocab"]  # BPE: token -> id; Unigram: [token, score] in order of ids
    ids = dict(vocab) if model == "BPE" else {token: i for i, (token, _) in enumerate(vocab)}
    ids |= {each.content: i for i, each in tokenizer.get_added_tokens_decoder().items()}
    known = SPECIALS[model]
    found = (each for each in known if ids.keys() >= {*each.tokens, *each.unused})
    specials = next(found, known[0])
    if has_marks:
        specials = replace(specials, word_start=WORD_MARK)
    num_added = tokenizer.num_special_tokens_to_add(is_pair=True)
    if num_added in (3, 4):  # some models have RoBERTa's tokens and one separator
        specials = replace(specials, num_separators=num_added - 2)
    return Vocabulary(in_order_of_ids(ids, file=os.fspath(file)), specials, tokenizer.to_str())


def tokenizer_of(
    vocabulary: Vocabulary, *, lowercase: bool, shortens_first: bool = False
) -> TextTokenizer:
    """Builds the tokenizer of a vocabulary; only WordPiece uses `lowercase`."""
    vocabulary = replace(vocabulary, shortens_first=shortens_first)
    if vocabulary.rules:
        return FastTokenizer(vocabulary)
    return WordPieceTokenizer(vocabulary, lowercase=lowercase)


def marks_spaces(rules: Mapping[str, Any]) -> bool:
    """Returns whether the rules of a BPE write each space as "▁", as Gemma's do."""
    splitter = rules.get("pre_tokenizer") or {}
    # After the normalizer, there are no spaces at which the text could be split.
    is_whole = (splitter.get("type"), splitter.get("pattern")) in _WHOLE
    is_marked = rules.get("normalizer") == MARK_SPACES and is_whole
    return splitter.get("replacement") == WORD_MARK or is_marked


def is_uncased(vocabulary: Vocabulary) -> bool:
    """Returns whether the rules of a vocabulary lower-case text."""
    # No token can contain this text, because JSON writes the quotation marks of tokens as \".
    return '"type":"Lowercase"' in vocabulary.rules


def is_unigram(vocabulary: Vocabulary) -> bool:
    """Returns whether the rules of a vocabulary are those of a Unigram tokenizer."""
    return '"type":"Unigram"' in vocabulary.rules  # as in `is_uncased`


@cache
def readable_tokens(vocabulary: Vocabulary) -> tuple[str, ...]:
    """Returns the tokens as WordPiece writes them, for display: "##" continues a word."""
    if not vocabulary.rules:
        return vocabulary.tokens
    specials, byte_decoder = vocabulary.specials, decoders.ByteLevel()

    def readable(token: str) -> str:
        if token in (*specials.tokens, specials.word_start):
            return token
        text = token.removeprefix(specials.word_start)
        if specials.word_start == BYTE_SPACE:
            decoded = byte_decoder.decode([text])
            # U+FFFD means that the token holds only some bytes of a character.
            text = decoded if decoded.isprintable() and "\ufffd" not in decoded else text
        return f"##{text}" if vocabulary.continues(token) else text

    return tuple(map(readable, vocabulary.tokens))


def rules_of(vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns the rules as JSON values; `special` tells which added tokens texts cannot contain.

    If a text contains such a token, it is split like other text. These are the special tokens of
    the model and the tokens that `Vocabulary.padded` adds. All other added tokens are found in
    texts, even if transformers calls them special.
    """
    rules, specials = json.loads(vocabulary.rules), vocabulary.specials
    for each in rules["added_tokens"]:
        is_padding = each["special"] and each["content"].startswith("[unused")
        each["special"] = is_padding or each["content"] in (*specials.tokens, *specials.unused)
    return rules


class FastTokenizer(TextTokenizer):
    """The tokenizer that a tokenizer.json describes; it never divides added tokens."""

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary
        settings = rules_of(vocabulary)
        self.lowercase = is_uncased(vocabulary)
        settings |= dict.fromkeys(("truncation", "padding", "post_processor"))
        if settings["model"]["type"] == "Unigram":
            # Special tokens get a leading space, so that no text contains them: Metaspace replaces
            # all spaces of a text.
            tokens = settings["model"]["vocab"]  # [token, score] in order of ids
            for token in (*vocabulary.specials.tokens, *vocabulary.specials.unused):
                if (token_id := vocabulary.ids[token]) < len(tokens):
                    tokens[token_id][0] = f" {token}"
            for each in settings["added_tokens"]:
                if each["special"]:
                    each["content"] = f" {each['content']}"
        self._tokenizer = Tokenizer.from_str(json.dumps(settings))
        self._tokenizer.encode_special_tokens = True  # "[SEP]" in a text is plain text
        is_bpe = settings["model"]["type"] == "BPE"
        self._marks_spaces = is_bpe and marks_spaces(settings)
        if is_bpe and not self._marks_spaces:
            # The splitter may add a leading space, which must not be counted in offsets.
            prefixed = settings["pre_tokenizer"]["add_prefix_space"]
            self._tokenizer.post_processor = ByteLevel(add_prefix_space=prefixed, trim_offsets=True)

    def encode_batch(self, texts: Sequence[str]) -> list[TokenizedText]:
        texts, results = checked_list(texts), []
        num_removed = list(map(self._num_removed, texts))
        texts = [text[num:] for text, num in zip(texts, num_removed, strict=True)]
        encoded = self._tokenizer.encode_batch(texts)
        for text, encoding, num in zip(texts, encoded, num_removed, strict=True):
            offsets = [(start + num, end + num) for start, end in encoding.offsets]
            if self._marks_spaces:
                offsets = [_without_spaces(text, *each) for each in offsets]
            results.append(TokenizedText(encoding.ids, self._tokens(encoding.ids), offsets))
        return results

    def ids_batch(self, texts: Sequence[str]) -> list[list[int]]:
        texts = checked_list(texts)
        return [each.ids for each in self._tokenizer.encode_batch_fast(texts)]

    def decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decoder.decode(self._tokens(ids)).strip()

    def _num_removed(self, text: str) -> int:
        """Returns the number of leading characters that normalization removes."""
        # `tokenizers` gives such a text other offsets, so the characters are removed before.
        normalizer = self._tokenizer.normalizer
        if normalizer is None:
            return 0
        kept = (index for index, char in enumerate(text) if normalizer.normalize_str(char))
        return next(kept, len(text))


def _without_spaces(text: str, start: int, end: int) -> tuple[int, int]:
    """Returns a range of a text without the spaces at its ends, which belong to no word."""
    start = end - len(text[start:end].lstrip(" "))
    return start, start + len(text[start:end].rstrip(" "))


def byte_pair_rules(model: BPE, *, prefixed: bool = False) -> str:
    """Builds the tokenizer.json of a byte-level BPE, as RobertaTokenizer of transformers does.

    With `prefixed`, the tokenizer puts a space before each text.
    """
    tokenizer = Tokenizer(model)
    _, _, cls, sep, _ = tokens = ROBERTA_SPECIALS.tokens
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefixed)
    tokenizer.decoder = decoders.ByteLevel()
    ids = _add_specials(tokenizer, tokens)
    ends = (sep, ids[sep]), (cls, ids[cls])
    tokenizer.post_processor = RobertaProcessing(*ends, add_prefix_space=prefixed)
    return tokenizer.to_str()


def sentencepiece_proto(content: bytes) -> Any:
    """Returns the ModelProto in the content of a SentencePiece file."""
    from sentencepiece import sentencepiece_model_pb2 as protobuf

    # The type checker does not find the class, which protobuf creates on import.
    return protobuf.ModelProto.FromString(content)  # pyright: ignore[reportAttributeAccessIssue]


def unigram_rules(model: Any, *, lowercase: bool, keeps_accents: bool) -> str:
    """Builds the tokenizer.json of ALBERT's SentencePiece model, as transformers 4 does."""
    steps = unigram_steps(lowercase=lowercase, keeps_accents=keeps_accents)
    unigrams = _exclude_digit_commas(model)
    return _unigram_text(unigrams, [*steps, *_normalization(model)], ALBERT_SPECIALS)


def sentencepiece_rules(model: Any, specials: Specials = ALBERT_SPECIALS) -> str:
    """Builds the tokenizer.json that tokenizes as SentencePiece does (DeBERTa, ALBERT in KerasHub).

    Special tokens that the model lacks, such as DeBERTa's [MASK], follow its tokens.
    """
    scores = {each.piece: each.score for each in model.pieces}
    scores |= {token: 0.0 for token in specials.tokens if token not in scores}
    unk_id = model.trainer_spec.unk_id
    unigrams = Unigram([*scores.items()], unk_id=unk_id, byte_fallback=False)
    # NFC, because `tokenizers` does not compose several marks or letters as SentencePiece does
    return _unigram_text(unigrams, [normalizers.NFC(), *_normalization(model)], specials)


def xlm_roberta_rules(model: Any, specials: Specials = XLM_ROBERTA_SPECIALS) -> str:
    """Builds the tokenizer.json of a SentencePiece Unigram model, as XLMRobertaTokenizer does.

    With CAMEMBERT_SPECIALS, it builds the rules of CamembertTokenizer.
    """
    # The order of ids in fairseq: special tokens, the model's tokens from the fourth on, <mask>.
    pad, unk, cls, sep, mask = specials.tokens
    tokens, num_replaced = [(token, 0.0) for token in (cls, pad, sep, unk)], 3
    if specials.unused:  # CamemBERT replaces only the first token, and has <s> and </s> after it
        cls, sep, unknown = specials.unused
        tokens = [(token, 0.0) for token in (cls, pad, sep, unk)] + [(unknown, EXCLUDED_SCORE)]
        num_replaced = 1
    tokens += [(each.piece, each.score) for each in model.pieces[num_replaced:]]
    unigrams = Unigram([*tokens, (mask, 0.0)], unk_id=3, byte_fallback=False)
    return _unigram_text(unigrams, _normalization(model), specials)


def kobert_rules(model: Any) -> str:
    """Builds the tokenizer.json of KoBERT's SentencePiece Unigram model (SKTBrain/KoBERT)."""
    # NFKD, which drops accents, decomposes Hangul. SentencePiece composes it again, as NFC does.
    steps = [*unigram_steps(lowercase=False, keeps_accents=False), normalizers.NFC()]
    unigrams = _exclude_digit_commas(model)
    return _unigram_text(unigrams, [*steps, *_normalization(model)], SENTENCEPIECE_SPECIALS)


def _exclude_digit_commas(model) -> Unigram:
    """Returns the model with EXCLUDED_SCORE for tokens that end in a digit and a comma."""
    # The tokenizers of ALBERT (tokenization.py of Lan et al.) and XLNet separate a comma from the
    # digit before it, so they never choose such a token.
    tokens = []
    for each in model.pieces:
        is_divided = each.piece.endswith(",") and each.piece[-2:-1].isdigit()
        tokens.append((each.piece, each.score + (EXCLUDED_SCORE if is_divided else 0.0)))
    return Unigram(tokens, unk_id=model.trainer_spec.unk_id, byte_fallback=False)


def _normalization(model) -> list[normalizers.Normalizer]:
    """Returns the normalization of SentencePiece itself."""
    charsmap = model.normalizer_spec.precompiled_charsmap
    steps: list[normalizers.Normalizer] = [normalizers.Replace(Regex(" {2,}"), " ")]
    return [normalizers.Precompiled(charsmap), *steps] if charsmap else steps


def _unigram_text(model: Unigram, steps: list[normalizers.Normalizer], specials: Specials) -> str:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence(steps)
    space = pre_tokenizers.Metaspace(replacement=WORD_MARK, prepend_scheme="always")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), space])
    tokenizer.decoder = decoders.Metaspace(replacement=WORD_MARK, prepend_scheme="always")
    ids = _add_specials(tokenizer, specials.tokens)
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in specials.unused])
    tokenizer.post_processor = packing_template(specials, ids)
    return tokenizer.to_str()


def packing_template(specials: Specials, ids: Mapping[str, int]) -> TemplateProcessing:
    """Returns the rule with which `tokenizers` packs one or two texts as `pack` does."""
    _, _, cls, sep, _ = specials.tokens
    separators, segment = " ".join(specials.num_separators * [f"{sep}:0"]), specials.second_segment
    return TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {separators} $B:{segment} {sep}:{segment}",
        special_tokens=[(token, ids[token]) for token in (cls, sep)],
    )


def unigram_steps(*, lowercase: bool, keeps_accents: bool) -> list[normalizers.Normalizer]:
    """Returns the normalization that ALBERT applies before SentencePiece normalizes."""
    quotes = ("``", "''")
    steps: list[normalizers.Normalizer] = [normalizers.Replace(each, '"') for each in quotes]
    if not keeps_accents:
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    return [*steps, normalizers.Lowercase()] if lowercase else steps


def _add_specials(tokenizer: Tokenizer, tokens: tuple[str, ...]) -> dict:
    """Registers the special tokens, which the model must contain, and returns their ids."""
    vocabulary = tokenizer.get_vocab()
    ids = {token: vocabulary[token] for token in tokens}
    *others, mask = tokens
    added = [AddedToken(token, special=True, normalized=False) for token in others]
    tokenizer.add_special_tokens([*added, AddedToken(mask, special=True, lstrip=True)])
    return ids
