"""Defines `Kind`: what the package knows about one kind of model.

The modules of this package import neither Keras nor TensorFlow before a loss is needed, so that a
server without them can compute answers.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bert_keras.config import ModelMetadata
from bert_keras.errors import InputError, quoted

if TYPE_CHECKING:
    from bert_keras.data.encoded import Encoded
    from bert_keras.data.preprocessor import Preprocessor
    from bert_keras.reports.evaluation import Findings


class Kind:
    """A kind of model: its heads, its names in checkpoints, and what it does with texts.

    The class attributes are facts about the kind. An instance reads texts for one model.
    """

    model: ClassVar[str] = "model of an unknown class"  # name of the class, also in checkpoints
    module: ClassVar[str] = "bert_keras.models.task_models"  # the module that defines the class
    heads: ClassVar[tuple[str, ...]] = ()  # their names in the model and at the start of weights
    is_labelled: ClassVar[bool] = False  # whether the model has one output for each label
    reads_pooled_output: ClassVar[bool] = False  # if False, the pooler is not trained
    student: ClassVar[str] = ""  # class of a distilled student, or "" if it is the same class

    # Names in checkpoints of other programs; "" if they have no such model.
    transformers_class: ClassVar[str] = ""  # the class name in transformers ends with it
    weight_names: ClassVar[Mapping[str, str]] = {}  # weights of the head -> names in transformers
    head_weight: ClassVar[str] = ""  # a checkpoint has the head if it has this weight
    google_weights: ClassVar[Mapping[str, str]] = {}  # weights of the head -> Google's names
    google_prefix: ClassVar[str] = ""  # Google's variables of the head start with it
    keras_hub_class: ClassVar[str] = ""  # the class name in keras_hub ends with it

    signatures: ClassVar[str] = ""  # the module in exporting/signatures; "" if it is not served
    example_labels: ClassVar[str] = '["no", "yes"]'  # shown in error messages
    needs_labels: ClassVar[bool] = True  # whether `fit` needs labels beside the texts
    ids_rank: ClassVar[int] = 1  # axes of class ids: 1 for an id of each text, 2 of each token
    # A model without names of labels predicts one of the indices of this axis of `input_ids`.
    class_axis: ClassVar[int] = 1
    # The texts that `bert-keras predict` reads together; "" means a text for each task column.
    inputs: ClassVar[str] = ""
    answers_texts: ClassVar[bool] = False  # whether `predict` answers texts

    def __init__(self, metadata: ModelMetadata, tokenizer: Any):
        self.metadata, self.tokenizer = metadata, tokenizer  # None where only labels are read

    @property
    def preprocessor(self) -> "Preprocessor":
        """Converts texts to the inputs of the model."""
        from bert_keras.data.preprocessor import Preprocessor

        return Preprocessor(self.tokenizer, max_length=self.metadata.max_length)

    @classmethod
    def check_new_labels(cls, labels: Sequence[str], *, source: str) -> None:
        """Raises InputError if a new head cannot have these labels; `source` is the old class."""
        if len(labels) < 2:
            raise InputError(
                f"the checkpoint has a {source}; for a new head of {cls.model} add two or more "
                f"labels: labels={cls.example_labels}"
            )

    def for_labels(self, labels: Any) -> "Kind":
        """Returns the kind for texts with these labels; see `Classifier`."""
        return self

    def encoded(self, columns: Sequence[list], labels: Any = None) -> "Encoded":
        """Returns the rows of columns of texts, with targets if there are labels."""
        rows = self.preprocessor.encoded(columns)
        shape = len(rows), rows.num_sequences
        targets = None if labels is None else self.targets(labels, shape)
        return dataclasses.replace(rows, targets=targets)

    def targets(self, labels: Any, shape: Sequence = ()) -> Any:
        """Returns the targets of the loss for labels; `shape` is the shape of `input_ids`."""
        if isinstance(labels, Mapping):  # the labels of each output
            return {name: self.targets(each, shape) for name, each in labels.items()}
        if not self.needs_labels:
            return finite_numbers(labels)
        count = len(self.metadata.labels) or shape[self.class_axis]
        return class_ids(labels, count=count, rank=self.ids_rank)

    def class_weights(self, weights: Mapping) -> dict:
        """Returns the weights of labels by their ids; raises InputError if there are no classes."""
        raise InputError(f"{self.model} takes no weights for these labels")

    def compile_arguments(self) -> dict[str, Any]:
        """Returns the loss and the metrics for `model.compile`."""
        raise InputError(f"{self.model} has no default loss for texts; compile it with a loss")

    def answers(self, columns: Sequence[list], rows: "Encoded", outputs: Sequence) -> Any:
        """Returns the answer for each text of `columns`, whose rows `encoded` returned.

        `outputs` has the model's output for each row: a float32 array or a dict of float32 arrays.
        The axis of tokens may be padded.
        """
        raise NotImplementedError

    def outputs(self, inputs: Mapping[str, np.ndarray], logits: Any) -> dict:
        """Returns the outputs of an export's signature `tensors` for B examples.

        `inputs` are the model's inputs. `logits` are its outputs, float32 arrays or dicts of them.
        """
        raise NotImplementedError

    @classmethod
    def columns_of_arguments(
        cls, texts: Sequence[str], *, num_columns: int, source: str
    ) -> tuple[list[str], ...]:
        """Divides the texts of a command line into columns; `num_columns` is 0 if unknown."""
        size = max(1, num_columns, len(cls.inputs.split()))
        if len(texts) % size:
            raise InputError(f"{source} takes {size} texts together, but received {len(texts)}")
        return tuple(list(texts[first::size]) for first in range(size))

    @classmethod
    def ask(cls, model: Any, columns: tuple[list[str], ...]) -> list[tuple[str, dict]]:
        """Returns, for each row of `columns`, its texts in one line and the model's answer."""
        answers = model.predict(columns if len(columns) > 1 else next(iter(columns)), verbose=0)
        lines = [" | ".join(texts) for texts in zip(*columns, strict=True)]
        return list(zip(lines, answers, strict=True))

    @classmethod
    def lines(cls, answer: dict) -> list[str]:
        """Returns the lines that the command line prints for an answer."""
        return [f"{value:.3f}" for value in answer.values()]

    @classmethod
    def findings(cls, task: Any, examples: Sequence, predictions: Sequence) -> "Findings":
        """Returns the tables of an evaluation page; `task` gives the labels and the metric."""
        raise NotImplementedError


