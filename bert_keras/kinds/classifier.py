"""One class, several classes or a number for a text or pair (Devlin et al. 2018, section 4.1)."""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bert_keras.config import SIGMOID, ModelMetadata, numbered_labels
from bert_keras.errors import InputError, check_name, listed, quoted
from bert_keras.kinds.kind import Kind, class_ids, columns_of_answers, finite_numbers, softmax
from bert_keras.text.columns import as_list, check_num_columns, is_text

Label = str | tuple[str, ...] | float

_NUMBER = re.compile(r"-?\d+(\.\d+)?")


class LabelPrediction(NamedTuple):
    """The predicted label of an example."""

    label: Label
    probabilities: Sequence[float] | np.ndarray = ()  # float32 [num_labels]; () for a number


class LabelScheme:
    """Single-label classification; subclasses handle several labels and numbers."""

    problem_type = ""  # as in the model metadata
    metric_names: tuple[str, ...] = ("accuracy", "macro_f1")  # the first chooses the checkpoint
    error_columns = ("gold", "predicted", "probability")  # headings of the cells of `error_row`
    error_order_caption = "the most probable predictions first"

    def read(self, text: str, *, location: str) -> Any:
        """Returns the label that a text states; raises InputError if it is not a valid label."""
        name = text.strip()
        if not name or {"\t", "\n"} & {*name}:
            expected = "the name of a class, without tabs and line ends"
            raise InputError(f"{location} has the label {quoted(text)}; expected {expected}")
        return name

    def to_text(self, label: Any) -> str:
        """Returns the text from which `read` returns the label."""
        return str(label)

    def names(self, label: Any) -> tuple[str, ...]:
        """Returns the names of the classes in a label."""
        return (label,)

    def choose_classes(self, labels: Sequence, *, column: str, file: str) -> tuple[str, ...]:
        """Returns the sorted classes in the column of a training file."""
        names = [name for label in labels for name in self.names(label)]
        classes = sorted(set(names))
        if all(map(_NUMBER.fullmatch, classes)):
            classes.sort(key=float)
        # If almost every row has a label of its own, the column is probably the wrong one.
        if len(classes) < 2 or (len(names) >= 20 and len(classes) >= 0.9 * len(names)):
            found = f"{len(classes):,} labels in {len(labels):,} rows"
            found = f"only the label {classes[0]!r}" if len(classes) == 1 else found
            raise InputError(
                f"{file} has {found} in the column {column!r}; expected at least two classes that "
                "repeat; if this is the wrong column, pass --set label_column='NAME'"
            )
        return tuple(classes)

    def check(self, label: Any, classes: Sequence[str], *, location: str) -> None:
        """Raises InputError for a label with a class that is not in `classes`."""
        for name in self.names(label):
            if name not in classes:
                known = listed(list(classes), most=20, mark=", ")
                raise InputError(f"{location} has the unknown label {quoted(name)}; known: {known}")

    def targets(self, labels: Sequence, classes: Sequence[str]) -> np.ndarray:
        """Returns class ids int32 [N], or float32 [N, num_labels]; the label None gets zeros."""
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

    def error_row(self, gold: Any, prediction: LabelPrediction) -> tuple[float, list]:
        """Returns the severity, which is 0 for a correct prediction, and the table cells."""
        probability = float(max(prediction.probabilities))
        severity = probability if gold != prediction.label else 0.0
        return severity, [gold, prediction.label, probability]


