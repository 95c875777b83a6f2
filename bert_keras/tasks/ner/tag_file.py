"""Predicted tags to the file that conlleval.pl reads, and back."""

import os
from collections.abc import Sequence
from itertools import zip_longest

from bert_keras.errors import InputError
from bert_keras.storage import whole_file
from bert_keras.tasks.ner.reading import Sentence, read_conll


def write_tags(
    path: str | os.PathLike, sentences: Sequence[Sentence], predicted: Sequence[Sequence[str]]
) -> None:
    """Lines "word given predicted", or "word predicted" where none is given; an empty line after
    each sentence. -DOCSTART- lines are left out: conlleval.pl would count them as words."""
    with whole_file(path) as beside, beside.open("w", encoding="utf-8", newline="\n") as file:
        for sentence, tags in zip(sentences, predicted, strict=True):
            columns = [c for c in (sentence.words, sentence.tags, tags) if c is not None]
            file.writelines(" ".join(line) + "\n" for line in zip(*columns, strict=True))
            file.write("\n")


def read_tags(path: str | os.PathLike, sentences: Sequence[Sentence]) -> list[tuple[str, ...]]:
    """The last column. Raises InputError, naming the line, where the file does not have the words
    of the sentences, sentence by sentence."""
    found = read_conll(path)
    for theirs, ours in zip(found, sentences, strict=False):
        words = zip_longest(theirs.words, ours.words)
        for place, (word, expected) in enumerate(words):
            if word != expected:
                raise InputError(
                    f"{path}, line {theirs.line + place} has {_told(word)}; line "
                    f"{ours.line + place} of the data has {_told(expected)}"
                )
    if len(found) != len(sentences):
        raise InputError(f"{path} has {len(found)} sentences; the data has {len(sentences)}")
    if found[0].tags is None:
        raise InputError(f"{path} has one column; expected words and their predicted tags")
    return [sentence.tags for sentence in found]


def _told(word: str | None) -> str:
    return "the end of a sentence" if word is None else repr(word)
