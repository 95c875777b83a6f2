"""Lines of text come in; how often each word stands in them goes out, words as BERT sees them."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from tokenizers.pre_tokenizers import BertPreTokenizer

from bert_keras.text.tokenizer import normalizer

_HAN = re.compile("[\u4e00-\u9fff]")  # each a word of its own, which no normalisation changes
_PARTS = re.compile(r"[!-/:-@\[-`{-~]|[^ !-/:-@\[-`{-~]+")  # ASCII punctuation stands alone


def words_of(lines: Sequence[str], *, lowercase: bool) -> Counter[str]:
    """The words that the tokenizer would see, in few steps over much text.

    Text is normalised one chunk between spaces for itself, so equal chunks are counted first. Then
    those that are equally frequent are normalised together.
    """
    words: Counter[str] = Counter()
    groups: dict[tuple[int, bool], list[str]] = {}
    chunks = Counter(chain.from_iterable(_without_han(line, words).split(" ") for line in lines))
    for chunk, count in chunks.items():
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


def _without_han(line: str, words: Counter[str]) -> str:
    """Counts the Chinese characters of a line; what is left has a space for each."""
    if line.isascii() or not _HAN.search(line):
        return line
    words.update(_HAN.findall(line))
    return _HAN.sub(" ", line)


def _batches(chunks: list[str]) -> Iterator[list[str]]:
    """Few at a time: the normaliser takes 100 bytes for each of text."""
    return (chunks[start : start + 1000] for start in range(0, len(chunks), 1000))