def softmax(logits: np.ndarray) -> np.ndarray:
    """Returns the softmax over the last axis, in the dtype of the logits."""
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def columns_of_answers(answers: Sequence[Mapping]) -> dict[str, list]:
    """Returns a list for each name in the answers, with an item for each answer."""
    return {name: [answer[name] for answer in answers] for name in answers[0]}


def finite_numbers(values: Any, *, name: str = "labels", least: float = -np.inf) -> np.ndarray:
    """Returns values as float32; raises InputError unless all are finite and at least `least`."""
    try:
        array = np.asarray(values, np.float32)
    except (TypeError, ValueError):  # not numbers, or rows of different lengths
        array = np.array([np.nan])
    wrong = array[~(np.isfinite(array) & (array >= least))]
    if len(wrong):
        expected = "finite numbers of at least 0" if least == 0 else "finite numbers"
        raise InputError(f"{name} are {quoted(values)} with {wrong[0]}; expected {expected}")
    return array


def class_ids(
    labels: Any, *, count: int, rank: int = 1, names_as_numbers: Sequence[float] = ()
) -> np.ndarray:
    """Returns class ids as int32, and arrays of a number for each class as float32.

    Args:
        labels: Ids, or numbers of one more axis than ids have.
        count: The number of classes.
        rank: The number of axes of ids.
        names_as_numbers: The numbers that the names of the classes are, such as 5.0 for "5". An id
            that could also be the name of another class is refused.
    """
    numbers = finite_numbers(labels)
    if numbers.ndim == rank + 1 and numbers.shape[-1] == 1:
        numbers = numbers[..., 0]
    if numbers.ndim > rank:
        return numbers
    ids, also = set(numbers.ravel().tolist()), ""
    wrong = ids - set(range(count))
    if ids <= set(names_as_numbers):
        wrong = {each for each in ids if names_as_numbers.index(each) != each}
        also = ", an id and also the name of another label"
    if wrong:
        expected = f"ids from 0 to {count - 1} or names as strings; a regression needs labels=1"
        raise InputError(f"a label is {min(wrong):g}{also}; expected {expected}")
    return numbers.astype(np.int32)
