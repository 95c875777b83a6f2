"""A file comes in; its bytes, decompressed where its first bytes say so, go out as a file."""

import bz2
import contextlib
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from backports import zstd

from bert_keras.errors import InputError
from bert_keras.storage import open_file

OPENERS: dict[str, tuple[bytes, Callable[[BinaryIO], BinaryIO]]] = {
    "gz": (b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    "bz2": (b"BZh", bz2.BZ2File),
    "xz": (b"\xfd7zXZ\x00", lzma.LZMAFile),
    "zst": (b"\x28\xb5\x2f\xfd", zstd.ZstdFile),
}
_DAMAGE = (EOFError, zlib.error, lzma.LZMAError, zstd.ZstdError)


def compression_of(head: bytes) -> str:
    """The name of what the first bytes of a file say, or "" for none."""
    return next((name for name, (magic, _) in OPENERS.items() if head.startswith(magic)), "")


@contextlib.contextmanager
def opened(path: str, compression: str) -> Iterator[BinaryIO]:
    """The file's own bytes. Raises InputError where the compressed data is damaged or cut short."""
    with open_file(path) as file:
        if not compression:
            yield file
            return
        try:
            yield OPENERS[compression][1](file)
        except (*_DAMAGE, OSError) as error:
            # gzip and bz2 report bad data as an OSError without a number
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise InputError(
                f"{path} is damaged or cut short ({error}); fetch or compress it again"
            ) from error
