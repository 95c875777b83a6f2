"""Tokenizes text by the rules of a tokenizer.json, with character offsets.

A tokenizer.json is a file of the library `tokenizers`. It holds the tokens, the normalization and
the splitting of a byte-level BPE tokenizer (RoBERTa, ModernBERT) or a Unigram tokenizer (ALBERT,
XLM-RoBERTa, KoBERT). The ids equal the ids of Hugging Face's tokenizers.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from tokenizers import Encoding, Tokenizer, decoders
from tokenizers.processors import ByteLevel

from bert_keras.errors import InputError
from bert_keras.files import StrPath, text_lines, write_text
from bert_keras.text.tokenizer import (
    TextTokenizer,
    TokenizedText,
    WordPieceTokenizer,
    names_invalid_texts,
)
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
KOBERT_SPECIALS = Specials(SPECIAL_TOKENS, word_start=WORD_MARK)
# The keys are the values of `model.type` in a tokenizer.json.
SPECIALS = {
    "BPE": (ROBERTA_SPECIALS, MODERNBERT_SPECIALS),
    "Unigram": (ALBERT_SPECIALS, XLM_ROBERTA_SPECIALS, KOBERT_SPECIALS),
}
SPLITTERS = {"BPE": '"ByteLevel"', "Unigram": '"Metaspace"'}
SUPPORTED = "known are WordPiece, byte-level BPE and SentencePiece's Unigram"
VOCABULARY_FILE, RULES_FILE = "vocab.txt", "tokenizer.json"


def vocabulary_in(folder: Path) -> Vocabulary | None:
    """Returns the vocabulary that `write_vocabulary` wrote to `folder`, or None without one."""
    files = [folder / name for name in (VOCABULARY_FILE, RULES_FILE) if (folder / name).is_file()]
    return vocabulary_from(files[0]) if files else None


def records_vocabulary(records: StrPath) -> Vocabulary:
    """Returns the vocabulary in a folder of records; raises InputError without one."""
    if (vocabulary := vocabulary_in(Path(records))) is None:
        raise InputError(
            f"{records} is not a folder of records with their vocab.txt or tokenizer.json; name "
            "the folder that bert-tfrecords build wrote, or copy their vocabulary there"
        )
    return vocabulary


def vocabulary_from(path: str | os.PathLike) -> Vocabulary:
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
    if vocabulary.rules:
        return RULES_FILE, vocabulary.rules
    return VOCABULARY_FILE, vocabulary.lines


def vocabulary_sha256(vocabulary: Vocabulary) -> str:
    """Returns the SHA-256 of the file that `write_vocabulary` writes, as hexadecimal digits."""
    return hashlib.sha256(vocabulary_file(vocabulary)[1].encode()).hexdigest()


def rules_vocabulary(rules: str, *, file: str | os.PathLike = RULES_FILE) -> Vocabulary:
    """Returns the vocabulary of the text of a tokenizer.json, which an error calls `file`.

    The rules are converted to the current format of `tokenizers`, because the files of published
    models use older ones. Raises InputError if the text is damaged, or if RoBERTa, ModernBERT,
    ALBERT, XLM-RoBERTa and KoBERT have tokenizers of other kinds.
    """
    try:
        source, tokenizer = json.loads(rules), Tokenizer.from_str(rules)
        kind, split = type(tokenizer.model).__name__, json.dumps(source.get("pre_tokenizer"))
        is_nested = kind == "BPE" and '"pretokenizers"' in split
        if kind not in SPECIALS or SPLITTERS[kind] not in split or is_nested:
            raise ValueError(f"a {kind} tokenizer that splits by {split}")
        if kind == "BPE" and not source["model"]["merges"]:
            raise ValueError("it has no merges")
    except Exception as error:  # the only class that `tokenizers` raises
        raise InputError(f"{file} is damaged or of another kind ({error}); {SUPPORTED}") from error
    tokens = source["model"]["vocab"]
    ids = tokens if kind == "BPE" else {token: i for i, (token, _) in enumerate(tokens)}
    ids = ids | {token["content"]: token["id"] for token in source.get("added_tokens") or ()}
    known = SPECIALS[kind]
    specials = next((each for each in known if ids.keys() >= {*each.tokens}), known[0])
    return Vocabulary(in_order_of_ids(ids, file=os.fspath(file)), specials, tokenizer.to_str())


def tokenizer_of(
    vocabulary: Vocabulary, *, lowercase: bool, shortens_first: bool = False
) -> TextTokenizer:
    """Builds the tokenizer of a vocabulary; `lowercase` is only for WordPiece."""
    vocabulary = replace(vocabulary, shortens_first=shortens_first)
    if vocabulary.rules:
        return FastTokenizer(vocabulary)
    return WordPieceTokenizer(vocabulary, lowercase=lowercase)


def is_uncased(vocabulary: Vocabulary) -> bool:
    """Returns whether the rules of a vocabulary lower-case text."""
    # A token cannot contain these characters: JSON writes its quotation marks as \".
    return '"type":"Lowercase"' in vocabulary.rules


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


class FastTokenizer(TextTokenizer):
    """The tokenizer that a tokenizer.json describes."""

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary
        settings = json.loads(vocabulary.rules)
        self.lowercase = is_uncased(vocabulary)
        settings |= dict.fromkeys(("truncation", "padding", "post_processor"))
        if settings["model"]["type"] == "Unigram":
            settings["added_tokens"] = []
            # The added space keeps special tokens from matching text: Metaspace has replaced all
            # spaces of the text.
            tokens = settings["model"]["vocab"]
            for token in vocabulary.specials.tokens:
                if (token_id := vocabulary.ids[token]) < len(tokens):
                    tokens[token_id][0] = f" {token}"
        self._tokenizer = Tokenizer.from_str(json.dumps(settings))
        self._tokenizer.encode_special_tokens = True  # "[SEP]" in a text is plain text
        if settings["model"]["type"] == "BPE":
            # The splitter may add a leading space, which must not be counted in offsets.
            splitter = settings["pre_tokenizer"]
            self._tokenizer.post_processor = ByteLevel(
                add_prefix_space=splitter["add_prefix_space"], trim_offsets=True
            )

    @names_invalid_texts
    def encode_batch(self, texts: Sequence[str]) -> list[TokenizedText]:
        num_removed = list(map(self._num_removed, texts))
        texts = [text[num:] for text, num in zip(texts, num_removed, strict=True)]
        return list(map(self._tokenized, self._tokenizer.encode_batch(texts), num_removed))

    @names_invalid_texts
    def ids_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [each.ids for each in self._tokenizer.encode_batch_fast(texts)]

    def decode(self, ids: Sequence[int]) -> str:
        tokens = [self.vocabulary.tokens[int(token_id)] for token_id in ids]
        return self._tokenizer.decoder.decode(tokens).strip()

    def _num_removed(self, text: str) -> int:
        """Returns the number of leading characters that are removed and count in no offset."""
        normalizer = self._tokenizer.normalizer
        if normalizer is None:
            return 0
        kept = (index for index, char in enumerate(text) if normalizer.normalize_str(char))
        return next(kept, len(text))

    def _tokenized(self, encoding: Encoding, num_removed: int) -> TokenizedText:
        tokens = [self.vocabulary.tokens[token_id] for token_id in encoding.ids]
        offsets = [(start + num_removed, end + num_removed) for start, end in encoding.offsets]
        return TokenizedText(encoding.ids, tokens, offsets)
