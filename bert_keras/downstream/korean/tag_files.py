"""Reads the files of KLUE-NER and of Naver NER."""

import re
from collections.abc import Sequence
from itertools import chain

from bert_keras.downstream.ner.files import Sentence
from bert_keras.errors import InputError, counted
from bert_keras.files import StrPath, text_lines

_REVERSED_TAG = re.compile(r"(.+)-([BI])")


def read_klue_ner(path: StrPath, *, labels: Sequence[str]) -> list[Sentence]:
    """Reads a file of KLUE-NER, whose sentences have one character and its tag on each line.

    Lines that start with ## are comments: the sentence with marked entities, and the description of
    the file. An empty line, or a tab alone, ends a sentence. The words of a sentence are its
    characters, spaces included. This is the format of KLUE-benchmark/KLUE-baseline
    (data/klue_ner.py).

    Args:
        path: The file.
        labels: The known tags.

    Raises:
        InputError: A line is not a character and a known tag, or there is no sentence; the message
            names the line.
    """
    sentences: list[Sentence] = []
    rows: list[tuple[str, str]] = []
    for line, text in enumerate(chain(text_lines(path), [""]), start=1):
        if text.strip("\t") and not text.startswith("##"):
            character, _, tag = text.partition("\t")
            if len(character) != 1 or tag not in labels:
                raise InputError(
                    f"{path}, line {line} is {text[:40]!r}; expected a character, a tab and one of "
                    f"{', '.join(labels)}"
                )
            rows.append((character, tag))
        elif rows and not text.startswith("##"):
            characters, tags = zip(*rows, strict=True)
            sentences.append(Sentence(characters, tags, 0, line - len(rows)))
            rows = []
    return _some(sentences, path)


def read_naver_ner(path: StrPath, *, labels: Sequence[str]) -> list[Sentence]:
    """Reads a file of Naver NER: on each line a sentence, a tab, and the tag of each of its words.

    Spaces separate words and tags. A tag such as PER-B becomes B-PER. This is the format of
    monologg/KoELECTRA (finetune/data/naver-ner, processor/ner.py).

    Args:
        path: The file.
        labels: The known tags, as B-PER.

    Raises:
        InputError: A line has no tab, another number of tags than words, or an unknown tag, or
            there is no sentence; the message names the line.
    """
    sentences: list[Sentence] = []
    for line, text in enumerate(text_lines(path), start=1):
        if not text.strip():
            continue
        words, *columns = (column.split() for column in text.split("\t"))
        if len(columns) != 1:
            raise InputError(
                f"{path}, line {line} has {len(columns)} tabs; expected one, between the sentence "
                "and its tags"
            )
        if len(words) != len(columns[0]):
            raise InputError(
                f"{path}, line {line} has {counted(len(words), 'word')} and "
                f"{counted(len(columns[0]), 'tag')}; expected a tag for each word"
            )
        tags = tuple(_REVERSED_TAG.sub(r"\2-\1", tag) for tag in columns[0])
        for tag, written in zip(tags, columns[0], strict=True):
            if tag not in labels or tag == written != "O":
                raise InputError(
                    f"{path}, line {line} has the tag {written!r}; expected O, or TYPE-B or TYPE-I "
                    f"with TYPE one of {', '.join(sorted({each[2:] for each in labels} - {''}))}"
                )
        sentences.append(Sentence(tuple(words), tags, 0, line))
    return _some(sentences, path)


def _some(sentences: list[Sentence], path: StrPath) -> list[Sentence]:
    if not sentences:
        raise InputError(f"{path} contains no sentence; expected at least one")
    return sentences
