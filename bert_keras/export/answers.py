"""Logits of a classifier come in; what a client reads goes out: a label, several, or a score."""

import abc
from collections.abc import Sequence
from typing import ClassVar

import tensorflow as tf

from bert_keras.errors import InputError


class Answer(abc.ABC):
    """Dense tensors by name, a row for each text.

    `api` is TF Serving's own for such answers; `api_outputs` has its names of outputs and ours.
    """

    api: ClassVar[str]
    api_outputs: ClassVar[dict[str, str]]

    @abc.abstractmethod
    def outputs(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        """Of float32 [B,N]."""


class OneLabel(Answer):
    """`label` string [B], `labels` string [B,N], `probabilities` float32 [B,N], a softmax."""

    api = "classify"
    api_outputs: ClassVar[dict[str, str]] = {
        tf.saved_model.CLASSIFY_OUTPUT_CLASSES: "labels",
        tf.saved_model.CLASSIFY_OUTPUT_SCORES: "probabilities",
    }

    def __init__(self, labels: Sequence[str]):
        self.labels = list(labels)

    def outputs(self, logits):
        probabilities = self.probabilities(logits)
        names = tf.constant(self.labels)
        return {
            "label": self.label(names, probabilities),
            "labels": tf.tile(names[None], [tf.shape(probabilities)[0], 1]),
            "probabilities": probabilities,
        }

    def probabilities(self, logits: tf.Tensor) -> tf.Tensor:
        return tf.nn.softmax(logits)

    def label(self, names: tf.Tensor, probabilities: tf.Tensor) -> tf.Tensor:
        return tf.gather(names, tf.argmax(probabilities, axis=1))


class ManyLabels(OneLabel):
    """The same, with a probability for each label alone. `label` holds those of at least 0.5, with
    commas between as in a table of one's own; it is empty where there is none."""

    def probabilities(self, logits):
        return tf.sigmoid(logits)

    def label(self, names, probabilities):
        places = tf.where(probabilities >= 0.5)
        return tf.strings.unsorted_segment_join(
            tf.gather(names, places[:, 1]),
            places[:, 0],
            num_segments=tf.shape(probabilities)[0],
            separator=",",
        )


class Number(Answer):
    """`score` float32 [B]."""

    api = "regress"
    api_outputs: ClassVar[dict[str, str]] = {tf.saved_model.REGRESS_OUTPUTS: "score"}

    def outputs(self, logits):
        return {"score": logits[:, 0]}


def answer_of(labels: Sequence[str], *, problem_type: str) -> Answer:
    """`problem_type` is a ModelCard's. One logit of which nothing is said is a number, as
    `transformers` takes it: a softmax of it would be 1 for every text.
    """
    if problem_type == "multi_label_classification":
        return ManyLabels(labels)
    if problem_type == "regression" or (not problem_type and len(labels) == 1):
        if len(labels) != 1:
            raise InputError(f"a regression came with {len(labels)} labels; expected one number")
        return Number()
    return OneLabel(labels)
