"""Outputs of a served classifier from its logits: one label, several labels or a score."""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar, cast

import tensorflow as tf

from bert_keras.errors import InputError

_saved_model = cast(Any, tf.saved_model)  # the type checker's stubs lack its constants


class ClassifierOutputs(abc.ABC):
    """Makes dense tensors by name, one row per text."""

    # TF Serving's own API for such outputs, and its names of outputs -> ours.
    api: ClassVar[str]
    api_outputs: ClassVar[dict[str, str]]

    @abc.abstractmethod
    def __call__(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns outputs of float32 logits [B,N]."""


class OneLabel(ClassifierOutputs):
    """`label` string [B], `labels` string [B,N], `probabilities` float32 [B,N], a softmax."""

    api = "classify"
    api_outputs: ClassVar[dict[str, str]] = {
        _saved_model.CLASSIFY_OUTPUT_CLASSES: "labels",
        _saved_model.CLASSIFY_OUTPUT_SCORES: "probabilities",
    }

    def __init__(self, labels: Sequence[str]):
        self.labels = list(labels)

    def __call__(self, logits):
        probabilities = self.probabilities(logits)
        names = tf.constant(self.labels)
        return {
            "label": self.label(names, probabilities),
            "labels": tf.tile(names[None], tf.stack([tf.shape(probabilities)[0], 1])),
            "probabilities": probabilities,
        }

    def probabilities(self, logits: tf.Tensor) -> tf.Tensor:
        """float32 [B,N]."""
        return tf.nn.softmax(logits)

    def label(self, names: tf.Tensor, probabilities: tf.Tensor) -> tf.Tensor:
        """string [B]."""
        return tf.gather(names, tf.argmax(probabilities, axis=1))


class ManyLabels(OneLabel):
    """The same with an independent probability for each label.

    `label` holds the labels with a probability of at least 0.5, separated by commas as in a table
    of the user's; it is empty where there is none.
    """

    def probabilities(self, logits):
        return tf.sigmoid(logits)

    def label(self, names, probabilities):
        positions = tf.where(probabilities >= 0.5)
        return tf.strings.unsorted_segment_join(
            tf.gather(names, positions[:, 1]),
            positions[:, 0],
            num_segments=tf.shape(probabilities)[0],
            separator=",",
        )


class Score(ClassifierOutputs):
    """`score` float32 [B]."""

    api = "regress"
    api_outputs: ClassVar[dict[str, str]] = {_saved_model.REGRESS_OUTPUTS: "score"}

    def __call__(self, logits):
        return {"score": logits[:, 0]}


def classifier_outputs(labels: Sequence[str], *, problem_type: str) -> ClassifierOutputs:
    """Selects the outputs by the `problem_type` of a ModelCard.

    One logit without a problem type is a number, as `transformers` takes it: a softmax of it would
    be 1 for every text.

    Raises:
        InputError: A regression has more than one label.
    """
    if problem_type == "multi_label_classification":
        return ManyLabels(labels)
    if problem_type == "regression" or (not problem_type and len(labels) == 1):
        if len(labels) != 1:
            raise InputError(f"a regression came with {len(labels)} labels; expected one number")
        return Score()
    return OneLabel(labels)