class MultiLabel(LabelScheme):
    """Any number of classes, with commas in a file; predicted if the probability is 0.5 or more."""

    problem_type = "multi_label_classification"
    metric_names = ("micro_f1_of_labels", "macro_f1_of_labels", "subset_accuracy")
    error_columns = ("correct", "missing", "wrong")
    error_order_caption = "the most wrong labels first"

    def read(self, text: str, *, location: str):
        names = text.split(",") if text.strip() else ()
        labels = tuple(SINGLE_LABEL.read(name, location=location) for name in names)
        if len(set(labels)) < len(labels):
            raise InputError(f"{location} has the labels {text!r}; expected each once")
        return labels

    def to_text(self, label: tuple[str, ...]):
        return ",".join(label)

    def names(self, label: Any):
        return label if isinstance(label, (list, tuple)) else (label,)

    def targets(self, labels: Sequence, classes: Sequence[str]):
        rows = [[float(name in (label or ())) for name in classes] for label in labels]
        return np.array(rows, np.float32)

    def compile_arguments(self):
        import keras

        # A logit of 0 is a probability of 0.5.
        metrics = [keras.metrics.BinaryAccuracy(threshold=0.0)]
        return {"loss": keras.losses.BinaryCrossentropy(from_logits=True), "metrics": metrics}

    def prediction(self, logits: np.ndarray, classes: Sequence[str]):
        label = tuple(name for name, logit in zip(classes, logits, strict=True) if logit >= 0)
        return LabelPrediction(label, _sigmoid(logits))

    def error_row(self, gold: Any, prediction: LabelPrediction):
        gold, predicted = set(gold), set(self.names(prediction.label))
        parts = (gold & predicted, gold - predicted, predicted - gold)
        return len(gold ^ predicted), [", ".join(sorted(labels)) for labels in parts]


class Regression(LabelScheme):
    """A number for each example."""

    problem_type = "regression"
    metric_names = ("pearson_and_spearman", "pearson", "spearman", "mean_squared_error")
    error_columns = ("gold", "predicted", "difference")
    error_order_caption = "the largest differences first"

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

    def choose_classes(self, labels: Sequence, *, column: str, file: str):
        return (column,)  # the output has the name of the column

    def targets(self, labels: Sequence, classes: Sequence[str]):
        return np.array([[0.0 if label is None else label] for label in labels], np.float32)

    def compile_arguments(self):
        import keras

        return {"loss": keras.losses.MeanSquaredError(), "metrics": ["mae"]}

    def prediction(self, logits: np.ndarray, classes: Sequence[str]):
        return LabelPrediction(float(logits[0]))

    def error_row(self, gold: Any, prediction: LabelPrediction):
        difference = prediction.label - gold
        return abs(difference), [f"{each:,.2f}" for each in (gold, prediction.label, difference)]


class SigmoidRegression(Regression):
    """A number from 0 to 1, the sigmoid of a logit, as in sentence-transformers' CrossEncoder."""

    problem_type = SIGMOID

    def compile_arguments(self):
        # CrossEncoder trains with binary cross-entropy on logits, as models of several labels do.
        return MULTI_LABEL.compile_arguments()

    def prediction(self, logits: np.ndarray, classes: Sequence[str]):
        return LabelPrediction(float(_sigmoid(logits)[0]))


SINGLE_LABEL, MULTI_LABEL, REGRESSION = LabelScheme(), MultiLabel(), Regression()
# Values of the setting `kind` of ClassificationTask, which are kinds of labels -> scheme
LABEL_SCHEMES = {"one": SINGLE_LABEL, "many": MULTI_LABEL, "number": REGRESSION}
LABEL_SCHEMES |= {"probability": SigmoidRegression()}


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    return 0.5 * (1.0 + np.tanh(0.5 * logits))  # without overflow


