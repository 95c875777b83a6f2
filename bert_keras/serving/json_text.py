"""JSON as TF Serving takes and shows it: bytes come in, Python values go out."""

import json
import math
import re
from collections.abc import Iterator
from decimal import Decimal

from bert_keras.serving.protocol import Refused
from bert_keras.serving.rapidjson import decimal, first_wins, integer, read_value

_DECODER = json.JSONDecoder(object_pairs_hook=first_wins, parse_int=integer, parse_float=decimal)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_SHOWN_BYTES = 256
_MOST_BYTES_READ_SLOWLY = 2**18  # about half a second; of 16 MiB it would be half a minute


def read_json(body: bytes) -> object:
    """The first JSON value of `body`; what follows it is not looked at.

    Integers outside 64 bits are floats, the first of equal keys wins, NaN and Infinity are read,
    bytes that are not UTF-8 become surrogate escapes. Raises Refused (400) with the parse error, of
    a long body in the words of Python's parser.
    """
    if not body:
        raise Refused("JSON Parse error: The document is empty")
    body = body.removeprefix(b"\xef\xbb\xbf")
    text = body.decode("utf-8", "surrogateescape")
    start = len(text) - len(text.lstrip(" \t\n\r"))
    try:
        # Python's parser in C takes half a surrogate pair, which RapidJSON does not.
        if _SURROGATE.search(_SURROGATE_PAIR.sub(" ", text.replace("\\\\", " "))):
            raise ValueError("The surrogate pair in string is invalid.")
        return _DECODER.raw_decode(text, start)[0]
    except ValueError as error:
        if len(body) > _MOST_BYTES_READ_SLOWLY:
            raise Refused(f"JSON Parse error: {error}") from None
    # Takes the few things more that RapidJSON takes, or says why not.
    return read_value(body.decode("latin-1"))[0]


def show_json(value: object) -> str:
    """`value` as TF Serving shows it in its sentences: indented, cut after 256 bytes."""
    shown, size = [], 0
    for piece in _pieces(value, 0):
        if size >= _SHOWN_BYTES:
            break
        shown.append(piece)
        size += len(piece.encode("utf-8", "surrogateescape"))
    return "".join(shown)


def _pieces(value: object, level: int) -> Iterator[str]:
    """The text of `value`, one write of RapidJSON's PrettyWriter (arrays on one line) a piece."""
    if isinstance(value, dict):
        inner, separator = "\n" + "    " * (level + 1), ""
        yield "{"
        for name, item in value.items():
            yield f"{separator}{inner}{_scalar(name)}"
            separator, lead = ",", ": "
            for piece in _pieces(item, level + 1):
                yield lead + piece
                lead = ""
        yield ("\n" + "    " * level if value else "") + "}"
    elif isinstance(value, list):
        yield "["
        for number, item in enumerate(value):
            lead = ", " if number else ""
            for piece in _pieces(item, level + 1):
                yield lead + piece
                lead = ""
        yield "]"
    else:
        yield _scalar(value)


def _scalar(value: object) -> str:
    if not isinstance(value, float) or not math.isfinite(value):
        return json.dumps(value, ensure_ascii=False)
    if 1e-6 <= abs(value) < 1e21 or value == 0:
        text = f"{Decimal(repr(value)):f}"
        return text if "." in text else f"{text}.0"
    mantissa, _, exponent = repr(value).partition("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"
