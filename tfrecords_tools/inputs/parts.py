"""Files come in; units of work, pieces of the corpus of a few megabytes, go out in its order."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """Bytes of an uncompressed text file, row groups of a parquet file, examples of a TFDS split.

    A compressed file is one part, whatever its size. `kind` is a format, with ".gz" and the like
    where it is compressed.
    """

    path: str
    kind: str
    start: int
    end: int
    num_bytes: int  # its share of the file, for progress bars
    text_field: str = "text"

    @property
    def format(self) -> str:
        return self.kind.partition(".")[0]

    @property
    def compression(self) -> str:
        return self.kind.partition(".")[2]


Unit = tuple[Part, ...]


def grouped(parts: Iterable[Part], *, unit_bytes: int) -> list[Unit]:
    """Parts that stand together, up to `unit_bytes`; a part is never divided here."""
    units, unit, size = [], [], 0
    for part in parts:
        if unit and size + part.num_bytes > unit_bytes:
            units.append(tuple(unit))
            unit, size = [], 0
        unit.append(part)
        size += part.num_bytes
    return [*units, tuple(unit)] if unit else units