def label_scheme(metadata: ModelMetadata) -> LabelScheme:
    """Returns a model's label scheme; one label without a `problem_type` means regression."""
    if not metadata.problem_type and len(metadata.labels) == 1:
        return REGRESSION
    schemes = {scheme.problem_type: scheme for scheme in LABEL_SCHEMES.values()}
    return schemes.get(metadata.problem_type, SINGLE_LABEL)


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
        if labels != numbered_labels(1):  # the placeholder label of a regression needs no check
            super().check_new_labels(labels, source=source)

    def for_labels(self, labels: Any) -> "Classifier":
        """Returns a multi-label Classifier if each label is a list of names, otherwise itself."""
        values = as_list(labels)
        if not is_text(values) or not all(isinstance(value, (list, tuple)) for value in values):
            return self
        if commas := [name for name in self.metadata.labels if "," in name]:
            raise InputError(f"the label {commas[0]!r} has a comma, which separates several labels")
        metadata = dataclasses.replace(self.metadata, problem_type=MULTI_LABEL.problem_type)
        return Classifier(metadata, self.tokenizer)

    def encoded(self, columns: Sequence[list], labels: Any = None):
        # With labels, fit may read other columns; the model then forgets its column names.
        if labels is None and (names := self.metadata.text_columns):
            check_num_columns(columns, len(names), len(names))
        return super().encoded(columns, labels)

    def targets(self, labels: Any, shape: Sequence = ()):
        """Returns class ids or floats; refuses an id that could also be a name, such as "1"."""
        names, scheme = self.metadata.labels, label_scheme(self.metadata)
        values = [
            scheme.read(value, location=f"text [{index}]") if isinstance(value, str) else value
            for index, value in enumerate(as_list(labels))
        ]
        if is_text(values):
            for index, value in enumerate(values):
                scheme.check(value, names, location=f"text [{index}]")
            return scheme.targets(values, names)
        if scheme is not SINGLE_LABEL:
            return finite_numbers(values)
        names_as_numbers = [float(name) if _NUMBER.fullmatch(name) else math.nan for name in names]
        return class_ids(values, count=len(names), names_as_numbers=names_as_numbers)

    def class_weights(self, weights: Mapping):
        names = self.metadata.labels
        if label_scheme(self.metadata) is MULTI_LABEL:
            return super().class_weights(weights)  # raises InputError
        if isinstance(label_scheme(self.metadata), Regression):
            return weights  # the user's own loss may read the one label as classes 0 and 1
        for label in weights:
            check_name(label, (*names, *range(len(names))), what="label")
        return {i: weights.get(name, weights.get(i, 1.0)) for i, name in enumerate(names)}

    def compile_arguments(self):
        return label_scheme(self.metadata).compile_arguments()

    def answers(self, columns: Sequence[list], rows: Any, outputs: Sequence):
        scheme, labels = label_scheme(self.metadata), self.metadata.labels
        predictions = [scheme.prediction(logits, labels) for logits in outputs]
        if isinstance(scheme, Regression):
            return [{"score": each.label} for each in predictions]
        return [
            {
                "label": scheme.to_text(each.label),
                "labels": list(labels),
                "probabilities": np.asarray(each.probabilities).tolist(),
            }
            for each in predictions
        ]

    def outputs(self, inputs: Mapping[str, np.ndarray], logits: Any) -> dict:
        return columns_of_answers(self.answers((), None, logits))

    @classmethod
    def lines(cls, answer: dict):
        if "label" not in answer:
            return super().lines(answer)
        probabilities = dict(zip(answer["labels"], answer["probabilities"], strict=True))
        label = answer["label"]
        # Several labels are joined by commas, but the name of one class may contain a comma too.
        names = [label] if label in probabilities else label.split(",")
        texts = [f"{name} {probabilities[name]:.3f}" for name in names if name]
        return [", ".join(texts) or "no label"]

    @classmethod
    def findings(cls, task: Any, examples: Sequence, predictions: Sequence):
        from bert_keras.reports import evaluation

        scheme, name_pairs, errors = task.label_scheme, [], []
        for example, prediction in zip(examples, predictions, strict=True):
            name_pairs.append((scheme.names(example.label), scheme.names(prediction.label)))
            severity, cells = scheme.error_row(example.label, prediction)
            if severity:
                errors.append((severity, [*evaluation.example_cells(example), *cells]))
        sections = []
        if scheme is SINGLE_LABEL and len(task.labels) <= evaluation.MAX_LABELS:
            pairs = [(gold, predicted) for (gold,), (predicted,) in name_pairs]
            sections.append(evaluation.confusion_matrix("Confusion", pairs, task.labels))
        if not isinstance(scheme, Regression):
            sets = [(set(gold), set(predicted)) for gold, predicted in name_pairs]
            sections.append(evaluation.label_scores("Labels", sets))
        columns = ["example", *task.text_columns, *scheme.error_columns]
        return evaluation.Findings(sections, columns, errors, scheme.error_order_caption)
