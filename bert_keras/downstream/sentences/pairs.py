"""Defines the task `sentence-pairs`: embeddings whose cosine agrees with a score of similarity."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from bert_keras.downstream.classification import FILES
from bert_keras.downstream.label_kinds import Number
from bert_keras.downstream.label_scores import correlation
from bert_keras.downstream.sentences.encoding import encoded_groups
from bert_keras.downstream.sentences.ranking import unit_vectors
from bert_keras.downstream.sentences.task import Losses, SentenceTask, required_text, score_name
from bert_keras.downstream.table import read_numbered, table_rows, write_numbered
from bert_keras.downstream.task import (
    Encoded,
    Outputs,
    data_files,
    needs_labels,
    no_labels_error,
)
from bert_keras.downstream.tfds import is_tfds, tfds_files
from bert_keras.errors import InputError, check_range, counted
from bert_keras.files import StrPath
from bert_keras.text.tokenizer import TextTokenizer
from bert_keras.training.sentence_losses import CoSENTLoss, CosineSimilarityLoss

PREDICTIONS_HEADER = ("index", "cosine")


class SentencePair(NamedTuple):
    """Two texts and the score of their similarity."""

    texts: tuple[str, str]
    score: float | None  # None if the row has no score
    location: str  # where the row was read, as "FILE, line N"


@dataclass(frozen=True, slots=True)
class PairCosine:
    """The cosine of the embeddings of a pair."""

    cosine: float
    smaller: dict[int, float] = field(default_factory=dict)  # of embeddings cut to that size


@dataclass(frozen=True, kw_only=True)
class SentencePairsTask(SentenceTask[SentencePair, PairCosine]):
    """Semantic textual similarity, such as STS-B."""

    text_columns: tuple[str, ...] = ("sentence1", "sentence2")
    score_column: str = "score"
    # The score of equal texts. The loss "cosine" compares the cosine with score / max_score; the
    # loss "cosent" compares only the order of scores.
    max_score: float = 1.0
    loss: str = "cosent"

    metric: ClassVar[str] = "spearman"
    losses: ClassVar[Losses] = {"cosent": CoSENTLoss, "cosine": CosineSimilarityLoss}

    def __post_init__(self):
        super().__post_init__()
        if len(self.text_columns) != 2:
            raise InputError(
                f"text_columns has {counted(len(self.text_columns), 'name')}; expected 2"
            )
        check_range(self, "a number above 0", "max_score")

    def files(self, data: StrPath) -> dict[str, str]:
        """Returns the files of the splits "train", "dev" and, if it exists, "test".

        Files end in .tsv, .csv or .jsonl, such as those of GLUE's folder STS-B.
        """
        return tfds_files(data) if is_tfds(data) else data_files(data, names=FILES)

    def read(self, path: StrPath, *, split: str = "train") -> list[SentencePair]:
        """Reads pairs; each row of "train" and "dev" must have a score.

        Raises:
            InputError: A text is empty, or a score is missing or invalid.
        """
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
        if self.loss == "cosine" and abs(score) > self.max_score:
            raise InputError(
                f"{location} has the score {score:g}, which is above max_score={self.max_score:g}; "
                "set max_score to the score of equal texts"
            )
        return score

    def encode(self, examples: Sequence[SentencePair], tokenizer: TextTokenizer) -> Encoded:
        """Encodes the pairs; a batch has inputs of shape [B, 2, T]."""
        scores = np.array([each.score or 0.0 for each in examples], np.float32)
        return encoded_groups(
            [each.texts for each in examples],
            scores / np.float32(self.max_score),
            tokenizer,
            max_length=self.max_length,
        )

    def predictions(
        self, examples: Sequence[SentencePair], encoded: Encoded, outputs: Outputs
    ) -> list[PairCosine]:
        vectors_N2E = np.asarray(outputs).reshape(len(examples), 2, -1)
        sizes = self.smaller_dimensions(vectors_N2E.shape[2])
        smaller = {size: _cosines(vectors_N2E, dimensions=size) for size in sizes}
        return [
            PairCosine(cosine, {size: cosines[row] for size, cosines in smaller.items()})
            for row, cosine in enumerate(_cosines(vectors_N2E))
        ]

    def check_labels(self, examples: Sequence[SentencePair]) -> None:
        for each in examples:
            if each.score is None:
                raise no_labels_error(each.location)

    def score(
        self, examples: Sequence[SentencePair], predictions: Sequence[PairCosine]
    ) -> dict[str, float]:
        """Returns `spearman` and `pearson`, and both for each smaller size, as `spearman_64d`."""
        self.check_labels(examples)
        gold = [each.score for each in examples]
        scores = _correlations(gold, [each.cosine for each in predictions])
        for size in predictions[0].smaller:
            cut = _correlations(gold, [each.smaller[size] for each in predictions])
            scores |= {score_name(name, size): value for name, value in cut.items()}
        return scores

    def write_predictions(
        self, path: StrPath, examples: Sequence[SentencePair], predictions: Sequence[PairCosine]
    ) -> None:
        """Writes a TSV with the columns index (from 0), cosine, and cosine_64d for a size of 64."""
        names = [score_name("cosine", size) for size in predictions[0].smaller]
        rows = [[str(p.cosine), *map(str, p.smaller.values())] for p in predictions]
        write_numbered(path, rows, header=(*PREDICTIONS_HEADER, *names))

    def read_predictions(self, path: StrPath, examples: Sequence[SentencePair]) -> list[PairCosine]:
        """Reads the cosines of a file, without those of smaller sizes."""
        rows = read_numbered(path, header=PREDICTIONS_HEADER, num_rows=len(examples))
        return [
            PairCosine(Number().read(columns[0], location=location)) for location, columns in rows
        ]


def _cosines(vectors_N2E: np.ndarray, *, dimensions: int | None = None) -> list[float]:
    units_N2E = unit_vectors(vectors_N2E, dimensions=dimensions)
    return (units_N2E[:, 0] * units_N2E[:, 1]).sum(axis=1).tolist()


def _correlations(gold: Sequence, cosines: Sequence[float]) -> dict[str, float]:
    return {
        name: correlation(gold, cosines, function=f"{name}r") for name in ("spearman", "pearson")
    }


SENTENCE_PAIRS_TASK = SentencePairsTask(name="sentence-pairs")
