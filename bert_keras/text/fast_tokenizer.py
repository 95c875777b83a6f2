"""Tokenizes text by the rules of a tokenizer.json, with character offsets.

A tokenizer.json is a file of the library `tokenizers`. It holds the tokens, the normalization and
the splitting of a byte-level BPE tokenizer (RoBERTa) or a Unigram tokenizer (ALBERT). The ids equal
those of Hugging Face's tokenizers.
"""

import json
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tokenizers import Encoding, Tokenizer, decoders
from tokenizers.processors import ByteLevel

from bert_keras.errors import InputError
from bert_keras.storage import text_lines, write_text
from bert_keras.text.tokenizer import TextTokenizer, TokenizedText, WordPieceTokenizer
from bert_keras.text.vocab import Specials, Vocabulary, in_order_of_ids

ROBERTA_SPECIALS = Specials(
    ("<pad>", "<unk>", "<s>", "</s>", "<mask>"), num_separators=2, second_segment=0, word_start="Ġ"
)
ALBERT_SPECIALS = Specials(("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"), word_start="▁")
# The keys are the values of `model.type` in a tokenizer.json.
SPECIALS = {"BPE": ROBERTA_SPECIALS, "Unigram": ALBERT_SPECIALS}
SPLITTERS = {"BPE": '"ByteLevel"', "Unigram": '"Metaspace"'}
KNOWN = "known are WordPiece, byte-level BPE and SentencePiece's Unigram"
PIECES, RULES = "vocab.txt", "tokenizer.json"


def vocabulary_in(folder: Path) -> Vocabulary | None:
    """Returns the vocabulary that `write_vocabulary` wrote to `folder`, or None without one."""
    files = [folder / name for name in (PIECES, RULES) if (folder / name).is_file()]
    return vocabulary_from(files[0]) if files else None


def vocabulary_from(path: str | os.PathLike) -> Vocabulary:
    """Reads the vocabulary of a tokenizer.json (any name that ends in .json) or a vocab.txt."""
    if Path(path).suffix == Path(RULES).suffix:
        return rules_vocabulary("\n".join(text_lines(path)))
    return Vocabulary.from_file(path)


def write_vocabulary(vocabulary: Vocabulary, folder: Path) -> Path:
    """Writes vocab.txt for WordPiece, or tokenizer.json otherwise, and returns its path."""
    name, text = vocabulary_file(vocabulary)
    write_text(folder / name, text)
    return folder / name


def vocabulary_file(vocabulary: Vocabulary) -> tuple[str, str]:
    """Returns the name and the content of the file that `write_vocabulary` writes."""
    if vocabulary.rules:
        return RULES, vocabulary.rules
    return PIECES, vocabulary.lines


def rules_vocabulary(rules: str) -> Vocabulary:
    """Returns the vocabulary of a tokenizer.json.

    The rules are converted to the current format of `tokenizers`, because the files of published
    models use older ones.

    Args:
        rules: The text of the tokenizer.json.

    Raises:
        InputError: The text is damaged, or it is not of a tokenizer like RoBERTa's or ALBERT's.
    """
    try:
        given, today = json.loads(rules), Tokenizer.from_str(rules).to_str()
    except Exception as error:  # the only class that `tokenizers` raises
        raise InputError(f"{RULES} is damaged ({error}); copy it anew") from error
    whole = json.loads(today)
    kind, split = whole["model"]["type"], json.dumps(whole["pre_tokenizer"])
    if kind not in SPECIALS or SPLITTERS[kind] not in split:
        raise InputError(f"{RULES} is of a {kind} tokenizer split by {split}; {KNOWN}")
    if kind == "BPE" and not whole["model"]["merges"]:
        raise InputError("the tokenizer has no merges; copy its files anew")
    pieces = given["model"]["vocab"]
    ids = pieces if kind == "BPE" else {piece: i for i, (piece, _) in enumerate(pieces)}
    ids = ids | {token["content"]: token["id"] for token in given.get("added_tokens") or ()}
    return Vocabulary(in_order_of_ids(ids, file=RULES), SPECIALS[kind], today)


