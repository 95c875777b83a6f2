"""A text, its pieces and a segmenter's words come in; which pieces continue a word goes out.

Chinese is tokenised character by character; where its words end only a segmenter can tell, and
masking whole words needs to know. Of other languages without spaces the same holds.
"""

from bisect import bisect_right

from bert_keras.errors import InputError
from bert_keras.text.tokenizer import TokenizedText
from tfrecords_tools.text.plugins import TextParts, named_function


def segmenter(name: str) -> TextParts:
    """The function "module:function", such as "jieba:lcut", that gives the words of a text."""
    return named_function(name)


def continues(text: str, tokenized: TokenizedText, words: list[str]) -> list[bool]:
    """For every piece of `text` whether it belongs to the same word as the piece before it.

    `words` are all of `text` in order; white space may be left out. A piece over several words
    belongs to the first of them. Raises InputError where the words are not those of the text.
    """
    word_starts = _starts(text, words)
    numbers = [bisect_right(word_starts, start) for start, _ in tokenized.offsets]
    return [word == before for word, before in zip(numbers, [0, *numbers], strict=False)]


def _starts(text: str, words: list[str]) -> list[int]:
    """Where each word begins in the text."""
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
            f"the segmenter's words are not those of the text after {text[:end][-20:]!r} (next "
            f"word: {word!r}, text: {text[end : end + 20]!r}); expected every word in order, "
            "nothing left out but white space"
        )
    return starts
