"""Tokenizes text by the rules of a tokenizer.json, with character offsets.

Such a file of the library `tokenizers` holds all of byte-level BPE (RoBERTa) or Unigram (ALBERT):
tokens, normalization, splitting. The ids are those of Hugging Face.
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
# By the kind of model that a tokenizer.json holds.
SPECIALS = {"BPE": ROBERTA_SPECIALS, "Unigram": ALBERT_SPECIALS}
SPLITTERS = {"BPE": '"ByteLevel"', "Unigram": '"Metaspace"'}
KNOWN = "known are WordPiece, byte-level BPE and SentencePiece's Unigram"
PIECES, RULES = "vocab.txt", "tokenizer.json"


def vocabulary_in(folder: Path) -> Vocabulary | None:
    """That of a folder in which `write_vocabulary` wrote; None where there is none."""
    files = [folder / name for name in (PIECES, RULES) if (folder / name).is_file()]
    return vocabulary_from(files[0]) if files else None


def vocabulary_from(path: str | os.PathLike) -> Vocabulary:
    """Of a vocab.txt or, as its name ends with .json, a tokenizer.json."""
    if Path(path).suffix == Path(RULES).suffix:
        return rules_vocabulary("\n".join(text_lines(path)))
    return Vocabulary.from_file(path)


def write_vocabulary(vocabulary: Vocabulary, folder: Path) -> Path:
    """The file that was written: the one for WordPiece, the other for all else."""
    name, text = vocabulary_file(vocabulary)
    write_text(folder / name, text)
    return folder / name


def vocabulary_file(vocabulary: Vocabulary) -> tuple[str, str]:
    """The name of the file that `write_vocabulary` writes, and what it holds."""
    if vocabulary.rules:
        return RULES, vocabulary.rules
    return PIECES, vocabulary.lines


def rules_vocabulary(rules: str) -> Vocabulary:
    """The vocabulary that the text of a tokenizer.json holds, with its rules as they are written
    today: the files of published models are older.

    Raises InputError for rules that are not those of RoBERTa's or ALBERT's kind.
    """
    try:
        given, today = json.loads(rules), Tokenizer.from_str(rules).to_str()
    except Exception as error:  # the library raises no other
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
    """`lowercase` is WordPiece's; rules say of themselves whether they lower."""
    if vocabulary.rules:
        return FastTokenizer(vocabulary)
    return WordPieceTokenizer(vocabulary, lowercase=lowercase)


def lowers(vocabulary: Vocabulary) -> bool:
    """Whether its rules lower-case a text."""
    return '"Lowercase"' in json.dumps(json.loads(vocabulary.rules)["normalizer"])


@cache
def legible_pieces(vocabulary: Vocabulary) -> tuple[str, ...]:
    """For people: pieces of whatever kind as WordPiece writes them, "##" before what goes on."""
    if not vocabulary.rules:
        return vocabulary.pieces
    return tuple(_legible(piece, vocabulary) for piece in vocabulary.pieces)


def _legible(piece: str, vocabulary: Vocabulary) -> str:
    specials, letters = vocabulary.specials, decoders.ByteLevel()
    if piece in (*specials.pieces, specials.word_start):
        return piece
    text = piece.removeprefix(specials.word_start)
    if specials == ROBERTA_SPECIALS and (read := letters.decode([text])).isprintable():
        text = read if "\ufffd" not in read else text  # bytes of a character's parts
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
            hidden = {piece: f" {piece}" for piece in vocabulary.specials.pieces}  # in no word
            pieces = whole["model"]["vocab"]
            whole["model"]["vocab"] = [[hidden.get(piece, piece), score] for piece, score in pieces]
        self._tokenizer = Tokenizer.from_str(json.dumps(whole))
        if whole["model"]["type"] == "BPE":
            splitter = whole["pre_tokenizer"]  # whether it adds a space, which has no offset
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
        """How many characters at its beginning come to nothing: `tokenizers` would not count them
        in offsets."""
        normalizer = self._tokenizer.normalizer
        if normalizer is None:
            return 0
        is_something = (bool(normalizer.normalize_str(character)) for character in text)
        return next((n for n, found in enumerate(is_something) if found), len(text))

    def _tokenized(self, encoding: Encoding, lead: int) -> TokenizedText:
        pieces = [self.vocabulary.pieces[number] for number in encoding.ids]
        offsets = [(start + lead, end + lead) for start, end in encoding.offsets]
        return TokenizedText(encoding.ids, pieces, offsets)
