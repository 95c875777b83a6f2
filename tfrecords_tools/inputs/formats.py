"""Recognizes the format and the compression of a file by its first bytes, and decompresses it."""

import bz2
import contextlib
import gzip
import json
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from backports import zstd

from bert_keras.errors import InputError
from bert_keras.files import open_file

OPENERS: dict[str, tuple[bytes, Callable[[BinaryIO], Any]]] = {
    "gz": (b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    "bz2": (b"BZh", bz2.BZ2File),
    "xz": (b"\xfd7zXZ\x00", lzma.LZMAFile),
    "zst": (b"\x28\xb5\x2f\xfd", zstd.ZstdFile),
}
_DAMAGE = (EOFError, zlib.error, lzma.LZMAError, zstd.ZstdError)


@contextlib.contextmanager
def open_decompressed(path: str, compression: str) -> Iterator[BinaryIO]:
    """Opens a file and decompresses it.

    Raises:
        InputError: The compressed data is damaged or truncated.
    """
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
                f"{path} is damaged or truncated ({error}); download or compress it again"
            ) from error


HEAD = 1 << 16  # bytes that are read to recognize a format
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_JSON_NAMES = {".json", ".jsonl", ".ndjson", ".jsonlines"}
_CONTROLS = bytes({*range(32)} - {*b"\t\n\v\f\r\x1b"})
_TO_UTF8 = "convert it first (iconv -f {} -t UTF-8 FILE > NEW)"

_UNSUPPORTED = [  # pattern of the first bytes, format, remedy
    (rb"\xff\xfe\0\0|\0\0\xfe\xff", "UTF-32 text", _TO_UTF8.format("UTF-32")),
    (rb"\xff\xfe|\xfe\xff", "UTF-16 text", _TO_UTF8.format("UTF-16")),
    (rb"%PDF-", "a PDF", "extract its text first (pdftotext)"),
    (rb"\{\\rtf", "RTF", "save it as text"),
    (rb"PK\x03\x04", "a ZIP archive or an office document", "unpack it, or save it as text"),
    (rb".{257}ustar", "a tar archive", "unpack it and name the folder"),
    (rb"ARROW1|\xff{4}", "an Arrow file", "save it as parquet (Dataset.to_parquet)"),
    (rb"7z\xbc\xaf|\x04\x22\x4d\x18", "compressed with 7z or LZ4", "use gz, bz2, xz or zst"),
    (rb"\s*<(!doctype\s+html|html\b|head\b|body\b)", "a web page", "extract its text first"),
    (rb"\s*<mediawiki\b", "a Wikipedia dump", "extract its text first (wikiextractor)"),
    (rb"\s*<\?xml\b", "XML", "extract its text first"),
    (rb"version https://git-lfs", "a Git LFS pointer", "download the file itself (git lfs pull)"),
]


def file_format(path: str) -> str:
    """Returns the format of a file: `parquet`, `text`, `jsonl` or `wikiextractor`.

    The name of the compression is appended to the last three, as in `text.gz`. The contents decide.
    The file name is used only to recognize JSON lines whose first line is damaged.

    Raises:
        InputError: The file is not text.
    """
    with open_file(path) as file:
        head = file.read(HEAD)
    if head.startswith(b"PAR1"):
        return "parquet"
    compression = next((name for name, (magic, _) in OPENERS.items() if head.startswith(magic)), "")
    if compression:
        with open_decompressed(path, compression) as file:
            head = file.read(HEAD)
    return ".".join(filter(None, (_text_format(path, head), compression)))


def _text_format(path: str, head: bytes) -> str:
    _check_text(path, head)
    if path.endswith(".parquet") and head:
        raise InputError(f"{path} is not a parquet file despite its name; download it again")
    start = head.removeprefix(BYTE_ORDER_MARK).lstrip()
    suffixes = [each for each in PurePosixPath(path).suffixes if each[1:] not in OPENERS]
    is_named_json = bool(suffixes) and suffixes[-1].lower() in _JSON_NAMES
    if start.startswith(b"<doc id="):
        return "wikiextractor"
    if is_named_json and start.startswith(b"["):
        raise InputError(
            f"{path} is one JSON list; expected an object on each line (jq -c '.[]' FILE > NEW)"
        )
    if is_named_json or _is_json_object(start):
        return "jsonl"
    return "text"


def _is_json_object(start: bytes) -> bool:
    line, end, _ = start.partition(b"\n")
    if not line.startswith(b"{"):
        return False
    if not end and len(start) > HEAD // 2:  # the first object is longer than what was read
        return re.match(rb'\{\s*"[^"]*"\s*:', line) is not None
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _check_text(path: str, head: bytes) -> None:
    for pattern, kind, remedy in _UNSUPPORTED:
        if re.match(pattern, head, re.I | re.S):
            raise InputError(f"{path} is {kind}; expected UTF-8 text: {remedy}")
    nulls = head.count(b"\0")
    if nulls > len(head) // 4:
        raise InputError(
            f"{path} is UTF-16 text or not text; expected UTF-8 text: {_TO_UTF8.format('UTF-16')}"
        )
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if controls > max(8, len(head) // 20):
        raise InputError(f"{path} is not text: {controls:,} of its first {len(head):,} bytes are "
                         "control characters; expected UTF-8 text")  # fmt: skip
