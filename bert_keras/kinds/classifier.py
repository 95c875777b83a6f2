"""One class, several classes or a number for a text or pair (Devlin et al. 2018, section 4.1)."""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bert_keras.config import ModelMetadata, numbered_labels
from bert_keras.errors import InputError, check_name, counted, listed, quoted
from bert_keras.kinds.kind import Kind, class_ids, columns_of_answers, softmax
from bert_keras.text.columns import columns_of

Label = str | tuple[str, ...] | float

_NUMBER = re.compile(r"-?\d+(\.\d+)?")


class LabelPrediction(NamedTuple):
    """The predicted label of an example."""

    label: Label
    probabilities: Sequence[float] | np.ndarray = ()  # float32 [num_labels]; () for a number


class OneLabel:
    """Exactly one of several classes, in the order of the logits; other kinds of labels differ."""

    problem_type = ""  # as in the model metadata
    scores: tuple[str, ...] = ("accuracy", "macro_f1")  # the first chooses the best checkpoint
    error_columns = ("gold", "predicted", "probability")  # of the wrong predictions in a report
    error_order = "the most probable predictions first"

    def read(self, text: str, *, location: str) -> Any:
        """Returns the label of a text; raises InputError if it is not a label of this kind."""
        if not text.strip():
            raise InputError(f"{location} has an empty label; expected the name of a class")
        return text.strip()

    def to_text(self, label: Any) -> str:
        """Returns the text of a label, which `read` can read."""
        return str(label)

    def names(self, label: Any) -> tuple[str, ...]:
        """Returns the classes that a label consists of."""
        return (label,)

    def classes(self, labels: Sequence, *, column: str, file: str) -> tuple[str, ...]:
        """Returns the sorted classes of a training file, or the name of a column of numbers."""
        names = [name for label in labels for name in self.names(label)]
        classes = sorted({*names})
        if all(map(_NUMBER.fullmatch, classes)):
            classes.sort(key=float)
        if len(classes) < 2 or (len(names) >= 20 and len(classes) >= 0.9 * len(names)):
            found = f"{len(classes):,} labels in {len(labels):,} rows"
            found = f"only the label {classes[0]!r}" if len(classes) == 1 else found
            expected = "expected 2 or more that repeat, or label_column='NAME' (after --set)"
            raise InputError(f"{file} has {found} in the column {column!r}; {expected}")
        return tuple(classes)

    def check(self, label: Any, classes: Sequence[str], *, location: str) -> None:
        """Raises InputError for a label with a class that is not in `classes`."""
        for name in self.names(label):
            if name not in classes:
                known = listed([*classes], most=20, mark=", ")
                raise InputError(f"{location} has the unknown label {quoted(name)}; known: {known}")

    def targets(self, labels: Sequence, classes: Sequence[str]) -> np.ndarray:
        """Returns the targets of the loss, int32 [N] or float32 [N, num_labels]; 0 without one."""
        ids: dict[str | None, int] = {label: index for index, label in enumerate(classes)}
        return np.array([ids.get(label, 0) for label in labels], np.int32)

    def compile_arguments(self) -> dict[str, Any]:
        """Returns `loss` and `metrics` for `model.compile`."""
        import keras

        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return {"loss": loss, "metrics": ["accuracy"]}

    def prediction(self, logits: np.ndarray, classes: Sequence[str]) -> LabelPrediction:
        """Returns the prediction of an example from its logits, float32 [num_labels]."""
        return LabelPrediction(classes[int(logits.argmax())], softmax(logits))

    def error(self, gold: Any, prediction: LabelPrediction) -> tuple[float, list]:
        """Returns the weight of an error in a report, 0 without an error, and the table cells."""
        most = float(max(prediction.probabilities))
        return most if gold != prediction.label else 0.0, [gold, prediction.label, most]


