"""Splits lines of text into sentences, and finds the words of a segmenter in tokens.

The library `sentencex` (Wikimedia) decides where a sentence ends. This module adds four steps:

- It replaces white space by plain spaces: `sentencex` panics at an initial before a no-break space.
- It divides long lines into windows: the time of `sentencex` grows with the square of a length.
- It splits long quotations, which `sentencex` keeps whole and which could fill a training example.
- It joins what `sentencex`, which has no rules for Korean, divides in Korean: dates such as
  "2023. 5. 12.", numbered items, and quotations that a particle follows ("..."라고).
"""

import importlib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from sentencex import segment  # pyright: ignore[reportAttributeAccessIssue] - of a Rust module

from bert_keras.errors import InputError
from bert_keras.text.tokenizer import TokenizedText

TextParts = Callable[[str], list[str]]
LANGUAGES = (  # sentencex has rules or tests for these, but for ko
    "am ar bg bn ca da de el en es fi fr gu he hi hy it ja kk kn ko ml mr my nl pa pl pt ru sk ta "
    "te uk ur zh"
)
WINDOW = 2000  # characters; few paragraphs of prose are longer
LONG_QUOTATION = 300  # characters, about 70 tokens
_ODD_SPACE = re.compile(r"[^\S ]")
_QUOTATION_MARK = re.compile(r"[\"“”„«»‹›「」《》]|(?<!\w)['‘’`]|['’](?!\w)")
_OPENING_MARKS = re.compile(r"(?<=\s)[\"“„«‹'‘’`]+$")
# A number or a single letter with its full stop, or a quotation that no blank follows.
_CONTINUES_IN_KOREAN = re.compile(r"(?:\d|^\w)\.\s*$|[\"'”’)\]」』]$")
_FIRST_LETTER = re.compile(r"[\W_]*(?=[^\W\d_])(?P<letter>.)")


def splitter(name: str) -> TextParts:
    """Returns the function that splits a line into sentences.

    `name` is "lines" (each line is one sentence), a language of `LANGUAGES` such as "en", or
    "module:function".
    """
    if name == "lines":
        return lambda line: list(filter(None, [line.strip()]))
    if ":" in name:
        return import_function(name)
    if name not in LANGUAGES.split():
        raise InputError(
            f"there are no sentence rules for {name!r}; expected lines, module:function or one of "
            f"{LANGUAGES} (for another language, name the most similar one)"
        )
    return partial(sentences, language=name)


def sentences(line: str, *, language: str = "en") -> list[str]:
    """Returns the stripped sentences of a line in order; together they contain all its words."""
    text = _ODD_SPACE.sub(" ", line)
    results = []
    found = _windowed_sentences(text, language)
    for start, sentence in _korean_sentences(found) if language == "ko" else found:
        lengths = [len(sentence)]
        if len(sentence) > LONG_QUOTATION:
            lengths = _quoted_lengths(sentence, language)
        for length in lengths:
            results.append(line[start : start + length].strip())
            start += length
    return [sentence for sentence in results if sentence]


def _windowed_sentences(text: str, language: str) -> Iterator[tuple[int, str]]:
    """Yields starts and sentences; the last of a window may be incomplete, and begins the next."""
    start = 0
    while start < len(text):
        end = start + WINDOW
        in_window = segment(language, text[start:end])
        if end < len(text):
            if len(in_window) > 1:
                in_window.pop()
            else:  # ends at the last word boundary of the window, or at the next one
                end = text.rfind(" ", start, end) + 1 or text.find(" ", end) + 1 or len(text)
                in_window = [text[start:end]]
        for sentence in in_window:
            yield start, sentence
            start += len(sentence)


def _korean_sentences(found: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Joins parts of a Korean sentence that `sentencex` has divided."""
    begin, joined = 0, ""
    for start, sentence in found:
        if joined and not (sentence[0].isalnum() and _CONTINUES_IN_KOREAN.search(joined)):
            yield begin, joined
            begin, joined = start, ""
        joined += sentence
    yield begin, joined


def _quoted_lengths(text: str, language: str) -> list[int]:
    """Returns the lengths of sentences regardless of quotation marks."""
    # None begins in lower case: words such as "he said" often follow a quotation.
    lengths, start, end = [], 0, 0
    for part in segment(language, _QUOTATION_MARK.sub(" ", text)):
        end += len(part)
        opening = _OPENING_MARKS.search(text, start, end)
        cut = opening.start() if opening and end < len(text) else end
        first = _FIRST_LETTER.match(text, cut)
        is_divided = language == "ko" and _CONTINUES_IN_KOREAN.search(text[start:cut])
        if cut > start and not is_divided and not (first and first["letter"].islower()):
            lengths.append(cut - start)
            start = cut
    if start < len(text):
        lengths.append(len(text) - start)
    return lengths


def import_function(name: str) -> TextParts:
    """Imports the function "module:function", which takes a text and returns a list of texts."""
    module_name, _, function_name = name.partition(":")
    try:
        return getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"{name!r} cannot be imported ({error}); expected module:function, as in jieba:lcut, "
            "where the module is installed or in a folder on PYTHONPATH"
        ) from error


def continues(text: str, tokenized: TokenizedText, words: list[str]) -> list[bool]:
    """Returns for each token of a text whether it belongs to the word of the preceding one."""
    word_starts = part_starts(text, words)
    indices = [bisect_right(word_starts, start) for start, _ in tokenized.offsets]
    return [index == previous for index, previous in zip(indices, [0, *indices], strict=False)]


def part_starts(text: str, words: list[str]) -> list[int]:
    """Returns the index of the first character of each word; only white space may be missing."""
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
