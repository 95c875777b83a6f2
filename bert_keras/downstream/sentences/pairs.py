"""Defines `sentence-pairs` and `simcse`: embeddings whose cosine agrees with a similarity."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from bert_keras.downstream.labels import SCORES, Number
from bert_keras.downstream.sentences.task import (
    DistinctSentenceGroups,
    Losses,
    SentencePrediction,
    SentenceTask,
    encoded_groups,
    encoded_sentences,
    required_text,
    score_name,
)
from bert_keras.downstream.table import table_rows
from bert_keras.downstream.task import Encoded, FileNames, Scores, Task, needs_labels
from bert_keras.downstream.tfds import is_tfds
from bert_keras.errors import check, check_range
from bert_keras.files import StrPath, text_lines
from bert_keras.text.tokenizer import TextTokenizer
from bert_keras.training.sentence_losses import (
    CoSENTLoss,
    CosineSimilarityLoss,
    MultipleNegativesRankingLoss,
)


class SentencePair(NamedTuple):
    """Two texts and the score of their similarity."""

    texts: tuple[str, str]
    score: float | None  # None if the row has no score
    location: str  # where the row was read, as "FILE, line N"


Pairs = Sequence[SentencePair]


@dataclass(frozen=True, kw_only=True)
class SentencePairsTask(SentenceTask[SentencePair]):
    """Semantic textual similarity, such as STS-B."""

    text_columns: tuple[str, ...] = ("sentence1", "sentence2")
    score_column: str = "score"
    # The score of equal texts. The loss "cosine" compares the cosine with score / max_score; the
    # loss "cosent" compares only the order of scores.
    max_score: float = 1.0
    loss: str = "cosent"

    metric: ClassVar[str] = "spearman"
    label_field: ClassVar[str] = "score"
    prediction_header: ClassVar[tuple[str, ...]] = ("index", "cosine")
    losses: ClassVar[Losses] = {"cosent": CoSENTLoss, "cosine": CosineSimilarityLoss}

    def __post_init__(self):
        super().__post_init__()
        check(len(self.text_columns) == 2, f"text_columns is {self.text_columns}; expected 2 names")
        check_range(self, "a number above 0", "max_score")

    def read(self, path: StrPath, *, split: str = "train") -> list[SentencePair]:
        """Reads pairs from a table; each row of "train" and "dev" must have a score."""
        is_labelled = needs_labels(split)
        columns = (*self.text_columns, *([self.score_column] if is_labelled else []))
        pairs = []
        for location, values in table_rows(path, columns=columns):
            first, second = (required_text(values, c, location=location) for c in self.text_columns)
            text = values.get(self.score_column, "")
            score = self._score(text, location) if text or is_labelled else None
            pairs.append(SentencePair((first, second), score, location))
        return pairs

    def _score(self, text: str, location: str) -> float:
        score = Number().read(text, location=location)
        is_valid = self.loss != "cosine" or abs(score) <= self.max_score
        remedy = "set max_score to the score of equal texts"
        check(is_valid, f"{location} has the score {score:g}, above max_score; {remedy}")
        return score

    def encode(self, examples: Pairs, tokenizer: TextTokenizer) -> Encoded:
        """Encodes the pairs; a batch has inputs of shape [B, 2, T]."""
        scores = np.array([each.score or 0.0 for each in examples], np.float32)
        return encoded_groups(
            [each.texts for each in examples],
            scores / np.float32(self.max_score),
            tokenizer,
            max_length=self.max_length,
        )

    def compared(self, examples: Pairs, encoded: Encoded, units: np.ndarray) -> list[float]:
        """Returns the cosine of each pair."""
        units_N2E = units.reshape(len(examples), 2, -1)
        return (units_N2E[:, 0] * units_N2E[:, 1]).sum(axis=1).tolist()

    def scores_of(self, examples: Pairs, values: Sequence[float]) -> Scores:
        """Returns the correlations of scores and cosines."""
        gold, names = [each.score for each in examples], ("spearman", "pearson")
        return {name: SCORES[name](gold, values) for name in names}

    def prediction_row(self, prediction: SentencePrediction) -> list[str]:
        return [str(prediction.value), *map(str, prediction.smaller.values())]

    def more_columns(self, prediction: SentencePrediction) -> list[str]:
        return [score_name("cosine", size) for size in prediction.smaller]

    def prediction_of(self, text: str, *, location: str) -> SentencePrediction:
        return SentencePrediction(Number().read(text, location=location))


@dataclass(frozen=True, kw_only=True)
class SimcseTask(SentencePairsTask):
    """Unsupervised SimCSE (Gao et al. 2021): the positive of a sentence is the sentence itself.

    The model embeds each training sentence twice, and dropout makes the two embeddings different.
    The other sentences of the batch are the negatives. Examples of "dev" are scored pairs, as in
    `sentence-pairs`.
    """

    max_length: int = 32  # maximum number of tokens of a text; longer texts lose their end
    text_column: str = "text"  # of a training table; a .txt file has a sentence on each line
    loss: str = "ranking"

    losses: ClassVar[Losses] = {"ranking": MultipleNegativesRankingLoss}
    file_names: ClassVar[FileNames] = {
        **Task.file_names,
        "train": ("train.txt", *Task.file_names["train"]),
    }

    def read(self, path: StrPath, *, split: str = "train") -> list[SentencePair]:
        """Reads sentences for "train", and otherwise pairs."""
        if split != "train":
            return super().read(path, split=split)
        rows = sentences(path, column=self.text_column)
        return [SentencePair((text, text), None, location) for location, text in rows]

    def encode(self, examples: Pairs, tokenizer: TextTokenizer) -> Encoded:
        return encoded_groups(
            [each.texts for each in examples],
            np.zeros(len(examples), np.float32),
            tokenizer,
            max_length=self.max_length,
            layout=DistinctSentenceGroups,
        )

    def encode_to_score(self, examples: Pairs, tokenizer: TextTokenizer) -> Encoded:
        """Encodes each text of the pairs as a row; the rows have no loss."""
        texts = [text for each in examples for text in each.texts]
        return encoded_sentences(texts, tokenizer, max_length=self.max_length)


def sentences(path: StrPath, *, column: str) -> list[tuple[str, str]]:
    """Returns the location and the text of each row of a table, or of each line of a .txt file."""
    if Path(path).suffix != ".txt" or is_tfds(path):
        return [
            (location, required_text(values, column, location=location))
            for location, values in table_rows(path, columns=[column])
        ]
    lines = enumerate(text_lines(path), start=1)
    rows = [(f"{path}, line {number}", line) for number, line in lines if line.strip()]
    check(rows, f"{path} is empty; expected one text on each line")
    return rows


SENTENCE_PAIRS_TASK = SentencePairsTask(name="sentence-pairs")
SIMCSE_TASK = SimcseTask(name="simcse")
