"""Splits lines of text into sentences.

Where a sentence ends is decided by `sentencex`, Wikimedia's rules for abbreviations, initials,
numbers, quotations and the marks of many scripts. Three things are added. White space reaches it as
plain spaces: it panics at an initial with a no-break space. Long lines go to it window by window:
its time grows with the square of a line that has no spaces. And a quotation, which it keeps in one
piece, is split where that piece would fill most of a training example.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial

from sentencex import segment  # pyright: ignore[reportAttributeAccessIssue] - of a Rust module

from bert_keras.errors import InputError
from tfrecords_tools.text.plugins import named_function

LANGUAGES = (  # those that sentencex has its own rules or its own tests for
    "am ar bg bn ca da de el en es fi fr gu he hi hy it ja kk kn ml mr my nl pa pl pt ru sk ta te "
    "uk ur zh"
)
WINDOW = 2000  # characters; hardly a paragraph of prose is longer
LONG_QUOTATION = 300  # characters, about 70 pieces
_ODD_SPACE = re.compile(r"[^\S ]")
_QUOTATION_MARK = re.compile(r"[\"“”„«»‹›「」《》]|(?<!\w)['‘’`]|['’](?!\w)")
_OPENING = re.compile(r"(?<=\s)[\"“„«‹'‘’`]+$")
_LOWER_FIRST = re.compile(r"[\W_]*(?=[^\W\d_])(?P<letter>.)")


def splitter(name: str) -> Callable[[str], list[str]]:
    """What gives the sentences of a line: "lines", a language such as "en", or "module:function".

    "lines" takes every line for one sentence. A function of one's own gets a line and gives a list.
    """
    if name == "lines":
        return whole_line
    if ":" in name:
        return named_function(name)
    if name not in LANGUAGES.split():
        raise InputError(
            f"there are no sentence rules for {name!r}; expected lines, module:function or one of "
            f"{LANGUAGES} (for another language, the nearest relative)"
        )
    return partial(sentences, language=name)


def whole_line(line: str) -> list[str]:
    """The line, stripped, as the only sentence; none where it is blank."""
    line = line.strip()
    return [line] if line else []


def sentences(line: str, *, language: str = "en") -> list[str]:
    """The sentences of a line, stripped, in order; together they hold all its words."""
    text = _ODD_SPACE.sub(" ", line)
    found = []
    for start, piece in _pieces(text, language):
        lengths = [len(piece)]
        if len(piece) > LONG_QUOTATION:
            lengths = _quoted_lengths(piece, language)
        for length in lengths:
            found.append(line[start : start + length].strip())
            start += length
    return [sentence for sentence in found if sentence]


def _pieces(text: str, language: str) -> Iterator[tuple[int, str]]:
    """Sentences with their places. What may go on behind a window begins the next one."""
    start = 0
    while start < len(text):
        end = start + WINDOW
        pieces = segment(language, text[start:end])
        if end < len(text):
            if len(pieces) > 1:
                pieces.pop()
            else:
                pieces = [text[start : _word_end(text, start, end)]]
        for piece in pieces:
            yield start, piece
            start += len(piece)


def _word_end(text: str, start: int, end: int) -> int:
    """The last place up to `end`, or else the first behind it, that is not inside a word."""
    return text.rfind(" ", start, end) + 1 or text.find(" ", end) + 1 or len(text)


def _quoted_lengths(piece: str, language: str) -> list[int]:
    """Lengths of the sentences of a piece when its quotation marks are not seen.

    None begins in lower case: what follows a quotation is often "he said".
    """
    lengths, start, end = [], 0, 0
    for part in segment(language, _QUOTATION_MARK.sub(" ", piece)):
        end += len(part)
        opening = _OPENING.search(piece, start, end)
        cut = opening.start() if opening and end < len(piece) else end
        first = _LOWER_FIRST.match(piece, cut)
        if cut > start and not (first and first["letter"].islower()):
            lengths.append(cut - start)
            start = cut
    if start < len(piece):
        lengths.append(len(piece) - start)
    return lengths