class ManyLabels(OneLabel):
    """Any number of classes, separated by commas in a file; predicted from a probability of 0.5."""

    problem_type = "multi_label_classification"
    scores = ("micro_f1_of_labels", "macro_f1_of_labels", "subset_accuracy")
    error_columns = ("correct", "missing", "wrong")
    error_order = "the most wrong labels first"

    def read(self, text: str, *, location: str):
        labels = tuple(label.strip() for label in text.split(",")) if text.strip() else ()
        if "" in labels or len(set(labels)) < len(labels):
            raise InputError(f"{location} has the labels {text!r}; expected each once, none empty")
        return labels

    def to_text(self, label: tuple[str, ...]):
        return ",".join(label)

    def names(self, label: Any):
        return label

    def targets(self, labels: Sequence, classes: Sequence[str]):
        rows = [[float(each in (label or ())) for each in classes] for label in labels]
        return np.array(rows, np.float32)

    def compile_arguments(self):
        import keras

        # A logit of 0 is a probability of 0.5.
        metrics = [keras.metrics.BinaryAccuracy(threshold=0.0)]
        return {"loss": keras.losses.BinaryCrossentropy(from_logits=True), "metrics": metrics}

    def prediction(self, logits: np.ndarray, classes: Sequence[str]):
        probabilities = 0.5 * (1.0 + np.tanh(0.5 * logits))
        pairs = zip(classes, logits, strict=True)
        return LabelPrediction(tuple(label for label, logit in pairs if logit >= 0), probabilities)

    def error(self, gold: Any, prediction: LabelPrediction):
        gold, predicted = (set(self.names(each)) for each in (gold, prediction.label))
        parts = (gold & predicted, gold - predicted, predicted - gold)
        return len(gold ^ predicted), [", ".join(sorted(labels)) for labels in parts]


class Number(OneLabel):
    """A number, which is predicted by regression."""

    problem_type = "regression"
    scores = ("pearson_and_spearman", "pearson", "spearman", "mean_squared_error")
    error_columns = ("gold", "predicted", "difference")
    error_order = "the largest differences first"

    def read(self, text: str, *, location: str):
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise InputError(f"{location} has {quoted(text)}; expected a number such as 2.5")
        return value

    def names(self, label: Any):
        return ()

    def classes(self, labels: Sequence, *, column: str, file: str):
        return (column,)

    def targets(self, labels: Sequence, classes: Sequence[str]):
        return np.array([[0.0 if label is None else label] for label in labels], np.float32)

    def compile_arguments(self):
        import keras

        return {"loss": keras.losses.MeanSquaredError(), "metrics": ["mae"]}

    def prediction(self, logits: np.ndarray, classes: Sequence[str]):
        return LabelPrediction(float(logits[0]))

    def error(self, gold: Any, prediction: LabelPrediction):
        difference = prediction.label - gold
        return abs(difference), [f"{each:,.2f}" for each in (gold, prediction.label, difference)]


LABEL_KINDS: dict[str, OneLabel] = {"one": OneLabel(), "many": ManyLabels(), "number": Number()}


def label_kind(metadata: ModelMetadata) -> OneLabel:
    """Returns the rules of a model's labels; one label without a problem type is a number."""
    if not metadata.problem_type and len(metadata.labels) == 1:
        return LABEL_KINDS["number"]
    kinds = {kind.problem_type: kind for kind in LABEL_KINDS.values()}
    return kinds.get(metadata.problem_type, LABEL_KINDS["one"])


