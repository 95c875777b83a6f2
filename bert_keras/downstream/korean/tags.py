"""Defines named entity recognition as in KLUE and in Naver's data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from bert_keras.downstream.korean.tag_files import read_klue_ner, read_naver_ner
from bert_keras.downstream.korean.tag_scores import LABELS, klue_ner_scores
from bert_keras.downstream.korean.texts import klue_files
from bert_keras.downstream.ner.encoding import TaggedWords
from bert_keras.downstream.ner.files import OUTSIDE, Sentence
from bert_keras.downstream.ner.task import NerTask
from bert_keras.downstream.ner.units import units_of
from bert_keras.downstream.ner.windows import sentence_rows
from bert_keras.downstream.task import Outputs, data_files, task_folder
from bert_keras.errors import InputError, counted
from bert_keras.files import StrPath, write_text
from bert_keras.options import fixed
from bert_keras.text.tokenizer import TextTokenizer

SPACE = " "
# monologg/KoELECTRA, finetune/processor/ner.py, with the prefix first.
NAVER_TYPES = (
    *("PER", "FLD", "AFW", "ORG", "LOC", "CVL", "DAT"),
    *("TIM", "NUM", "EVT", "ANM", "PLT", "MAT", "TRM"),
)
NAVER_LABELS = (OUTSIDE, *(f"{prefix}-{kind}" for kind in NAVER_TYPES for prefix in "BI"))


@dataclass(frozen=True, kw_only=True)
class KoreanNerTask(NerTask):
    """Named entity recognition with fixed tags, whose predictions have the format of the data."""

    context: str = fixed("sentence")

    prediction_file: ClassVar[str] = "predictions.tsv"

    def read_predictions(
        self, path: StrPath, examples: Sequence[Sentence]
    ) -> list[tuple[str, ...]]:
        """Reads the tags of a file in the format of the data.

        Raises:
            InputError: The file is invalid, or its sentences are not those of the examples.
        """
        sentences = self.read(path)
        for sentence, example in zip(sentences, examples, strict=False):
            if sentence.words != example.words:
                raise InputError(
                    f"{path}, line {sentence.line} has another sentence than line {example.line} "
                    "of the data; expected the sentences of the data in the same order"
                )
        if len(sentences) != len(examples):
            raise InputError(
                f"{path} has {counted(len(sentences), 'sentence')}; the data has {len(examples)}"
            )
        return [sentence.tags or () for sentence in sentences]


@dataclass(frozen=True, kw_only=True)
class NaverNerTask(KoreanNerTask):
    """Naver NER: entities of words that white space separates.

    The data has no dev split. As in monologg/KoELECTRA, the test file chooses the best epoch.
    Unlike there, long sentences are not cut.
    """

    unit: str = fixed("eojeol")

    def files(self, data: StrPath) -> dict[str, str]:
        names = {"train": ["train.tsv"], "dev": ["test.tsv"], "test": ["test.tsv"]}
        return data_files(task_folder(data, "naver-ner"), names=names)

    def read(self, path: StrPath, *, split: str = "train") -> list[Sentence]:
        return read_naver_ner(path, labels=self.labels)

    def write_predictions(
        self, path: StrPath, examples: Sequence[Sentence], predictions: Sequence[Sequence[str]]
    ) -> None:
        """Writes the sentences with the predicted tags."""
        lines = []
        for sentence, tags in zip(examples, predictions, strict=True):
            reversed_tags = ("-".join(reversed(tag.split("-"))) for tag in tags)
            lines.append(f"{SPACE.join(sentence.words)}\t{SPACE.join(reversed_tags)}\n")
        write_text(path, "".join(lines))


@dataclass(frozen=True)
class LocatedTokens(TaggedWords):
    """Rows of tokens that are tagged one by one."""

    spans: np.ndarray  # int64 [W,2], the characters [start, end) of each token in its sentence


@dataclass(frozen=True, kw_only=True)
class KlueNerTask(KoreanNerTask):
    """KLUE's named entity recognition: entities of characters.

    As in KLUE-benchmark/KLUE-baseline (data/klue_ner.py, models/named_entity_recognition.py), a
    token learns the tag of its first character, and its predicted tag applies to its first
    character, with I- at its other characters. Unlike there, an [UNK] does not change what the
    other tokens of its word learn, [CLS] and [SEP] learn nothing, and long sentences are not cut.
    """

    unit: str = fixed("token")

    metric: ClassVar[str] = "character_macro_f1"
    word_separator: ClassVar[str] = ""

    def files(self, data: StrPath) -> dict[str, str]:
        files = klue_files("klue-ner", suffix=".tsv")
        names = {split: [file] for split, file in files.items()}
        return data_files(task_folder(data, "klue-ner-v1.1"), names=names)

    def read(self, path: StrPath, *, split: str = "train") -> list[Sentence]:
        return read_klue_ner(path, labels=self.labels)

    def encode(self, examples: Sequence[Sentence], tokenizer: TextTokenizer) -> LocatedTokens:
        texts = ["".join(sentence.words) for sentence in examples]
        tokens, spans = units_of(texts, tokenizer, unit=self.unit)
        label_ids = [
            self.labels.index((sentence.tags or ())[start])
            for sentence, spans_of_tokens in zip(
                examples, np.split(spans, tokens.word_bounds[1:-1]), strict=True
            )
            for start, _ in spans_of_tokens
        ]
        rows = sentence_rows(tokens, limit=self.max_length - 2)
        return LocatedTokens(
            tokens, rows, np.array(label_ids, np.int32), tokenizer.vocabulary, spans
        )

    def predictions(
        self, examples: Sequence[Sentence], encoded: TaggedWords, outputs: Outputs
    ) -> list[tuple[str, ...]]:
        """Returns a tag for each character; a space within an entity gets the tag after it."""
        tags = super().predictions(examples, encoded, outputs)
        spans = np.split(cast(LocatedTokens, encoded).spans, encoded.tokens.word_bounds[1:-1])
        return [_character_tags(*each) for each in zip(examples, tags, spans, strict=True)]

    def score(
        self, examples: Sequence[Sentence], predictions: Sequence[Sequence[str]]
    ) -> dict[str, float]:
        self.check_labels(examples)
        gold = [sentence.tags or () for sentence in examples]
        return klue_ner_scores(*(_without_spaces(examples, tags) for tags in (gold, predictions)))

    def write_predictions(
        self, path: StrPath, examples: Sequence[Sentence], predictions: Sequence[Sequence[str]]
    ) -> None:
        """Writes the characters of the sentences with the predicted tags."""
        sentences = [
            "".join(f"{word}\t{tag}\n" for word, tag in zip(sentence.words, tags, strict=True))
            for sentence, tags in zip(examples, predictions, strict=True)
        ]
        write_text(path, "\n".join(sentences))


def _without_spaces(
    sentences: Sequence[Sentence], tags: Sequence[Sequence[str]]
) -> list[list[str]]:
    return [
        [tag for tag, word in zip(row, sentence.words, strict=True) if word != SPACE]
        for sentence, row in zip(sentences, tags, strict=True)
    ]


def _character_tags(
    sentence: Sentence, token_tags: Sequence[str], spans: np.ndarray
) -> tuple[str, ...]:
    tags = [OUTSIDE] * len(sentence.words)
    for tag, (start, end) in zip(token_tags, spans, strict=True):
        tags[start:end] = [tag, *[tag.replace("B-", "I-")] * (end - start - 1)]
    for index in range(1, len(tags) - 1):
        before, after = tags[index - 1], tags[index + 1]
        if sentence.words[index] == SPACE and after.startswith("I-") and before[2:] == after[2:]:
            tags[index] = after
    return tuple(tags)


TAG_TASKS = (
    KlueNerTask(name="klue-ner", max_length=510, labels=LABELS),
    NaverNerTask(name="naver-ner", max_length=128, labels=NAVER_LABELS),
)
