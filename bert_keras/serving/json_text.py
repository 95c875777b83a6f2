"""Parses request bodies as JSON and formats JSON values for error messages, as TF Serving does."""

import base64
import json
import math
import re
from collections.abc import Iterator
from typing import Any

from bert_keras.serving.calls import Refusal

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_MAX_INTEGER_DIGITS = 32  # more than any 64-bit integer has; int() of a long text is slow
_SHOWN_LENGTH = 256  # characters
_TYPE_NAMES = {
    **{dict: "Object", list: "Array", str: "String", int: "Number", float: "Number"},
    type(None): "Null",
}


def read_document(body: bytes) -> dict[str, Any]:
    """Parse the JSON object of a request body.

    Like TF Serving, it ignores text after the object, keeps the first of several equal keys,
    converts integers beyond 64 bits to floats, accepts NaN and Infinity as numbers, and keeps bytes
    that are not UTF-8 (as surrogate escapes).

    Args:
        body: The bytes of the body, after decompression.

    Raises:
        Refusal: If the body is not JSON, is not an object, or is nested too deeply (400).
    """
    text = body.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape").lstrip(" \t\n\r")
    if not text:
        raise Refusal("JSON Parse error: The document is empty")
    try:
        document, end = _DECODER.raw_decode(text)
        if _has_lone_surrogate(text[:end]):
            raise ValueError("The surrogate pair in string is invalid.")
    except ValueError as error:
        raise Refusal(f"JSON Parse error: {error}") from None
    except RecursionError:
        raise Refusal("JSON Parse error: the values are nested too deeply") from None
    if not isinstance(document, dict):
        raise Refusal(f"JSON Value: {show_json(document)} Is not object")
    return document


def _keep_first(pairs: list[tuple[str, object]]) -> dict[str, Any]:
    values = dict(pairs)
    return values if len(values) == len(pairs) else dict(reversed(pairs))


def _integer(text: str) -> int | float:
    number = int(text) if len(text) < _MAX_INTEGER_DIGITS else 2**64
    return number if -(2**63) <= number < 2**64 else _decimal(text)


def _decimal(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("Number too big to be stored in double.")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=_keep_first, parse_int=_integer, parse_float=_decimal)


def _has_lone_surrogate(text: str) -> bool:
    """Whether a \\u escape is an unpaired surrogate, which UTF-8 cannot represent."""
    if not _SURROGATE.search(text):
        return False
    return bool(_SURROGATE.search(_SURROGATE_PAIR.sub(" ", text.replace("\\\\", " "))))


def type_name(value: object) -> str:
    """Return RapidJSON's name for the type of `value`; "True" or "False" for a bool."""
    return _TYPE_NAMES.get(type(value)) or str(value)


def is_base64(value: object) -> bool:
    """Whether `value` is {"b64": text}."""
    return isinstance(value, dict) and value.keys() == {"b64"} and isinstance(value["b64"], str)


def string_bytes(value: str | dict[str, Any]) -> bytes:
    """Convert a JSON string to bytes.

    Args:
        value: A string, which is encoded as UTF-8, or {"b64": text}, which is base64-decoded.

    Raises:
        Refusal: If `value` is another object or the base64 text is invalid.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if not is_base64(value):
        raise Refusal(f"JSON Value: {show_json(value)} not formatted correctly for base64 data")
    text = re.sub(r"\s", "", value["b64"])
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:  # binascii.Error is one
        raise Refusal("Unable to base64 decode") from None


def show_json(value: object) -> str:
    """Format `value` as in TF Serving's error messages: indented and truncated."""
    shown = ""
    for token in _tokens(value, "\n"):
        shown += token
        if len(shown) >= _SHOWN_LENGTH:
            break
    return shown


def _tokens(value: object, indent: str) -> Iterator[str]:
    """Yield the JSON tokens of `value` with the white space of RapidJSON's PrettyWriter.

    The caller stops early, so a large document is not formatted as a whole.
    """
    if isinstance(value, dict):
        inner = indent + "    "
        for number, (name, item) in enumerate(value.items()):
            yield f"{',' if number else '{'}{inner}{json.dumps(name, ensure_ascii=False)}: "
            yield from _tokens(item, inner)
        yield indent + "}" if value else "{}"
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield ", " if number else "["
            yield from _tokens(item, indent + "    ")
        yield "]" if value else "[]"
    elif isinstance(value, float) and value.is_integer():
        yield f"{value:.1f}"  # shows all digits of an integer beyond 64 bits
    else:
        yield json.dumps(value, ensure_ascii=False)
