"""Request bodies are parsed as in TF Serving; invalid JSON is refused with a message."""

import math
import time

import pytest

from bert_keras.serving.calls import Refusal
from bert_keras.serving.json_text import read_document, show_json


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b' {"a": [1, 2.5, -3e2, true, null]} x', {"a": [1, 2.5, -300.0, True, None]}),
        (b'\xef\xbb\xbf{"a": "\\ud83d\\ude00\\n"}', {"a": "\U0001f600\n"}),
        (b'{"a": [Infinity, -Infinity]}', {"a": [math.inf, -math.inf]}),
        (b'{"a": [9223372036854775807, 18446744073709551616]}', {"a": [2**63 - 1, 2.0**64]}),
        (b'{"a": 1, "b": 2, "a": 3}', {"a": 1, "b": 2}),
        (b'{"a": "\xff\xc3\xa9"}', {"a": "\udcff\u00e9"}),
        (
            b'{"text": "a\\"b\\\\c\\u00e9", "list": [[], {}]}\0',
            {"text": 'a"b\\c\u00e9', "list": [[], {}]},
        ),
        (b'{"a": "' + b"\\\\ud83d" * 100_000 + b'"}', {"a": "\\ud83d" * 100_000}),
        (b'{"a": 1} "\\ud83d"', {"a": 1}),
    ],
)
def test_values(body, value):
    assert read_document(body) == value


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  ",
        b"{",
        b"\0",
        b"\xff\xfe{\0}\0",
        b'{"a": 1, }',
        b'{"a" 1}',
        b'{"a": 1 "b": 2}',
        b'{"a": [1.0, 2.0',
        b'{"a": [1,]}',
        b'{"a": [tru]}',
        b'{"a": [-a]}',
        b'{"a": ["abc',
        b'{"a": "\xc3\xa9\n"}',
        b'{"a": "a\\x"}',
        b'{"a": "\\u12g4"}',
        b'{"a": "\\ud83d"}',
        b'{"a": "\\udc80"}',
        b'{"a": 1.}',
        b'{"a": 1e+}',
        b'{"a": [01]}',
        b'{"a": [1, 1e600]}',
        b'{"a": ' + b"9" * 400 + b"}",
        b'{"a": ' + b"9" * 100_000 + b"}",
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a": ' * 100_000,
        b'{"a": [' + b"1," * 500_000,
        b'{"a": "\\ud83d' + b"\\n" * 1_000_000 + b'"}',
        b'{"a": [' + b"1," * 500_000 + b"1e999]}",
    ],
    ids=lambda body: repr(body[:16]),
)
def test_parse_errors_are_reported_fast(body):
    start = time.perf_counter()
    with pytest.raises(Refusal, match=r"^JSON Parse error: .") as refusal:
        read_document(body)
    assert refusal.value.status == 400
    assert time.perf_counter() - start < 3


def test_values_other_than_objects_are_refused():
    with pytest.raises(Refusal, match=r"^JSON Value: \[1\] Is not object$"):
        read_document(b"[1]")


def test_shown_values_are_indented_and_truncated():
    value = {"a": [1, 2.0, 1.5, math.inf, 1e20], "b": {"c": [{"d": "\u00e9"}]}, "e": {}}
    assert show_json(value) == (
        '{\n    "a": [1, 2.0, 1.5, Infinity, 100000000000000000000.0],\n    "b": {\n        '
        '"c": [{\n                "d": "\u00e9"\n            }]\n    },\n    "e": {}\n}'
    )
    assert show_json(["x" * 9] * 1000) == "[" + ", ".join(['"xxxxxxxxx"'] * 20)
