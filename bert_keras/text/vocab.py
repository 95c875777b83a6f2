"""Defines the vocabulary: the tokens of a model, their ids, and its five special tokens."""

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

    pieces: tuple[str, ...] = SPECIAL_PIECES  # the special tokens, in the order of SPECIAL_PIECES
    num_separators: int = 1  # separator tokens between two texts
    second_segment: int = 1  # segment id of the second text
    # First character of a token that begins a word after a space. It is "" for WordPiece, where
    # tokens that continue a word begin with "##" instead.
    word_start: str = ""


BERT_SPECIALS = Specials()
# Other white space may be a token: Google's Chinese vocabulary contains U+2028.
_ASCII_SPACES = frozenset(string.whitespace)


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

    pieces: tuple[str, ...]  # the tokens; the index of a token is its id
    specials: Specials = BERT_SPECIALS  # the special tokens
    rules: str = ""  # the text of the tokenizer.json that splits texts; "" for WordPiece

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
        """Raises InputError for a blank or repeated token: it would shift or hide other ids."""
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
        """Reads a `vocab.txt` in UTF-8; the id of a token is its line number, counted from 0.

        Raises:
            InputError: The file is missing, or it holds no valid vocabulary.
        """
        pieces = tuple(text_lines(path))
        try:
            return cls(pieces)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    def save(self, path: str | os.PathLike) -> None:
        write_text(path, self.lines)

    @property
    def lines(self) -> str:
        """The content of the file that `from_file` reads."""
        return "".join(f"{piece}\n" for piece in self.pieces)

    def padded(self, size: int) -> "Vocabulary":
        """Appends unused tokens named [unusedN], also to the rules, up to `size` tokens.

        It serves an embedding table with more rows than this vocabulary has tokens.

        Raises:
            InputError: The vocabulary has more than `size` tokens.
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
        """Returns whether a token continues the word of the preceding token."""
        start = self.specials.word_start
        return not piece.startswith(start) if start else piece.startswith("##")

    def num_specials(self, num_texts: int) -> int:
        """Returns the number of special tokens around and between the texts of a sequence."""
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
    """Returns the tokens sorted by id.

    Args:
        ids: The id of each token.
        file: What an error message names as the source of the ids.

    Raises:
        InputError: The ids are not 0 to N-1, each once.
    """
    if sorted(map(str, ids.values())) != sorted(map(str, range(len(ids)))):
        raise InputError(f"{file}: the ids of its pieces are not each number from 0 once")
    return tuple(sorted(ids, key=ids.__getitem__))
