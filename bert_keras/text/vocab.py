"""Vocabulary: the tokens of a model with their ids and its five special tokens."""

import os
import string
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, islice

from bert_keras.errors import InputError
from bert_keras.storage import text_lines, write_text

SPECIAL_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True)
class Specials:
    """The special tokens, and how two texts are packed with them."""

    pieces: tuple[str, ...] = SPECIAL_PIECES  # names, in the order of SPECIAL_PIECES
    num_separators: int = 1  # between two texts
    second_segment: int = 1  # segment id of the second text
    # First character of a token that begins a word after a blank. "" for WordPiece, in which the
    # tokens that continue a word begin with "##".
    word_start: str = ""


BERT_SPECIALS = Specials()
_ASCII_SPACES = frozenset(string.whitespace)  # others are pieces: Google's Chinese one has U+2028


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a tokenizer, in the order of their ids.

    Raises:
        InputError: A special token is missing, or a token is blank, occurs twice or contains white
            space.

    Example:

    ```python
    vocabulary = Vocabulary.from_file("vocab.txt")
    mask_id = vocabulary.ids["[MASK]"]
    ```
    """

    pieces: tuple[str, ...]
    specials: Specials = BERT_SPECIALS
    rules: str = ""  # text of the tokenizer.json that splits texts; "" for WordPiece

    def __post_init__(self):
        object.__setattr__(self, "pieces", tuple(self.pieces))
        if not self.pieces:
            raise InputError("the vocabulary is empty; expected one piece a line")
        self._refuse_unusable_pieces()
        missing = [piece for piece in self.specials.pieces if piece not in self.ids]
        if missing:
            raise InputError(
                f"the vocabulary lacks {', '.join(missing)}; BERT needs "
                f"{' '.join(self.specials.pieces)}"
            )

    def _refuse_unusable_pieces(self) -> None:
        """A line that is no piece of its own would shift or hide the ids of others."""
        first_lines: dict[str, int] = {}
        for line, piece in enumerate(self.pieces, start=1):
            first = first_lines.setdefault(piece, line)
            if not piece or not _ASCII_SPACES.isdisjoint(piece):
                raise InputError(
                    f"line {line} of the vocabulary, {piece[:40]!r}, is blank or holds white "
                    "space; a piece's id is its line number, so put the piece there and nothing "
                    "else, or [unusedN]"
                )
            if first != line:
                raise InputError(
                    f"lines {first} and {line} of the vocabulary are both {piece!r}; expected each "
                    "piece once: name the second [unusedN] to keep the ids of the others"
                )

    @classmethod
    def from_file(cls, path: str | os.PathLike) -> "Vocabulary":
        """Reads a `vocab.txt` in UTF-8: the id of a token is its line number, counted from 0."""
        pieces = tuple(text_lines(path))
        try:
            return cls(pieces)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    def save(self, path: str | os.PathLike) -> None:
        write_text(path, self.lines)

    @property
    def lines(self) -> str:
        """The text of the file that `from_file` reads."""
        return "".join(f"{piece}\n" for piece in self.pieces)

    def padded(self, size: int) -> "Vocabulary":
        """Returns a vocabulary of `size` tokens, for a token table with more rows than this
        vocabulary has tokens. It appends tokens [unusedN] that are not in use, to the rules too.
        """
        if len(self) > size:
            raise InputError(
                f"the vocabulary has {len(self):,} pieces; expected at most {size:,}, the rows of "
                "the table of tokens: it is another checkpoint's"
            )
        fillers = (piece for n in count() if (piece := f"[unused{n}]") not in self.ids)
        added, rules = list(islice(fillers, size - len(self))), self.rules
        if rules:
            from tokenizers import Tokenizer  # slow to import

            tokenizer = Tokenizer.from_str(rules)
            tokenizer.add_tokens(added)
            rules = tokenizer.to_str()
        return replace(self, pieces=(*self.pieces, *added), rules=rules)

    def continues(self, piece: str) -> bool:
        """Whether a token continues the word of the preceding token."""
        start = self.specials.word_start
        return not piece.startswith(start) if start else piece.startswith("##")

    def num_specials(self, num_texts: int) -> int:
        """The number of special tokens around and between the texts of a sequence."""
        return 2 + self.specials.num_separators * (num_texts - 1)

    def __len__(self) -> int:
        return len(self.pieces)

    @cached_property
    def ids(self) -> dict[str, int]:
        return {piece: number for number, piece in enumerate(self.pieces)}

    @property
    def pad_id(self) -> int:
        return self.ids[self.specials.pieces[0]]

    @property
    def unk_id(self) -> int:
        return self.ids[self.specials.pieces[1]]

    @property
    def cls_id(self) -> int:
        return self.ids[self.specials.pieces[2]]

    @property
    def sep_id(self) -> int:
        return self.ids[self.specials.pieces[3]]

    @property
    def mask_id(self) -> int:
        return self.ids[self.specials.pieces[4]]


def in_order_of_ids(ids: Mapping[str, int], *, file: str) -> tuple[str, ...]:
    """The pieces that `file` gives ids; InputError where these are not each number from 0 once."""
    if sorted(map(str, ids.values())) != sorted(map(str, range(len(ids)))):
        raise InputError(f"{file}: the ids of its pieces are not each number from 0 once")
    return tuple(sorted(ids, key=ids.__getitem__))
