"""Imports functions of the user, such as "jieba:lcut", that split text into sentences or words."""

import importlib
from bisect import bisect_right
from collections.abc import Callable
from functools import wraps

from bert_keras.errors import InputError, check
from bert_keras.text.tokenizer import TokenizedText

TextParts = Callable[[str], list[str]]


def import_function(name: str) -> TextParts:
    """Imports the function "module:function", which takes a text and returns a list of texts.

    Raises:
        InputError: The function cannot be imported. Calls raise it if the function returns anything
            but a list of str.
    """
    module_name, _, function_name = name.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"{name!r} cannot be imported ({error}); expected module:function, as in jieba:lcut, "
            "where the module is installed or in a folder on PYTHONPATH"
        ) from error

    @wraps(function)
    def checked(text: str) -> list[str]:
        parts = function(text)
        is_valid = isinstance(parts, list) and all(isinstance(part, str) for part in parts)
        check(is_valid, f"{name} returned {parts!r:.60} for {text!r:.40}; expected a list of texts")
        return parts

    return checked


def continues(text: str, tokenized: TokenizedText, words: list[str]) -> list[bool]:
    """Returns for each token of a text whether it belongs to the same word as the preceding one.

    A token that spans several words belongs to the first of them.

    Raises:
        InputError: The words differ from the text; see `part_starts`.
    """
    word_starts = part_starts(text, words)
    indices = [bisect_right(word_starts, start) for start, _ in tokenized.offsets]
    return [index == previous for index, previous in zip(indices, [0, *indices], strict=False)]


def part_starts(text: str, words: list[str]) -> list[int]:
    """Returns the index of the first character of each word in the text.

    Raises:
        InputError: The words differ from the text by more than white space.
    """
    starts, end = [], 0
    for word in [*words, ""]:  # nothing but white space follows the last word
        start = text.find(word, end) if word else len(text)
        if start < 0 or text[end:start].strip():
            raise InputError(
                f"the segmenter's words differ from the text after {text[:end][-20:]!r}: the next "
                f"word is {word!r}, the text {text[end : end + 20]!r}; expected every word in order"
            )
        starts.append(start)
        end = start + len(word)
    return starts[:-1]
