"""Defines named entity recognition (BERT paper, section 5.3) and tagging of parts of speech."""

import dataclasses
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import ClassVar, Self

import numpy as np

from bert_keras.downstream.ner.tags import entity_scores, read_conll
from bert_keras.downstream.task import FileNames, Outputs, Scores, Task, fixed
from bert_keras.downstream.tfds import is_tfds, tfds_rows
from bert_keras.errors import InputError, check, check_choice, check_least
from bert_keras.fields import setting
from bert_keras.files import StrPath, atomic_file
from bert_keras.kinds.tagger import word_logits, word_losses
from bert_keras.kinds.words import OUTSIDE, Sentence, TaggedWords, sentence_rows, word_tokens
from bert_keras.text.tokenizer import TextTokenizer

CONTEXTS = ("sentence", "document")
Sentences = Sequence[Sentence]
Tags = Sequence[str]  # the predicted tags of a sentence


@dataclass(frozen=True, kw_only=True)
class NerTask(Task[Sentence, TaggedWords, Tags]):
    """Named entity recognition: the tag of a word is predicted at its first token, without a CRF.

    The loss and the predictions cover only the words of the sentence of a row, not its context, so
    each word counts once per epoch. Reproductions of the paper's "maximal document context" reach
    its score this way (test F1 of 92.35 to 92.4 with BERT-base; kermitt2/delft issue 21,
    dsindex/ntagger issue 4). No sentence is cut: a sentence of more than `max_length` tokens has
    several rows, and each word is predicted in the row that gives it the most context.

    `labels` are the tags of the training file, O first.
    """

    context: str = setting("sentence", '"sentence" alone, or "document": with the text around it')
    # The part of a text that gets a label when the model is served; a unit of `tokenized_units`.
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
    column_separator: ClassVar[str] = " "  # of prediction files
    rows_type: ClassVar[type[TaggedWords]] = TaggedWords
    has_entities: ClassVar[bool] = True  # whether tags are O, B-TYPE and I-TYPE

    def __post_init__(self):
        check_choice(self, "context", CONTEXTS)
        check_least(self, 3, "max_length")

    def sentences(self, path: StrPath) -> list[Sentence]:
        """Reads a file in CoNLL's format, or a TFDS split with `tokens` and `ner`, as conll2003."""
        if not is_tfds(path):
            return read_conll(path, has_entities=self.has_entities)
        check(self.has_entities, f"{path} is of TFDS; {self.name} reads files: a word and its tag")
        rows = enumerate(tfds_rows(os.fspath(path)), start=1)
        words = ((tuple(row["tokens"]), tuple(row["ner"]), line) for line, row in rows)
        return [Sentence(tokens, tags, 0, line) for tokens, tags, line in words if tokens]

    def read(self, path: StrPath, *, split: str = "train") -> list[Sentence]:
        sentences = self.sentences(path)
        check(sentences, f"{path} contains no sentence; expected lines with words and tags")
        if sentences[0].tags is None and split in ("train", "dev"):
            raise InputError(f"{path} has one column; expected words and their tags")
        if self.context == "document" and sentences[-1].document == 0:
            raise InputError(f"{path} has no -DOCSTART- lines, which context=document needs")
        return sentences

    def with_labels_of(self, examples: Sentences) -> Self:
        if self.labels:
            return self
        tags = set(chain.from_iterable(sentence.tags or () for sentence in examples)) - {OUTSIDE}
        check(tags, f"all tags of the training sentences are {OUTSIDE}; expected an entity")
        return dataclasses.replace(self, labels=(OUTSIDE, *sorted(tags)))

    def encode(self, examples: Sentences, tokenizer: TextTokenizer) -> TaggedWords:
        """Encodes the sentences; words with a tag that the training file lacks have weight 0."""
        tokens = word_tokens(examples, tokenizer)
        documents = None
        if self.context == "document":
            documents = np.array([each.document for each in examples])
        rows = sentence_rows(tokens, limit=self.max_length - 2, documents=documents)
        tags = [*chain.from_iterable(s.tags or (None,) * len(s.words) for s in examples)]
        known: dict[str | None, int] = {tag: index for index, tag in enumerate(self.labels)}
        label_ids = np.array([known.get(tag, -1) for tag in tags], np.int32)
        if unknown := {tag for tag in tags if tag is not None and tag not in known}:
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
        return [tuple(tags[a:b]) for a, b in pairwise(encoded.tokens.word_bounds)]

    def score(self, examples: Sentences, predictions: Sequence[Tags]) -> Scores:
        return entity_scores([sentence.tags or () for sentence in examples], predictions)

    def write_predictions(
        self, path: StrPath, examples: Sentences, predictions: Sequence[Tags]
    ) -> None:
        """Writes a line "word gold predicted" for each word, and an empty line after each sentence.

        -DOCSTART- lines are omitted, because conlleval.pl would count them as words.
        """
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
