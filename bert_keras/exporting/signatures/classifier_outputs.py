"""Converts the logits of a served classifier to one label, several labels or a score."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from bert_keras.errors import InputError


def classifier_outputs(
    labels: Sequence[str], *, problem_type: str
) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """Returns the function that converts logits to outputs.

    A model with one label and no problem type is a regression, as in `transformers`: a softmax of
    one logit would be 1 for every text.

    Args:
        labels: The N labels in the order of the logits.
        problem_type: "regression", "multi_label_classification", another problem type of Hugging
            Face, or "".

    Returns:
        A function that takes logits, float32 [B,N], and raises InputError if N is not the number of
        labels.

        - For a regression it returns `score`, float32 [B].
        - For one label per text it returns `label`, string [B], `labels`, string [B,N], and
          `probabilities`, float32 [B,N], the softmax of the logits.
        - For several labels per text it returns the same outputs, but `probabilities` are the
          sigmoids of the logits, and `label` lists the labels with a probability of at least 0.5,
          separated by commas as in a training table. It is empty if there is none.

    Raises:
        InputError: A regression has more than one label.
    """
    is_regression = problem_type == "regression" or (not problem_type and len(labels) == 1)
    if is_regression and len(labels) != 1:
        raise InputError(f"a regression has {len(labels)} labels; expected 1")

    def outputs_of(logits):
        if logits.shape[1] != len(labels):
            raise InputError(f"there are {len(labels)} labels for {logits.shape[1]} logits")
        if is_regression:
            return {"score": logits[:, 0]}
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
        return {
            "label": label,
            "labels": tf.tile(names[None], tf.stack([num_texts, 1])),
            "probabilities": probabilities,
        }

    return outputs_of
