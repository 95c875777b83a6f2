"""Defines tasks that predict one class, several classes or a number for the texts of a table."""

import csv
import dataclasses
import io
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from bert_keras.data.encoded import EncodedTexts
from bert_keras.downstream.table import required_text, table_rows
from bert_keras.downstream.task import Outputs, Scores, Task, needs_labels
from bert_keras.errors import InputError, check_choice, check_least
from bert_keras.fields import setting
from bert_keras.files import StrPath, write_text
from bert_keras.kinds.classifier import LABEL_SCHEMES, Label, LabelPrediction, LabelScheme
from bert_keras.text.tokenizer import TextTokenizer


def accuracy(gold: Iterable, predicted: Iterable) -> float:
    """Returns the fraction of examples with the right label."""
    return float(np.mean([one == other for one, other in zip(gold, predicted, strict=True)]))


def f1(gold: Any, predicted: Any, **details: Any) -> float:
    """Returns scikit-learn's F1 score over the labels that occur in `gold` or `predicted`."""
    from sklearn.metrics import f1_score

    return float(f1_score(gold, predicted, zero_division=0.0, **details))


def matthews(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Returns Matthews' correlation coefficient; 0 if only one label is predicted."""
    from sklearn.metrics import matthews_corrcoef

    if len({*gold, *predicted}) == 1:
        return 0.0  # scikit-learn returns it too, but also warns
    return float(matthews_corrcoef(gold, predicted))


def correlation(gold: Sequence[float], predicted: Sequence[float], *, function: str) -> float:
    """Returns a correlation of `scipy.stats`; 0 if all numbers are equal, where SciPy gives NaN."""
    import scipy.stats

    if np.ptp(gold) == 0 or np.ptp(predicted) == 0:
        return 0.0
    return float(getattr(scipy.stats, function)(predicted, gold)[0])


def f1_of_sets(gold: Sequence[tuple], predicted: Sequence[tuple], *, average: str) -> float:
    """Returns the "micro" or "macro" F1 score; each example has any number of labels."""
    labels = sorted(set(chain(*gold, *predicted)))
    if not labels:
        return 1.0  # no label is expected and none is predicted

    def has_label(sets: Sequence[tuple]) -> np.ndarray:  # 0 or 1, [N, L]
        return np.array([[label in each for label in labels] for each in sets], int)

    classes = [1] if len(labels) == 1 else None  # scikit-learn would average over the class 0 too
    return f1(has_label(gold), has_label(predicted), average=average, labels=classes)


def _mean_score(gold: Sequence, predicted: Sequence, *, names: Sequence[str]) -> float:
    return float(np.mean([SCORES[name](gold, predicted) for name in names]))


SCORES: dict[str, Callable[..., float]] = {
    "accuracy": accuracy,
    "f1": partial(f1, pos_label="1"),  # MRPC and QQP: the label of equivalent texts
    "macro_f1": partial(f1, average="macro"),
    "matthews": matthews,
    "pearson": partial(correlation, function="pearsonr"),
    "spearman": partial(correlation, function="spearmanr"),
    # KLUE-STS: texts are similar from 3 of 5 (KLUE-baseline, metrics/functional.py, klue_sts_f1).
    "f1_of_similar": lambda gold, predicted: f1(np.array(gold) >= 3, np.array(predicted) >= 3),
    "mean_squared_error": lambda gold, predicted: float(np.mean(np.subtract(gold, predicted) ** 2)),
    "micro_f1_of_labels": partial(f1_of_sets, average="micro"),
    "macro_f1_of_labels": partial(f1_of_sets, average="macro"),
    "subset_accuracy": lambda gold, predicted: accuracy(map(set, gold), map(set, predicted)),
    # GLUE's overall score uses the mean for a task with two metrics.
    "accuracy_and_f1": partial(_mean_score, names=("accuracy", "f1")),
    "pearson_and_spearman": partial(_mean_score, names=("pearson", "spearman")),
}


class TextExample(NamedTuple):
    """One row of a table: one or two texts and their label."""

    texts: tuple[str, ...]
    label: Label | None  # None if the row has no label
    location: str  # where the row was read, as "FILE, line N"


Examples = Sequence[TextExample]


@dataclass(frozen=True, kw_only=True)
class ClassificationTask(Task[TextExample, EncodedTexts, LabelPrediction]):
    """Classification or regression of texts or pairs of texts."""

    kind: str = setting("one", 'kind of label: "one", "many", "number" or "probability"')
    max_length: int = setting(128, "maximum number of tokens of a row, special tokens included")
    text_columns: tuple[str, ...] = setting(("text",), "columns of one text or two")
    label_column: str = setting("label", "column of the labels")

    model: ClassVar[str] = "BertClassifier"

    def __post_init__(self):
        num_texts = len(self.text_columns)
        if num_texts not in (1, 2) or self.label_column in self.text_columns:
            expected = f"expected one or two, without the label column {self.label_column!r}"
            raise InputError(f"text_columns are {', '.join(self.text_columns)}; {expected}")
        check_choice(self, "kind", LABEL_SCHEMES)
        check_least(self, 2 + num_texts, "max_length")

    @property
    def label_scheme(self) -> LabelScheme:
        return LABEL_SCHEMES[self.kind]

    @property
    def problem_type(self) -> str:
        return self.label_scheme.problem_type

    @property
    def input_names(self) -> tuple[str, ...]:
        return self.text_columns

    @property
    def scores(self) -> tuple[str, ...]:
        """Names in SCORES; the first chooses the best checkpoint."""
        return self.label_scheme.metric_names

    @property
    def metric(self) -> str:
        return self.scores[0]

    def read(self, path: StrPath, *, split: str = "train") -> list[TextExample]:
        """Reads the rows of a table; a label must be one of `labels` if these are set."""
        is_labelled = needs_labels(split)
        columns = {"text_columns": self.text_columns}
        if is_labelled:
            columns["label_column"] = (self.label_column,)
        # Texts to predict may be plain lines.
        is_plain = Path(path).suffix == ".txt" and not is_labelled and len(self.text_columns) == 1
        rows = table_rows(
            path,
            columns=columns,
            headerless=self.text_columns if is_plain else (),
            lists=(self.label_column,) if self.kind == "many" else (),
            keeps_blank=not is_labelled,
        )
        examples = []
        for location, values in rows:
            texts = [values[column] for column in self.text_columns]
            if is_labelled:
                texts = [required_text(values, c, location=location) for c in self.text_columns]
            label = values.get(self.label_column)
            examples.append(self.example(texts, label, location=location, split=split))
        return examples

    def example(
        self, texts: Iterable[str], label: str | None, *, location: str, split: str
    ) -> TextExample:
        """Returns the example of a row.

        Args:
            texts: One or two texts.
            label: The text of the label; None if the table has no labels.
            location: Where the row was read, such as "FILE, line 2", for error messages.
            split: "train", "dev" or "test". The first two require a label.
        """
        texts = tuple(texts)
        is_blank = not (label or "").strip() and self.kind != "many"
        if label is None or (is_blank and not needs_labels(split)):
            return TextExample(texts, None, location)
        value = self.label_scheme.read(label, location=f"{location}, column {self.label_column!r}")
        if self.labels and needs_labels(split):
            self.label_scheme.check(value, self.labels, location=location)
        return TextExample(texts, value, location)

    def check_labels(self, examples: Examples) -> None:
        super().check_labels([each for each in examples if each.label != ()])  # () is valid here
        for each in examples:
            self.label_scheme.check(each.label, self.labels, location=each.location)

    def with_labels_of(self, examples: Examples) -> Self:
        if self.labels:
            return self
        labels = [example.label for example in examples]
        file = examples[0].location.rpartition(", ")[0]
        classes = self.label_scheme.choose_classes(labels, column=self.label_column, file=file)
        return dataclasses.replace(self, labels=classes)

    def encode(self, examples: Examples, tokenizer: TextTokenizer) -> EncodedTexts:
        columns = zip(*(example.texts for example in examples), strict=True)
        return EncodedTexts(
            texts=tuple(tokenizer.ids_batch(list(column)) for column in columns),
            targets=self.label_scheme.targets([each.label for each in examples], self.labels),
            max_length=self.max_length,
            vocabulary=tokenizer.vocabulary,
        )

    def compile_arguments(self) -> dict[str, Any]:
        return self.label_scheme.compile_arguments()

    def predictions(
        self, examples: Examples, encoded: EncodedTexts, outputs: Outputs
    ) -> list[LabelPrediction]:
        return [self.label_scheme.prediction(logits, self.labels) for logits in outputs]

    def score(self, examples: Examples, predictions: Sequence[LabelPrediction]) -> Scores:
        gold = [example.label for example in examples]
        predicted = [prediction.label for prediction in predictions]
        return {name: SCORES[name](gold, predicted) for name in self.scores}

    def baseline(self, train: Examples, dev: Examples) -> Scores:
        """Returns the accuracy of always predicting the most frequent label of `train`."""
        if self.kind != "one":
            return {}
        ((majority, _),) = Counter(each.label for each in train).most_common(1)
        return {"majority_accuracy": accuracy([each.label for each in dev], [majority] * len(dev))}

    def write_predictions(
        self, path: StrPath, examples: Examples, predictions: Sequence[LabelPrediction]
    ) -> None:
        """Writes a table of labels, probabilities of classes and texts, with commas for .csv."""
        classes = self.labels if len(predictions[0].probabilities) else ()
        rows = [("index", "prediction", *classes, *self.text_columns)]
        for index, (label, probabilities) in enumerate(predictions):
            decimals = (f"{each:.6f}" for each in probabilities)
            texts = (" ".join(text.split()) for text in examples[index].texts)  # without tabs
            rows.append((str(index), self.label_scheme.to_text(label), *decimals, *texts))
        text = io.StringIO()
        if Path(path).suffix == ".csv":
            csv.writer(text, lineterminator="\n").writerows(rows)
        else:
            text.writelines("\t".join(row) + "\n" for row in rows)
        write_text(path, text.getvalue())


TABLE_TASKS: dict[str, ClassificationTask] = {
    name: ClassificationTask(name=name, kind=kind)
    for name, kind in (("classification", "one"), ("multi-label", "many"), ("regression", "number"))
}
