"""Named entity recognition as in KLUE and in Naver's data: files, encoding and scores."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

import numpy as np

from bert_keras.downstream.korean.texts import TEST_AS_DEV, klue_files
from bert_keras.downstream.ner.task import NerTask, Sentences, Tags, entity_counts, wrong_line
from bert_keras.downstream.task import FileNames, Outputs, Scores, fixed
from bert_keras.files import StrPath, text_lines
from bert_keras.kinds.words import (
    OUTSIDE,
    Sentence,
    TaggedWords,
    find_entities,
    make_rows,
    tokenize_units,
)
from bert_keras.text.tokenizer import TextTokenizer

KLUE_TYPES = ("PS", "LC", "OG", "DT", "TI", "QT")  # person, location, organization, date, ...
KLUE_LABELS = (*(f"{prefix}-{name}" for name in KLUE_TYPES for prefix in "BI"), OUTSIDE)
# monologg/KoELECTRA, finetune/processor/ner.py, with the prefix first.
NAVER_TYPES = (
    *("PER", "FLD", "AFW", "ORG", "LOC", "CVL", "DAT"),
    *("TIM", "NUM", "EVT", "ANM", "PLT", "MAT", "TRM"),
)
NAVER_LABELS = (OUTSIDE, *(f"{prefix}-{name}" for name in NAVER_TYPES for prefix in "BI"))
_REVERSED_TAG = re.compile(r"(.+)-([BI])")  # such as PER-B


@dataclass(frozen=True, kw_only=True)
class NaverNerTask(NerTask):
    """Naver NER: entities of words that white space separates; long sentences are not cut.

    The data has no dev split. As in monologg/KoELECTRA, the test file chooses the best epoch.
    """

    context: str = fixed("sentence")
    unit: str = fixed("eojeol")

    folder: ClassVar[str] = "naver-ner"
    file_names: ClassVar[FileNames] = {s: (f"{file}.tsv",) for s, file in TEST_AS_DEV.items()}

    def sentences(self, path: StrPath) -> list[Sentence]:
        """Reads lines of a sentence, a tab and tags such as PER-B, as monologg/KoELECTRA does."""
        sentences: list[Sentence] = []
        for line, text in enumerate(text_lines(path), start=1):
            if not text.strip():
                continue
            columns = text.split("\t")
            words = columns[0].split()
            tags = tuple(_REVERSED_TAG.sub(r"\2-\1", tag) for tag in columns[-1].split())
            if len(columns) != 2 or len(words) != len(tags) or not set(tags) <= set(self.labels):
                expected = "words, a tab, and for each word O, TYPE-B or TYPE-I"
                raise wrong_line(f"{path}, line {line}", text, expected=expected)
            sentences.append(Sentence(tuple(words), tags, 0, line))
        return sentences


@dataclass(frozen=True, kw_only=True)
class KlueNerTask(NerTask):
    """KLUE's named entity recognition: entities of characters.

    As in KLUE-benchmark/KLUE-baseline (data/klue_ner.py, models/named_entity_recognition.py), a
    token learns the tag of its first character. Its predicted tag applies to its first character,
    and with I- to its other characters. Unlike KLUE-baseline, an [UNK] leaves the targets of other
    tokens unchanged, [CLS] and [SEP] have no targets, and long sentences are not cut.
    """

    context: str = fixed("sentence")
    unit: str = fixed("token")

    metric: ClassVar[str] = "character_macro_f1"
    word_separator: ClassVar[str] = ""
    column_separator: ClassVar[str] = "\t"
    folder: ClassVar[str] = "klue-ner-v1.1"
    file_names: ClassVar[FileNames] = klue_files("klue-ner", suffix=".tsv")

    def sentences(self, path: StrPath) -> list[Sentence]:
        """Reads lines of a character and its tag; the words of a sentence are its characters.

        Lines that start with ## are comments. An empty line, or a tab alone, ends a sentence
        (KLUE-benchmark/KLUE-baseline, data/klue_ner.py).
        """
        sentences: list[Sentence] = []
        rows: list[tuple[str, str]] = []
        for line, text in enumerate(chain(text_lines(path), [""]), start=1):
            if text.strip("\t") and not text.startswith("##"):
                character, _, tag = text.partition("\t")
                if len(character) != 1 or tag not in self.labels:
                    expected = f"a character, a tab and one of {', '.join(self.labels)}"
                    raise wrong_line(f"{path}, line {line}", text, expected=expected)
                rows.append((character, tag))
            elif rows and not text.startswith("##"):
                characters, tags = zip(*rows, strict=True)
                sentences.append(Sentence(characters, tags, 0, line - len(rows)))
                rows = []
        return sentences

    def encode(self, examples: Sentences, tokenizer: TextTokenizer) -> TaggedWords:
        texts = ["".join(sentence.words) for sentence in examples]
        tokens, spans = tokenize_units(texts, tokenizer, unit=self.unit)
        spans_of_sentences = np.split(spans, tokens.word_bounds[1:-1])
        label_ids = [
            self.labels.index((sentence.tags or ())[start])
            for sentence, starts in zip(examples, spans_of_sentences, strict=True)
            for start, _ in starts
        ]
        rows = make_rows(tokens, limit=self.max_length - 2)
        return TaggedWords(tokens, rows, np.array(label_ids, np.int32), tokenizer.vocabulary, spans)

    def predictions(
        self, examples: Sentences, encoded: TaggedWords, outputs: Outputs
    ) -> list[Tags]:
        """Returns a tag for each character; a space within an entity gets the next tag."""
        tags_of_tokens = super().predictions(examples, encoded, outputs)
        spans = np.split(encoded.spans_W2, encoded.tokens.word_bounds[1:-1])
        predictions = []
        for sentence, token_tags, token_spans in zip(examples, tags_of_tokens, spans, strict=True):
            tags = [OUTSIDE] * len(sentence.words)
            for tag, (start, end) in zip(token_tags, token_spans, strict=True):
                next_tags = [tag.replace("B-", "I-")] * (end - start - 1)
                tags[start:end] = [tag, *next_tags]
            for index in range(1, len(tags) - 1):
                before, after = tags[index - 1], tags[index + 1]
                is_within = after.startswith("I-") and before[2:] == after[2:]
                if is_within and sentence.words[index] == " ":
                    tags[index] = after
            predictions.append(tuple(tags))
        return predictions

    def score(self, examples: Sentences, predictions: Sequence[Tags]) -> Scores:
        def without_spaces(tags: Sequence[Tags]) -> list[Tags]:
            return [
                [tag for tag, word in zip(row, sentence.words, strict=True) if word != " "]
                for sentence, row in zip(examples, tags, strict=True)
            ]

        gold = [sentence.tags or () for sentence in examples]
        return klue_ner_scores(without_spaces(gold), without_spaces(predictions))


def klue_ner_scores(gold: Sequence[Tags], predicted: Sequence[Tags]) -> Scores:
    """Returns the scores of KLUE-NER as KLUE-baseline (metrics/functional.py).

    The scores include [CLS] and [SEP] of each sentence, whose tag O is always right, but no spaces.
    `character_macro_f1` is the mean F1 of the 13 tags; the F1 of a tag that neither occurs nor is
    predicted is 1. `entity_macro_f1` is the mean F1 of the types of entities that occur or are
    predicted. An entity starts with B-; see `to_strict_tags`.
    """
    from sklearn.metrics import f1_score

    both = gold, predicted
    flat = [[tag for tags in each for tag in (OUTSIDE, *tags, OUTSIDE)] for each in both]
    tag_f1 = f1_score(*flat, labels=list(KLUE_LABELS), average="macro", zero_division=1.0)
    true, found = ([set(find_entities(to_strict_tags(tags))) for tags in each] for each in both)
    num_true, num_predicted, num_correct = entity_counts(zip(true, found, strict=True))
    types = {*num_true, *num_predicted}
    f1s = [2 * num_correct[each] / (num_true[each] + num_predicted[each]) for each in types]
    entity_f1 = sum(f1s) / len(f1s) if f1s else 0.0
    return {"character_macro_f1": float(tag_f1), "entity_macro_f1": entity_f1}


def to_strict_tags(tags: Sequence[str]) -> list[str]:
    """Replaces I- tags that do not continue an entity by O, as seqeval in its mode "strict"."""
    result, entity_type = [], ""
    for tag in tags:
        prefix, _, tag_type = tag.partition("-")
        entity_type = tag_type if prefix == "B" or tag_type == entity_type else ""
        result.append(tag if entity_type else OUTSIDE)
    return result


TAG_TASKS = (
    KlueNerTask(name="klue-ner", max_length=510, labels=KLUE_LABELS),
    NaverNerTask(name="naver-ner", max_length=128, labels=NAVER_LABELS),
)
