"""A vocabulary file, one piece a line, comes in; pieces with ids and five specials go out."""

import os
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from bert_keras.errors import InputError
from bert_keras.storage import text_lines, whole_file

SPECIAL_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True)
class Vocabulary:
    """WordPiece pieces in the order of their ids; InputError where they cannot serve BERT."""

    pieces: tuple[str, ...]

    def __post_init__(self):
        object.__setattr__(self, "pieces", tuple(self.pieces))
        if not self.pieces:
            raise InputError("the vocabulary is empty; expected one piece a line")
        missing = [piece for piece in SPECIAL_PIECES if piece not in self.ids]
        if missing:
            raise InputError(
                f"the vocabulary lacks {', '.join(missing)}; BERT needs {' '.join(SPECIAL_PIECES)}"
            )
        if len(self.ids) < len(self.pieces):
            piece, count = Counter(self.pieces).most_common(1)[0]
            raise InputError(f"the vocabulary holds {piece!r} {count} times; expected it once")

    @classmethod
    def from_file(cls, path: str | os.PathLike) -> "Vocabulary":
        """Reads a `vocab.txt`: UTF-8, the id is the line number counted from 0."""
        try:
            return cls(tuple(text_lines(path)))
        except InputError as error:
            named = str(error).startswith(str(path))
            raise InputError(str(error) if named else f"{path}: {error}") from error

    def save(self, path: str | os.PathLike) -> None:
        with whole_file(path) as part:
            part.write_text("".join(f"{piece}\n" for piece in self.pieces), "utf-8", newline="\n")

    def __len__(self) -> int:
        return len(self.pieces)

    @cached_property
    def ids(self) -> dict[str, int]:
        return {piece: number for number, piece in enumerate(self.pieces)}

    @property
    def pad_id(self) -> int:
        return self.ids["[PAD]"]

    @property
    def unk_id(self) -> int:
        return self.ids["[UNK]"]

    @property
    def cls_id(self) -> int:
        return self.ids["[CLS]"]

    @property
    def sep_id(self) -> int:
        return self.ids["[SEP]"]

    @property
    def mask_id(self) -> int:
        return self.ids["[MASK]"]
