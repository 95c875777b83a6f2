"""How a batch of record features becomes the inputs, targets and weights of an objective."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_keras.data.masking import Masker
from bert_keras.data.schema import (
    LABEL_FEATURE,
    LABEL_POSITIONS_FEATURE,
    LABEL_WEIGHTS_FEATURE,
    PACKING_FEATURES,
    PREDICTION_FEATURES,
    SEQUENCE_FEATURES,
    WEIGHTS_FEATURE,
)

_CHANGED = {
    **dict.fromkeys(("input_ids", *PREDICTION_FEATURES), np.dtype("int32")),
    WEIGHTS_FEATURE: np.dtype("float32"),
}


@dataclass(frozen=True)
class DynamicMasking:
    """Masks drawn while records of plain ids are read, so that each epoch has its own.

    Batch n is drawn from (`seed`, n) alone: a run that skips batches sees the same ones.
    """

    masker: Masker
    seed: int

    def masked(self, number, features: dict) -> dict:
        """Features with masks, of batch `number` (a scalar tensor) of plain ones."""

        def draw(number, input_ids):
            generator = np.random.default_rng((self.seed, int(number)))
            masked = self.masker.mask(input_ids, generator=generator)
            return [masked[name] for name in _CHANGED]

        ids = features["input_ids"]
        values = tf.numpy_function(draw, [number, ids], [*_CHANGED.values()])
        width = self.masker.policy.max_predictions
        for name, value in zip(_CHANGED, values, strict=True):
            value.set_shape(ids.shape if name == "input_ids" else (ids.shape[0], width))
        return features | dict(zip(_CHANGED, values, strict=True))


def masked(features: dict) -> tuple[dict, dict, dict]:
    """Returns (x, y, w) of masked tokens; labels are left out."""
    positions, answers = PREDICTION_FEATURES
    inputs = _inputs(features) | {positions: tf.cast(features[positions], tf.int32)}
    targets = {"masked_lm": tf.cast(features[answers], tf.int32)}
    return inputs, targets, {"masked_lm": features[WEIGHTS_FEATURE]}


def masked_and_labelled(features: dict) -> tuple[dict, dict, dict]:
    """Returns (x, y, w) of masked tokens and, where there are labels, of next sentences."""
    inputs, targets, weights = masked(features)
    if LABEL_POSITIONS_FEATURE in features:
        inputs[LABEL_POSITIONS_FEATURE] = tf.cast(features[LABEL_POSITIONS_FEATURE], tf.int32)
        targets["next_sentence"] = tf.cast(features[LABEL_FEATURE], tf.int32)
        weights["next_sentence"] = features[LABEL_WEIGHTS_FEATURE]
    elif LABEL_FEATURE in features:
        targets["next_sentence"] = tf.cast(features[LABEL_FEATURE][:, 0], tf.int32)
        weights["next_sentence"] = tf.ones_like(targets["next_sentence"], tf.float32)
    return inputs, targets, weights


def next_tokens(features: dict) -> tuple[dict, dict, dict]:
    """Returns (x, y, w) of left-to-right prediction under the names of masked tokens: the target of
    every position but the last is the next token, which counts if it is of the same sequence.
    """
    inputs = _inputs(features)
    positions, _ = PREDICTION_FEATURES
    answers = inputs["input_ids"][:, 1:]
    inputs[positions] = tf.zeros_like(answers) + tf.range(answers.shape[1])
    sequence = inputs.get("sequence_ids", inputs["input_mask"])
    counts = (sequence[:, :-1] > 0) & (sequence[:, :-1] == sequence[:, 1:])
    return inputs, {"masked_lm": answers}, {"masked_lm": tf.cast(counts, tf.float32)}


class Examples(NamedTuple):
    """How an objective reads records."""

    of: Callable[[dict], tuple[dict, dict, dict]]  # a batch of features -> (x, y, w)
    reads_masks: bool = True  # or else plain ids, as they are


MASKED_AND_LABELLED = Examples(masked_and_labelled)
MASKED = Examples(masked)
NEXT_TOKENS = Examples(next_tokens, reads_masks=False)


def _inputs(features: dict) -> dict:
    names = [n for n in (*SEQUENCE_FEATURES, *PACKING_FEATURES) if n in features]
    return {name: tf.cast(features[name], tf.int32) for name in names}
