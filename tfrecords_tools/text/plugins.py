"""Imports functions of the user, such as "jieba:lcut", that split text into sentences or words.

The tokenizer splits Chinese into single characters, so masking whole words needs a segmenter that
finds the words. The same holds for other languages without spaces.
"""

import importlib
from bisect import bisect_right
from collections.abc import Callable
from functools import wraps

from bert_keras.errors import InputError
from bert_keras.text.tokenizer import TokenizedText

TextParts = Callable[[str], list[str]]


def import_function(name: str) -> TextParts:
    """Imports the function "module:function", which takes a text and returns a list of texts.

    Returns:
        The function; each call checks the type of the result.

    Raises:
        InputError: The function cannot be imported. Calls raise it if the function fails or
            returns anything but a list of str.
    """
    module_name, _, function_name = name.partition(":")
    if not module_name or not function_name:
        raise InputError(f"{name!r} is not a function; expected module:function, as in jieba:lcut")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise InputError(
            f"{name}: the module cannot be imported ({error}); install it, or put its folder on "
            "PYTHONPATH"
        ) from error
    except Exception as error:
        raise InputError(
            f"{name}: the module fails when it is imported ({_error_text(error)}); correct it"
        ) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        problem = "is not a function" if hasattr(module, function_name) else "does not exist"
        raise InputError(
            f"{name}: {function_name} {problem} in {module.__file__ or module_name}; expected a "
            "function from one text to a list of texts"
        )

    @wraps(function)
    def checked(text: str) -> list[str]:
        try:
            parts = function(text)
        except Exception as error:
            raise InputError(
                f"{name} fails for {text[:40]!r} ({_error_text(error)}); expected a function from "
                "one text to a list of texts"
            ) from error
        if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
            raise InputError(
                f"{name} returned {repr(parts)[:60]} for {text[:40]!r}; expected a list of texts"
            )
        return parts

    return checked


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def continues(text: str, tokenized: TokenizedText, words: list[str]) -> list[bool]:
    """Returns for each token whether it belongs to the same word as the preceding token.

    A token that spans several words belongs to the first of them.

    Args:
        text: The text.
        tokenized: Its tokens.
        words: All words of `text` in order; only white space may be missing.

    Raises:
        InputError: The words differ from the text.
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
    for word in words:
        start = text.find(word, end)
        if start < 0 or (start > end and text[end:start].strip()):
            break
        starts.append(start)
        end = start + len(word)
    if len(starts) < len(words) or text[end:].strip():
        word = words[len(starts)] if len(starts) < len(words) else "none"
        raise InputError(
            f"the segmenter's words differ from the text after {text[:end][-20:]!r} (next word: "
            f"{word!r}, text: {text[end : end + 20]!r}); expected every word in order; only "
            "white space may be missing"
        )
    return starts
