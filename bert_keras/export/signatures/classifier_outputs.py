"""Outputs of a served classifier from its logits: one label, several labels or a score."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from bert_keras.errors import InputError


def classifier_outputs(
    labels: Sequence[str], *, problem_type: str
) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """Selects the outputs by the `problem_type` of a ModelCard.

    One logit without a problem type is a number, as `transformers` takes it: a softmax of it would
    be 1 for every text.

    Returns:
        A function from float32 logits [B,N] to `score` float32 [B] for a regression, else to
        `label` string [B], `labels` string [B,N] and `probabilities` float32 [B,N]: a softmax, or
        an independent probability for each label where a text has several. `label` then holds the
        labels with a probability of at least 0.5, separated by commas as in a table of the user's;
        it is empty where there is none.

    Raises:
        InputError: A regression has more than one label, or, of the function, the numbers of labels
            and logits differ.
    """
    is_number = problem_type == "regression" or (not problem_type and len(labels) == 1)
    if is_number and len(labels) != 1:
        raise InputError(f"a regression came with {len(labels)} labels; expected one number")

    def outputs_of(logits):
        if logits.shape[1] != len(labels):
            raise InputError(f"{len(labels)} labels came with {logits.shape[1]} logits")
        if is_number:
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