def tokenizer_of(vocabulary: Vocabulary, *, lowercase: bool) -> TextTokenizer:
    """Builds the tokenizer of a vocabulary.

    Args:
        vocabulary: A WordPiece vocabulary or one with rules.
        lowercase: Whether a WordPiece tokenizer lower-cases text. Rules decide this themselves.
    """
    if vocabulary.rules:
        return FastTokenizer(vocabulary)
    return WordPieceTokenizer(vocabulary, lowercase=lowercase)


def lowers(vocabulary: Vocabulary) -> bool:
    """Returns whether the rules of a vocabulary lower-case text."""
    return '"Lowercase"' in json.dumps(json.loads(vocabulary.rules)["normalizer"])


@cache
def legible_pieces(vocabulary: Vocabulary) -> tuple[str, ...]:
    """Returns the tokens as WordPiece writes them, for display.

    A token that continues a word begins with "##".
    """
    if not vocabulary.rules:
        return vocabulary.pieces
    return tuple(_legible(piece, vocabulary) for piece in vocabulary.pieces)


def _legible(piece: str, vocabulary: Vocabulary) -> str:
    specials, letters = vocabulary.specials, decoders.ByteLevel()
    if piece in (*specials.pieces, specials.word_start):
        return piece
    text = piece.removeprefix(specials.word_start)
    if specials == ROBERTA_SPECIALS and (read := letters.decode([text])).isprintable():
        # U+FFFD means that the token holds only some bytes of a character.
        text = read if "\ufffd" not in read else text
    return f"##{text}" if vocabulary.continues(piece) else text


class FastTokenizer(TextTokenizer):
    """The tokenizer that a tokenizer.json describes."""

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary
        whole = json.loads(vocabulary.rules)
        self.lowercase = lowers(vocabulary)
        whole |= dict.fromkeys(("truncation", "padding", "post_processor"))
        whole["added_tokens"] = []
        if whole["model"]["type"] == "Unigram":
            # The added space keeps special tokens from matching text: Metaspace has replaced all
            # spaces of the text.
            hidden = {piece: f" {piece}" for piece in vocabulary.specials.pieces}
            pieces = whole["model"]["vocab"]
            whole["model"]["vocab"] = [[hidden.get(piece, piece), score] for piece, score in pieces]
        self._tokenizer = Tokenizer.from_str(json.dumps(whole))
        if whole["model"]["type"] == "BPE":
            # The splitter may add a leading space, which must not be counted in offsets.
            splitter = whole["pre_tokenizer"]
            self._tokenizer.post_processor = ByteLevel(
                add_prefix_space=splitter["add_prefix_space"], trim_offsets=True
            )

    def encode_batch(self, texts: Sequence[str]) -> list[TokenizedText]:
        leads = list(map(self._lead, texts))
        texts = [text[lead:] for text, lead in zip(texts, leads, strict=True)]
        return list(map(self._tokenized, self._tokenizer.encode_batch(texts), leads))

    def ids_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [each.ids for each in self._tokenizer.encode_batch_fast(texts)]

    def decode(self, ids: Sequence[int]) -> str:
        pieces = [self.vocabulary.pieces[int(number)] for number in ids]
        return self._tokenizer.decoder.decode(pieces).strip()

    def _lead(self, text: str) -> int:
        """Returns the number of leading characters that normalization removes.

        `tokenizers` does not count these characters in its offsets.
        """
        normalizer = self._tokenizer.normalizer
        if normalizer is None:
            return 0
        is_something = (bool(normalizer.normalize_str(character)) for character in text)
        return next((n for n, found in enumerate(is_something) if found), len(text))

    def _tokenized(self, encoding: Encoding, lead: int) -> TokenizedText:
        pieces = [self.vocabulary.pieces[number] for number in encoding.ids]
        offsets = [(start + lead, end + lead) for start, end in encoding.offsets]
        return TokenizedText(encoding.ids, pieces, offsets)