class Classifier(Kind):
    """Texts or pairs of texts with one label, several labels or a number each."""

    model = "BertClassifier"
    heads = ("classification",)
    is_labelled = True
    reads_pooled_output = True
    student = "BertEncoder"
    transformers_class = "ForSequenceClassification"
    weight_names: ClassVar = {"classification/dense": "classifier"}
    head_weight = "classification/dense/kernel"
    google_weights: ClassVar = {
        "classification/dense/kernel": "output_weights",
        "classification/dense/bias": "output_bias",
    }
    google_prefix = "output_weights"
    keras_hub_class = "TextClassifier"
    signatures = "classifier"
    answers_texts = True
    example_labels = '["no", "yes"], or labels=1 for numbers'

    @classmethod
    def check_new_labels(cls, labels: Sequence[str], *, source: str):
        if labels != numbered_labels(1):  # a regression
            super().check_new_labels(labels, source=source)

    def for_labels(self, labels: Any) -> "Classifier":
        """Returns the reader of texts with such labels: lists of names are several labels."""
        if not _are_lists_of_names(columns_of(labels)[0]):
            return self
        problem_type = LABEL_KINDS["many"].problem_type
        metadata = dataclasses.replace(self.metadata, problem_type=problem_type)
        return Classifier(metadata, self.tokenizer)

    def encoded(self, columns: Sequence[list], labels: Any = None):
        names, count = self.metadata.text_columns, len(columns)
        if labels is None and names and len(names) != count:
            form = "a list" if len(names) == 1 else "a tuple, (firsts, seconds)"
            found = f"the texts are {counted(count, 'list')}, and the model reads"
            raise InputError(f"{found} {' and '.join(names)}; expected {form}")
        return super().encoded(columns, labels)

    def targets(self, labels: Any):
        """Returns ids [N], or numbers or indicators of the labels [N, num_labels]."""
        (values,) = columns_of(labels)
        names, kind = self.metadata.labels, label_kind(self.metadata)
        if missing := [number for number, each in enumerate(values) if each is None]:
            raise InputError(f"text {missing[:1]} has the label None; leave such texts out")
        are_names = any(isinstance(each, str) for each in values) or _are_lists_of_names(values)
        if not are_names:
            is_id = kind is LABEL_KINDS["one"]
            return class_ids(labels, count=len(names)) if is_id else np.asarray(labels)
        for number, each in enumerate(values):
            location = f"text [{number}]"
            if isinstance(each, str):
                values[number] = kind.read(each, location=location)
            kind.check(values[number], names, location=location)
        return kind.targets(values, names)

    def class_weights(self, weights: Mapping):
        names = self.metadata.labels
        if label_kind(self.metadata) is not LABEL_KINDS["one"]:
            return super().class_weights(weights)
        for label in weights:
            check_name(label, (*names, *range(len(names))), what="label")
        return {n: weights.get(name, weights.get(n, 1.0)) for n, name in enumerate(names)}

    def compile_arguments(self):
        return label_kind(self.metadata).compile_arguments()

    def answers(self, columns: Sequence[list], rows: Any, outputs: Sequence):
        kind, labels = label_kind(self.metadata), self.metadata.labels
        predictions = [kind.prediction(logits, labels) for logits in outputs]
        if kind is LABEL_KINDS["number"]:
            return [{"score": each.label} for each in predictions]
        return [
            {"label": kind.to_text(each.label), "labels": [*labels]}
            | {"probabilities": np.asarray(each.probabilities).tolist()}
            for each in predictions
        ]

    def outputs(self, inputs: Mapping[str, np.ndarray], logits: Any) -> dict:
        return columns_of_answers(self.answers((), None, logits))

    @classmethod
    def lines(cls, answer: dict):
        if "label" not in answer:
            return super().lines(answer)
        pairs = dict(zip(answer["labels"], answer["probabilities"], strict=True))
        names = [answer["label"]] if answer["label"] in pairs else answer["label"].split(",")
        return [", ".join(f"{each} {pairs[each]:.3f}" for each in names if each) or "no label"]

    @classmethod
    def findings(cls, task: Any, examples: Sequence, predictions: Sequence):
        from bert_keras.reports import evaluation

        kind, names, errors = LABEL_KINDS[task.kind], [], []
        for example, prediction in zip(examples, predictions, strict=True):
            names.append((kind.names(example.label), kind.names(prediction.label)))
            weight, cells = kind.error(example.label, prediction)
            if weight:
                errors.append((weight, [*evaluation.example_cells(example), *cells]))
        sections = []
        if task.kind == "one" and len(task.labels) <= evaluation.MAX_LABELS:
            pairs = [(gold, predicted) for (gold,), (predicted,) in names]
            sections.append(evaluation.confusion_matrix("Confusion", pairs, task.labels))
        if task.kind != "number":
            sets = [(set(gold), set(predicted)) for gold, predicted in names]
            sections.append(evaluation.label_scores("Labels", sets))
        columns = ["example", *task.text_columns, *kind.error_columns]
        return evaluation.Findings(sections, columns, errors, kind.error_order)


def _are_lists_of_names(values: list) -> bool:
    are_lists = all(isinstance(each, (list, tuple, set)) for each in values)
    return are_lists and all(isinstance(name, str) for each in values for name in each)
