"""Defines named entity recognition (BERT paper, section 5.3) and tagging of parts of speech."""

import dataclasses
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import ClassVar, Self

import numpy as np

from bert_keras.downstream.table import is_tfds, tfds_rows
from bert_keras.downstream.task import FileNames, Outputs, Scores, Task, fixed, needs_labels
from bert_keras.errors import InputError, check_choice, check_least, counted, quoted
from bert_keras.fields import setting
from bert_keras.files import StrPath, atomic_file, text_lines
from bert_keras.kinds.tagger import word_logits, word_losses
from bert_keras.kinds.words import (
    OUTSIDE,
    TAG,
    Entity,
    Sentence,
    TaggedWords,
    find_entities,
    make_rows,
    tokenize_words,
)
from bert_keras.text.tokenizer import TextTokenizer

_COLUMN = re.compile(r"[^ \t]+")  # other white space may be part of a word
_CONLLU_ROW = re.compile(r"(\d+([-.]\d+)?)([ \t]+[^ \t]+){9}")  # ID, FORM, LEMMA, UPOS and so on
Sentences = Sequence[Sentence]
Tags = Sequence[str]  # the predicted tags of a sentence


def wrong_line(location: str, text: str, *, expected: str) -> InputError:
    """Returns the error for the `text` at a location such as "FILE, line 2"."""
    return InputError(f"{location} is {quoted(text)}; expected {expected}")


def read_conll(path: StrPath, *, has_entities: bool = True) -> list[Sentence]:
    """Reads the sentences of a file in CoNLL format.

    A line has a word, optional further columns, and a tag, separated by spaces or tabs. An empty
    line ends a sentence. Tags are O, B-TYPE or I-TYPE, in the scheme IOB1 or BIO2. If
    `has_entities` is False, tags are types of words, and a file of ten columns that start with the
    number of the word is CoNLL-U, whose tags are the column UPOS. A file with a single column, or
    with the tag _ alone, has no tags. A -DOCSTART- line starts a document and is not a word.
    """
    sentences: list[Sentence] = []
    rows: list[list[str]] = []  # the columns of each word of a sentence
    num_columns, first_line, document = 0, 0, 0
    lines = [*text_lines(path), ""]  # the empty line ends the last sentence
    is_conllu = not has_entities and any(_CONLLU_ROW.fullmatch(text) for text in lines)
    for line, text in enumerate(lines, start=1):
        columns = _split_line(text, is_conllu=is_conllu)
        if columns is None:
            continue
        is_word = bool(columns) and columns[0] != "-DOCSTART-"
        if is_word:
            if not num_columns:
                num_columns, first_line = len(columns), line
            has_tag_type = has_entities and num_columns > 1
            if len(columns) != num_columns or (has_tag_type and not TAG.fullmatch(columns[-1])):
                expected = f"{counted(num_columns, 'column')} as in line {first_line}"
                if has_tag_type:
                    expected += ", and O, B-TYPE or I-TYPE last; the task pos takes any tags"
                raise wrong_line(f"{path}, line {line}", text, expected=expected)
            rows.append(columns)
        elif rows:
            words = tuple(row[0] for row in rows)
            tags = tuple(row[-1] for row in rows) if num_columns > 1 else None
            sentences.append(Sentence(words, tags, document, line - len(rows)))
            rows = []
        if columns and not is_word:
            document += 1
    if {tag for sentence in sentences for tag in sentence.tags or ()} == {"_"}:
        return [dataclasses.replace(sentence, tags=None) for sentence in sentences]
    return sentences


def _split_line(text: str, *, is_conllu: bool) -> list[str] | None:
    """Returns the columns of a line, or None for a line of CoNLL-U that is not a word."""
    columns = text.split("\t") if is_conllu and "\t" in text else _COLUMN.findall(text)
    if is_conllu and columns:  # comments, ranges of words and empty words have no whole number
        return [columns[1], columns[3]] if columns[0].isdecimal() else None  # FORM and UPOS
    return columns


