"""Reads words and tags in the format of CoNLL's shared tasks, and scores them as conlleval.pl."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from bert_keras.errors import InputError, check, counted
from bert_keras.files import StrPath, text_lines
from bert_keras.kinds.words import TAG, Entity, Sentence, tagged_entities

DOCUMENT_START = "-DOCSTART-"
_COLUMN = re.compile(r"[^ \t]+")


def read_conll(path: StrPath, *, has_entities: bool = True) -> list[Sentence]:
    """Reads the sentences of a file in CoNLL format.

    A line has a word, optional further columns, and a tag, separated by spaces or tabs. An empty
    line ends a sentence. Tags are O, B-TYPE or I-TYPE, in the scheme IOB1 or BIO2; without
    `has_entities` they are types of words, and TYPE is returned as B-TYPE. A file with a single
    column has no tags. A -DOCSTART- line starts a document and is not a word.
    """
    is_table = os.fspath(path).endswith((".csv", ".json", ".jsonl"))
    expected = "a file in CoNLL format, with a word and its tag per line, or another task"
    check(not is_table, f"{path} is a table; expected {expected}, such as classification")
    sentences: list[Sentence] = []
    width, first_line, document = 0, 0, 0
    rows: list[list[str]] = []
    for line, text in enumerate(chain(text_lines(path), [""]), start=1):
        columns = _COLUMN.findall(text)
        if columns and columns[0] != DOCUMENT_START:
            if not width:
                width, first_line = len(columns), line
            if len(columns) != width:
                found = f"{path}, line {line} has {counted(len(columns), 'column')}"
                expected = "expected a word and its tag in each, or another task for a table"
                raise InputError(f"{found} and line {first_line} has {width}; {expected}")
            if width > 1 and not has_entities:
                columns[-1] = f"B-{columns[-1]}"
            if width > 1 and not TAG.fullmatch(columns[-1]):
                found = f"{path}, line {line} ends in {columns[-1]!r}"
                expected = "expected the tag of the word: O, B-TYPE or I-TYPE"
                raise InputError(f"{found}; {expected}; the task pos takes any tags")
            rows.append(columns)
            continue
        if rows:
            tags = tuple(row[-1] for row in rows) if width > 1 else None
            words = tuple(row[0] for row in rows)
            sentences.append(Sentence(words, tags, document, line - len(rows)))
            rows = []
        document += bool(columns)
    return sentences


def entity_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Returns the scores of conlleval.pl (2004-01-26) for the tags of sentences.

    A predicted entity is correct if its first word, its last word and its type are correct. The
    scores are `f1`, `precision` and `recall` of entities, `accuracy` of single tags, and the first
    three for each type, named as `person f1`.
    """
    num_words = num_equal = 0
    pairs = []
    for gold_tags, predicted_tags in zip(gold, predicted, strict=True):
        num_equal += sum(tag == other for tag, other in zip(gold_tags, predicted_tags, strict=True))
        num_words += len(gold_tags)
        pairs.append((set(tagged_entities(gold_tags)), set(tagged_entities(predicted_tags))))
    num_true, num_predicted, num_correct = entity_counts(pairs)
    scores = _ratios(num_true.total(), num_predicted.total(), num_correct.total())
    scores["accuracy"] = num_equal / num_words
    for kind in sorted({*num_true, *num_predicted}):
        ratios = _ratios(num_true[kind], num_predicted[kind], num_correct[kind])
        scores.update({f"{kind} {name}": value for name, value in ratios.items()})
    return scores


def entity_counts(
    pairs: Iterable[tuple[set[Entity], set[Entity]]],
) -> tuple[Counter, Counter, Counter]:
    """Counts true, predicted and correct entities of each type, of (true, predicted) sets."""
    counters = Counter(), Counter(), Counter()
    for gold, predicted in pairs:
        for counter, spans in zip(counters, (gold, predicted, gold & predicted), strict=True):
            counter.update(kind for _, _, kind in spans)
    return counters


def _ratios(num_true: int, num_predicted: int, num_correct: int) -> dict[str, float]:
    precision = num_correct / num_predicted if num_predicted else 0.0
    recall = num_correct / num_true if num_true else 0.0
    total = precision + recall
    f1 = 2 * precision * recall / total if total else 0.0
    return {"f1": f1, "precision": precision, "recall": recall}
