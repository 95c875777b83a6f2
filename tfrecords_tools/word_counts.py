"""A text comes in; how often each word stands in it goes out, as the tokenizer sees words."""

import re
from collections import Counter
from collections.abc import Iterator

from tokenizers.pre_tokenizers import BertPreTokenizer

from bert_keras.text.tokenizer import normalizer

_PARTS = re.compile(r"[!-/:-@\[-`{-~]|[^ !-/:-@\[-`{-~]+")  # ASCII punctuation stands alone


def words_of(text: str, *, lowercase: bool) -> Counter[str]:
    """The words of a text as the tokenizer sees them, in few steps over much text.

    Text is normalised one chunk between spaces for itself, so equal chunks are counted first. Then
    those that are equally frequent are normalised together.
    """
    words: Counter[str] = Counter()
    if not text.isascii():
        han = {each: n for each, n in Counter(text).items() if "\u4e00" <= each <= "\u9fff"}
        words.update(han)  # each a word of its own, which no normalisation changes
        text = text.translate(dict.fromkeys(map(ord, han), " "))
    groups: dict[tuple[int, bool], list[str]] = {}
    for chunk, count in Counter(text.split(" ")).items():
        is_plain = chunk.isascii() and chunk.isprintable()
        groups.setdefault((count, is_plain), []).append(chunk)
    normalize = normalizer(lowercase=lowercase).normalize_str
    split = BertPreTokenizer().pre_tokenize_str
    for (count, is_plain), chunks in groups.items():
        if is_plain:
            joined = " ".join(chunks)
            joined = joined.lower() if lowercase else joined
        else:
            joined = " ".join(normalize(" ".join(each)) for each in _batches(chunks))
        for part, number in Counter(_PARTS.findall(joined)).items():
            if part.isascii() or part.isalpha():
                words[part] += number * count
            else:
                for word, _ in split(part):
                    words[word] += number * count
    return words


def _batches(chunks: list[str]) -> Iterator[list[str]]:
    """Few at a time: the normaliser takes 100 bytes for each of text."""
    return (chunks[start : start + 1000] for start in range(0, len(chunks), 1000))