def entity_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Returns the scores of conlleval.pl (2004-01-26), also of each type, such as `person f1`."""
    pairs = [
        (set(find_entities(gold_tags)), set(find_entities(predicted_tags)))
        for gold_tags, predicted_tags in zip(gold, predicted, strict=True)
    ]
    num_true, num_predicted, num_correct = entity_counts(pairs)
    scores = _ratios(num_true.total(), num_predicted.total(), num_correct.total())
    tags, predicted_tags = list(chain(*gold)), list(chain(*predicted))  # of all words
    num_equal = sum(tag == other for tag, other in zip(tags, predicted_tags, strict=True))
    scores["accuracy"] = num_equal / len(tags)
    for each in sorted({*num_true, *num_predicted}):
        ratios = _ratios(num_true[each], num_predicted[each], num_correct[each])
        scores.update({f"{each} {name}": value for name, value in ratios.items()})
    return scores


def entity_counts(
    pairs: Iterable[tuple[set[Entity], set[Entity]]],
) -> tuple[Counter, Counter, Counter]:
    """Returns the numbers of true, predicted and correct entities of each type.

    Args:
        pairs: The true and the predicted entities of each sentence.
    """
    num_true, num_predicted, num_correct = Counter(), Counter(), Counter()
    for gold, predicted in pairs:
        num_true.update(entity_type for _, _, entity_type in gold)
        num_predicted.update(entity_type for _, _, entity_type in predicted)
        num_correct.update(entity_type for _, _, entity_type in gold & predicted)
    return num_true, num_predicted, num_correct


def _ratios(num_true: int, num_predicted: int, num_correct: int) -> dict[str, float]:
    """Returns F1, precision and recall; a ratio without a denominator is 0."""
    precision = num_correct / num_predicted if num_predicted else 0.0
    recall = num_correct / num_true if num_true else 0.0
    total = precision + recall
    f1 = 2 * precision * recall / total if total else 0.0
    return {"f1": f1, "precision": precision, "recall": recall}


@dataclass(frozen=True, kw_only=True)
class NerTask(Task[Sentence, TaggedWords, Tags]):
    """Named entity recognition: the tag of a word is predicted at its first token, without a CRF.

    The loss and the predictions cover the words of a row's sentence, not the context around it, so
    each word counts once per epoch. Reproductions of the paper's "maximal document context" reach
    its score this way (test F1 of 92.35 to 92.4 with BERT-base; kermitt2/delft issue 21,
    dsindex/ntagger issue 4). No sentence is cut: a sentence of more than `max_length` tokens has
    several rows, and each word is predicted in the row that gives it the most context. `labels` are
    the tags of the training file, O first.
    """

    context: str = setting("sentence", '"sentence" alone, or "document": with the text around it')
    # The part of a text that gets a label when the model is served; a unit of `tokenize_units`.
    unit: str = fixed("word")

    model: ClassVar[str] = "BertTokenClassifier"
    metric: ClassVar[str] = "f1"
    prediction_file: ClassVar[str] = "predictions.conll"
    file_names: ClassVar[FileNames] = {
        "train": ("train.conll", "train.txt", "eng.train"),
        "dev": ("dev.conll", "valid.txt", "eng.testa"),
        "test": ("test.conll", "test.txt", "eng.testb"),
    }
    label_field: ClassVar[str] = "tags"
    word_separator: ClassVar[str] = " "  # the text between two words in a report
    column_separator: ClassVar[str] = " "  # the text between two columns of a prediction file
    rows_type: ClassVar[type[TaggedWords]] = TaggedWords
    has_entities: ClassVar[bool] = True  # whether tags are O, B-TYPE and I-TYPE

    def __post_init__(self):
        check_choice(self, "context", ("sentence", "document"))
        check_least(self, 3, "max_length")

    def sentences(self, path: StrPath) -> list[Sentence]:
        """Reads a file in CoNLL's format, or a TFDS split with `tokens` and `ner` (conll2003)."""
        if not is_tfds(path) or not self.has_entities:
            return read_conll(path, has_entities=self.has_entities)
        return [
            Sentence(tuple(row["tokens"]), tuple(row["ner"]), 0, line)
            for line, row in enumerate(tfds_rows(os.fspath(path)), start=1)
            if row["tokens"]
        ]

    def read(self, path: StrPath, *, split: str = "train") -> list[Sentence]:
        sentences = self.sentences(path)
        tags = set(chain.from_iterable(each.tags or () for each in sentences))
        ignored = {OUTSIDE} if split == "train" and not self.labels else set()
        if not sentences or (needs_labels(split) and tags <= ignored):
            raise InputError(f"{path} has no tags but {OUTSIDE}; expected lines of word and tag")
        if self.context == "document" and sentences[-1].document == 0:
            raise InputError(f"{path} has no -DOCSTART- lines, which context=document needs")
        return sentences

    def with_labels_of(self, examples: Sentences) -> Self:
        if self.labels:
            return self
        tags = set(chain.from_iterable(sentence.tags or () for sentence in examples))
        first = (OUTSIDE,) if self.has_entities else ()
        return dataclasses.replace(self, labels=(*first, *sorted(tags.difference(first))))

    def encode(self, examples: Sentences, tokenizer: TextTokenizer) -> TaggedWords:
        """Encodes the sentences; words whose tag is not in `labels` have weight 0."""
        tokens = tokenize_words(examples, tokenizer)
        documents = None
        if self.context == "document":
            documents = np.array([each.document for each in examples])
        rows = make_rows(tokens, limit=self.max_length - 2, documents=documents)
        tags = list(chain.from_iterable(s.tags or (None,) * len(s.words) for s in examples))
        known: dict[str | None, int] = {tag: index for index, tag in enumerate(self.labels)}
        label_ids = np.array([known.get(tag, -1) for tag in tags], np.int32)
        if unknown := {tag for tag in tags if tag is not None} - set(self.labels):
            note = "the training file lacks these tags, so scores count their words as missed"
            print(f"{note}: {', '.join(sorted(unknown))}", file=sys.stderr)
        return self.rows_type(tokens, rows, label_ids, tokenizer.vocabulary)

    def compile_arguments(self) -> dict:
        return word_losses()

    def predictions(
        self, examples: Sentences, encoded: TaggedWords, outputs: Outputs
    ) -> list[Tags]:
        """Returns the most probable tag of each word, whether or not it fits the preceding tag."""
        logits = word_logits(encoded, outputs)
        tags = [self.labels[label_id] for row in logits for label_id in row.argmax(axis=-1)]
        return [tuple(tags[start:end]) for start, end in pairwise(encoded.tokens.word_bounds)]

    def score(self, examples: Sentences, predictions: Sequence[Tags]) -> Scores:
        return entity_scores([sentence.tags or () for sentence in examples], predictions)

    def write_predictions(
        self, path: StrPath, examples: Sentences, predictions: Sequence[Tags]
    ) -> None:
        """Writes a line "word gold predicted" for each word, as conlleval.pl reads it."""
        with atomic_file(path) as part, part.open("w", encoding="utf-8", newline="\n") as file:
            for sentence, tags in zip(examples, predictions, strict=True):
                columns = [c for c in (sentence.words, sentence.tags, tags) if c is not None]
                lines = map(self.column_separator.join, zip(*columns, strict=True))
                file.writelines(f"{line}\n" for line in lines)
                file.write("\n")


@dataclass(frozen=True, kw_only=True)
class PosTask(NerTask):
    """Parts of speech, or other types of single words: each word is an entity of its own."""

    metric: ClassVar[str] = "accuracy"
    has_entities: ClassVar[bool] = False


NER_TASK = NerTask(name="ner", max_length=128)
POS_TASK = PosTask(name="pos", max_length=128)
