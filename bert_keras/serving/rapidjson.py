"""RapidJSON's grammar: JSON text comes in, Python values or RapidJSON's own parse error go out.

Sentences and offsets are those of rapidjson/reader.h and error/en.h. Slow, for what others refuse.
"""

import math
import re

from bert_keras.serving.protocol import Refused

_SPACE = re.compile(r"[ \t\n\r]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_DIGITS = re.compile(r"[0-9]*")
_NOT_A_NUMBER = re.compile(r"-?(NaN|Inf(?:inity)?)")
_ESCAPES = dict(zip('"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True))


def read_value(text: str, at: int = 0) -> tuple[object, int]:
    """The JSON value that starts at `at`, and where it ends; `text` holds one byte a character.

    Raises Refused (400) with the parse error and its offset.
    """
    character, at = _next(text, at)
    if not character and not text[:at].strip():
        raise _fault("The document is empty.", at)
    if character == "{":
        return _read_object(text, at + 1)
    if character == "[":
        return _read_array(text, at + 1)
    if character == '"':
        return _read_string(text, at + 1)
    for word, value in (("true", True), ("false", False), ("null", None)):
        if character and word.startswith(character):
            return value, _read_word(text, at, word)
    return _read_number(text, at)


def first_wins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    return dict(pairs) if len(dict(pairs)) == len(pairs) else dict(reversed(pairs))


def integer(text: str) -> int | float:
    number = int(text) if len(text) < 32 else 2**64
    return number if -(2**63) <= number < 2**64 else decimal(text)


def decimal(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("Number too big to be stored in double.")
    return number


def _fault(sentence: str, offset: int) -> Refused:
    return Refused(f"JSON Parse error: {sentence} at offset: {offset}")


def _next(text: str, at: int) -> tuple[str, int]:
    """The next character that is not space ("" at the end or at a NUL), and where it stands."""
    at = _SPACE.match(text, at).end()
    return text[at : at + 1].strip("\0"), at


def _read_word(text: str, at: int, word: str) -> int:
    for offset, letter in enumerate(word):
        if text[at + offset : at + offset + 1] != letter:
            raise _fault("Invalid value.", at + offset)
    return at + len(word)


def _read_object(text: str, at: int) -> tuple[dict[str, object], int]:
    pairs: list[tuple[str, object]] = []
    character, at = _next(text, at)
    while character != "}" or pairs:
        if character != '"':
            raise _fault("Missing a name for object member.", at)
        name, at = _read_string(text, at + 1)
        character, at = _next(text, at)
        if character != ":":
            raise _fault("Missing a colon after a name of object member.", at)
        value, at = read_value(text, at + 1)
        pairs.append((name, value))
        character, at = _next(text, at)
        if character == "}":
            break
        if character != ",":
            raise _fault("Missing a comma or '}' after an object member.", at)
        character, at = _next(text, at + 1)
    return first_wins(pairs), at + 1


def _read_array(text: str, at: int) -> tuple[list[object], int]:
    values: list[object] = []
    character, at = _next(text, at)
    while character != "]" or values:
        value, at = read_value(text, at)
        values.append(value)
        character, at = _next(text, at)
        if character == "]":
            break
        if character != ",":
            raise _fault("Missing a comma or ']' after an array element.", at)
        at += 1
    return values, at + 1


def _read_string(text: str, at: int) -> tuple[str, int]:
    pieces: list[str] = []
    while (character := text[at : at + 1]) != '"':
        if character in ("", "\0"):
            raise _fault("Missing a closing quotation mark in string.", at)
        if character < " ":
            raise _fault("Invalid encoding in string.", at)
        if character != "\\":
            pieces.append(_PLAIN.match(text, at)[0])
            at += len(pieces[-1])
        elif text[at + 1 : at + 2] == "u":
            piece, at = _read_unicode_escape(text, at)
            pieces.append(piece)
        elif (letter := text[at + 1 : at + 2]) in _ESCAPES:
            pieces.append(_ESCAPES[letter])
            at += 2
        else:
            raise _fault("Invalid escape character in string.", at)
    return "".join(pieces).encode("latin-1").decode("utf-8", "surrogateescape"), at + 1


def _read_unicode_escape(text: str, at: int) -> tuple[str, int]:
    """The UTF-8 bytes (one latin-1 character each) of the escape at `at`, and where it ends."""
    code, end = _hex(text, at + 2, at), at + 6
    if 0xD800 <= code <= 0xDFFF:
        if code > 0xDBFF or text[end : end + 2] != "\\u":
            raise _fault("The surrogate pair in string is invalid.", at)
        low, end = _hex(text, end + 2, at), end + 6
        if not 0xDC00 <= low <= 0xDFFF:
            raise _fault("The surrogate pair in string is invalid.", at)
        code = 0x10000 + ((code - 0xD800) << 10) + low - 0xDC00
    return chr(code).encode().decode("latin-1"), end


def _hex(text: str, at: int, escape: int) -> int:
    if not re.fullmatch("[0-9a-fA-F]{4}", text[at : at + 4]):
        raise _fault("Incorrect hex digit after \\u escape in string.", escape)
    return int(text[at : at + 4], 16)


def _read_number(text: str, at: int) -> tuple[int | float, int]:
    if match := _NOT_A_NUMBER.match(text, at):
        return float(match[0]), match.end()
    match = _INTEGER.match(text, at)
    if not match:
        raise _fault("Invalid value.", at + text.startswith("-", at))
    end, read = match.end(), integer
    if text.startswith(".", end):
        end, read = _read_digits(text, end + 1, "Miss fraction part in number."), decimal
    if text[end : end + 1] in ("e", "E"):
        end += 2 if text[end + 1 : end + 2] in ("+", "-") else 1
        end, read = _read_digits(text, end, "Miss exponent in number."), decimal
    try:
        return read(text[at:end]), end
    except ValueError as error:
        raise _fault(str(error), at) from None


def _read_digits(text: str, at: int, sentence: str) -> int:
    end = _DIGITS.match(text, at).end()
    if end == at:
        raise _fault(sentence, at)
    return end
