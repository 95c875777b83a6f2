"""A line of text comes in; its sentences go out.

A sentence ends after `.`, `!`, `?` or `…`, with any closing quotes and brackets, where white space
follows and then something that can open a sentence: an upper-case letter, a digit, an opening quote
or bracket. It does not end after an initial ("J. Smith") or one of `ABBREVIATIONS`. The CJK marks
`。！？` end a sentence wherever they stand. A line that already is one sentence stays as it is.
"""

import re

ABBREVIATIONS = frozenset(
    [
        *("Mr", "Mrs", "Ms", "Dr", "Prof", "Rev", "Hon", "Gen", "Col", "Capt", "Lt", "Sgt", "Maj"),
        *("St", "Mt", "Messrs", "Mme", "Mlle", "Jr", "Sr", "No", "Nos", "Vol", "vol", "Fig", "fig"),
        *("pp", "p", "vs", "cf", "ca", "e.g", "i.e", "viz", "Inc", "Ltd", "Co", "Corp"),
        *("Jan", "Feb", "Mar", "Apr", "Jun", "Jul", "Aug", "Sep", "Sept", "Oct", "Nov", "Dec"),
    ]
)
_CLOSING = "\"'”’»)\\]"
_OPENING = "\"'“‘«(\\["
_BREAK = re.compile(
    rf"(?<=[.!?…])(?P<close>[{_CLOSING}]*)\s+(?=[{_OPENING}]*[^\W_a-z])|(?<=[。！？])[」』”]*"
)
_LAST_WORD = re.compile(r"([^\s\"'“‘«(\[]+)\.$")


def sentences(line: str) -> list[str]:
    """The sentences of a line, stripped, in order; together they hold all its words."""
    found, start = [], 0
    for match in _BREAK.finditer(line):
        if match["close"] == "" and _is_abbreviation(
            line[max(start, match.start() - 20) : match.start()]
        ):
            continue
        found.append(line[start : match.end()].strip())
        start = match.end()
    found.append(line[start:].strip())
    return [sentence for sentence in found if sentence]


def _is_abbreviation(text: str) -> bool:
    word = _LAST_WORD.search(text)
    return bool(word) and (
        word[1] in ABBREVIATIONS or (len(word[1]) == 1 and word[1].isupper() and word[1] != "I")
    )
