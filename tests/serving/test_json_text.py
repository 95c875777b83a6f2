"""Request JSON is read as RapidJSON reads it, sentences and byte offsets included."""

import math
import time

import pytest

from bert_keras.serving.json_text import read_json, show_json
from bert_keras.serving.protocol import Refused


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b' {"a": [1, 2.5, -3e2, true, null]} x', {"a": [1, 2.5, -300.0, True, None]}),
        (b'\xef\xbb\xbf{"a": "\\ud83d\\ude00\\n"}', {"a": "\U0001f600\n"}),
        (b"[Infinity, -Infinity, Inf, -Inf]", [math.inf, -math.inf, math.inf, -math.inf]),
        (b"[9223372036854775807, 18446744073709551616]", [2**63 - 1, 2.0**64]),
        (b'{"a": 1, "b": 2, "a": 3}', {"a": 1, "b": 2}),
        (b'["\xff\xc3\xa9"]', ["\udcff\u00e9"]),
        (b'{"long": Inf, "text": "a\\"b\\\\c\\u00e9", "list": [[], {}]}\0', None),
    ],
)
def test_values(body, value):
    if value is None:
        value = {"long": math.inf, "text": 'a"b\\c\u00e9', "list": [[], {}]}
    assert read_json(body) == value


@pytest.mark.parametrize(
    ("body", "sentence", "offset"),
    [
        (b"  ", "The document is empty.", 2),
        (b"{", "Missing a name for object member.", 1),
        (b'{"a": 1, }', "Missing a name for object member.", 9),
        (b'{"a" 1}', "Missing a colon after a name of object member.", 5),
        (b'{"a": 1 "b": 2}', "Missing a comma or '}' after an object member.", 8),
        (b"[1.0, 2.0", "Missing a comma or ']' after an array element.", 9),
        (b"[1,]", "Invalid value.", 3),
        (b"[tru]", "Invalid value.", 4),
        (b"[-a]", "Invalid value.", 2),
        (b'["abc', "Missing a closing quotation mark in string.", 5),
        (b'["\xc3\xa9\n"]', "Invalid encoding in string.", 4),
        (b'["a\\x"]', "Invalid escape character in string.", 3),
        (b'["\\u12g4"]', "Incorrect hex digit after \\u escape in string.", 2),
        (b'["\\ud83d"]', "The surrogate pair in string is invalid.", 2),
        (b'["\\udc80"]', "The surrogate pair in string is invalid.", 2),
        (b"[1.]", "Miss fraction part in number.", 3),
        (b"[1e+]", "Miss exponent in number.", 4),
        (b"[01]", "Missing a comma or ']' after an array element.", 2),
        (b"[1, 1e600]", "Number too big to be stored in double.", 4),
        (b"[" + b"9" * 400 + b"]", "Number too big to be stored in double.", 1),
    ],
)
def test_faults(body, sentence, offset):
    with pytest.raises(Refused) as refusal:
        read_json(body)
    assert refusal.value.sentence == f"JSON Parse error: {sentence} at offset: {offset}"


def test_an_escaped_backslash_begins_no_surrogate_pair():
    assert read_json(b'["' + b"\\\\ud83d" * 100_000 + b'"]') == ["\\ud83d" * 100_000]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"[" + b"1," * 4_000_000, "Expecting value: line 1 column 8000002 (char 8000001)"),
        (b'["\\ud83d' + b"\\n" * 4_000_000, "The surrogate pair in string is invalid."),
        (b"[" + b"1," * 4_000_000 + b"1e999]", "Number too big to be stored in double."),
    ],
)
def test_faults_of_long_bodies_are_told_soon(body, sentence):
    start = time.perf_counter()
    with pytest.raises(Refused) as refusal:
        read_json(body)
    assert refusal.value.sentence == f"JSON Parse error: {sentence}"
    assert time.perf_counter() - start < 3  # byte by byte: 6 to 15


def test_shown_values_are_indented_and_cut():
    value = {"a": [1, 2.0, 1e21, 1.5e-7, 1e20], "b": {"c": [{"d": "\u00e9"}]}, "e": {}}
    assert show_json(value) == (
        '{\n    "a": [1, 2.0, 1e21, 1.5e-7, 100000000000000000000.0],\n    "b": {\n        '
        '"c": [{\n                "d": "\u00e9"\n            }]\n    },\n    "e": {}\n}'
    )
    assert show_json(["x" * 9] * 1000) == "[" + ", ".join(['"xxxxxxxxx"'] * 20)
