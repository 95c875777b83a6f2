"""Defines the task `sentence-pairs`: embeddings whose cosine agrees with a similarity."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from bert_keras.data.encoded import Encoded
from bert_keras.downstream.classification import SCORES
from bert_keras.downstream.sentences.task import SentenceTask
from bert_keras.downstream.table import required_text, table_rows
from bert_keras.downstream.task import Scores, needs_labels
from bert_keras.errors import InputError, check_range
from bert_keras.fields import setting
from bert_keras.files import StrPath, write_text
from bert_keras.kinds.classifier import REGRESSION
from bert_keras.text.tokenizer import TextTokenizer

if TYPE_CHECKING:
    from bert_keras.reports.evaluation import Findings


class SentencePair(NamedTuple):
    """Two texts and the score of their similarity."""

    texts: tuple[str, str]
    score: float | None  # None if the row has no score
    location: str  # where the row was read, as "FILE, line N"


Pairs = Sequence[SentencePair]


@dataclass(frozen=True, kw_only=True)
class SentencePairsTask(SentenceTask[SentencePair, float]):
    """Semantic textual similarity, such as STS-B; predictions are cosines."""

    text_columns: tuple[str, ...] = setting(("sentence1", "sentence2"), "columns of the two texts")
    score_column: str = setting("score", "column of their similarity")
    max_score: float = setting(1.0, 'score of equal texts, which the loss "cosine" uses')
    loss: str = setting("cosent", '"cosent" compares the order of scores, "cosine" their values')

    metric: ClassVar[str] = "spearman"
    label_field: ClassVar[str] = "score"
    losses: ClassVar[tuple[str, ...]] = ("cosent", "cosine")

    def __post_init__(self):
        super().__post_init__()
        check_range(self, "a number above 0", "max_score")

    def read(self, path: StrPath, *, split: str = "train") -> list[SentencePair]:
        """Reads pairs from a table; each row of "train" and "dev" must have a score."""
        columns, is_labelled = {"text_columns": self.text_columns}, needs_labels(split)
        if is_labelled:
            columns["score_column"] = (self.score_column,)
        pairs = []
        for location, values in table_rows(path, columns=columns, keeps_blank=not is_labelled):
            first, second = (required_text(values, c, location=location) for c in self.text_columns)
            text = values.get(self.score_column, "")
            score = REGRESSION.read(text, location=location) if text or is_labelled else None
            if self.loss == "cosine" and abs(score or 0) > self.max_score:
                raise InputError(f"{location} has the score {score}; set max_score to the largest")
            pairs.append(SentencePair((first, second), score, location))
        return pairs

    def encode(self, examples: Pairs, tokenizer: TextTokenizer) -> Encoded:
        """Encodes the pairs; a batch has inputs of shape [B, 2, T]."""
        scores = np.array([each.score or 0.0 for each in examples], np.float32)
        targets = scores / np.float32(self.max_score)
        return self.encode_groups([each.texts for each in examples], tokenizer, targets=targets)

    def compare(self, examples: Pairs, encoded: Encoded, units: np.ndarray) -> list[float]:
        return (units[:, 0] * units[:, 1]).sum(axis=1).tolist()

    def score(self, examples: Pairs, predictions: Sequence[float]) -> Scores:
        """Returns the correlations of scores and cosines."""
        gold, names = [each.score for each in examples], ("spearman", "pearson")
        return {name: SCORES[name](gold, predictions) for name in names}

    def findings(self, examples: Pairs, predictions: Sequence[float]) -> "Findings":
        """Returns the pairs whose ranks by score and by cosine differ."""
        from scipy.stats import rankdata

        from bert_keras.reports.evaluation import Findings, example_cells

        scores = [each.score or 0.0 for each in examples]
        numbers = zip(scores, predictions, rankdata(scores), rankdata(predictions), strict=True)
        errors = [
            (abs(each[3] - each[2]), [*example_cells(example), *map("{:,.2f}".format, each)])
            for example, each in zip(examples, numbers, strict=True)
            if each[2] != each[3]
        ]
        columns = ["example", *self.text_columns, "score", "cosine", "rank", "rank by cosine"]
        return Findings([], columns, errors, "the largest differences of the two ranks first")

    def write_predictions(
        self, path: StrPath, examples: Pairs, predictions: Sequence[float]
    ) -> None:
        rows = (f"{index}\t{cosine}\n" for index, cosine in enumerate(predictions))
        write_text(path, "index\tcosine\n" + "".join(rows))


SENTENCE_PAIRS_TASK = SentencePairsTask(name="sentence-pairs")
