"""Builds the SavedModel signatures of a text classifier."""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from bert_keras.config import SIGMOID
from bert_keras.errors import InputError
from bert_keras.exporting.servable import Exporter, ServableModel, text_servable
from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs


def served_classifier(
    model: keras.Model,
    reader: TextToInputs,
    *,
    labels: Sequence[str],
    num_texts: int = 1,
    problem_type: str = "",
) -> ServableModel:
    """Builds the signatures of a classifier, whose outputs `classifier_outputs` documents.

    `serving_default` takes `text`, string [B], and with two `num_texts` also `text_pair`. `tensors`
    takes `input_ids`, `input_mask` and `segment_ids`, int32 [B,T].

    Args:
        model: A BertClassifier with N outputs.
        labels: The names of the N outputs.
        num_texts: The number of texts of a row, 1 or 2.
        problem_type: As in `classifier_outputs`.
    """
    if num_texts not in (1, 2):
        raise InputError(f"num_texts is {num_texts}; expected 1 or 2")
    outputs_of = classifier_outputs(labels, problem_type=problem_type)

    def from_tensors(**inputs):
        return outputs_of(model(inputs, training=False))

    return text_servable(from_tensors, reader, names=("text", "text_pair")[:num_texts])


def classifier_outputs(
    labels: Sequence[str], *, problem_type: str
) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """Returns the function that converts logits, float32 [B,N], to outputs.

    - Of a regression, or one label without a problem type: `score`, float32 [B].
    - Of one label: `label`, string [B], `labels`, string [B,N], `probabilities`, float32 [B,N].
    - Of several labels: the same, but `label` lists those with a probability of at least 0.5,
      separated by commas as in a training table.
    """
    is_number = problem_type in ("regression", SIGMOID) or (not problem_type and len(labels) == 1)

    def outputs_of(logits):
        if is_number:
            return {"score": (tf.sigmoid(logits) if problem_type == SIGMOID else logits)[:, 0]}
        names, num_texts = tf.constant(list(labels)), tf.shape(logits)[0]
        if problem_type == "multi_label_classification":
            probabilities = tf.sigmoid(logits)
            positions = tf.where(probabilities >= 0.5)
            label = tf.strings.unsorted_segment_join(
                tf.gather(names, positions[:, 1]),
                positions[:, 0],
                num_segments=num_texts,
                separator=",",
            )
        else:
            probabilities = tf.nn.softmax(logits)
            label = tf.gather(names, tf.argmax(probabilities, axis=1))
        all_names = tf.tile(names[None], tf.stack([num_texts, 1]))
        return {"label": label, "labels": all_names, "probabilities": probabilities}

    return outputs_of


EXPORTER = Exporter(
    served_classifier,
    lambda metadata: {
        "labels": metadata.labels,
        "num_texts": len(metadata.text_columns) or 1,
        "problem_type": metadata.problem_type,
    },
)
