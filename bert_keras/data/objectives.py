"""Turns a batch of record features into the inputs, targets and weights of an objective."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

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

# The features that masking sets, with their dtypes.
_MASKED_FEATURES = {
    **dict.fromkeys(("input_ids", *PREDICTION_FEATURES), np.dtype("int32")),
    WEIGHTS_FEATURE: np.dtype("float32"),
}


@dataclass(frozen=True)
class DynamicMasking:
    """Masks records of plain ids while they are read, so that each epoch has different masks.

    The masks of batch n depend only on (`seed`, n), so a resumed run that skips batches gets the
    same masks.

    Example:

    ```python
    masker = Masker(MaskingPolicy(), Vocabulary.from_file("plain/vocab.txt"))
    masking = DynamicMasking(masker, seed=1)
    batches = pretraining_dataset("plain", batch_size=32, seed=1, masking=masking)
    ```
    """

    masker: Masker  # draws the masks
    seed: int  # of the draws

    def masked(self, number: tf.Tensor, features: dict) -> dict:
        """Returns the features with masked `input_ids`, and adds the features of the predictions.

        Args:
            number: The index of the batch, a scalar int64 tensor.
            features: The features of a batch of plain ids.
        """

        def draw(number, input_ids):
            generator = np.random.default_rng((self.seed, int(number)))
            masked = self.masker.mask(input_ids, generator=generator)
            return [masked[name] for name in _MASKED_FEATURES]

        ids = features["input_ids"]
        # Not stateful: `draw` depends on its arguments alone. Before a stateful function,
        # deterministic TensorFlow parses the records on one thread, and prints an error.
        values = tf.numpy_function(
            draw, [number, ids], [*_MASKED_FEATURES.values()], stateful=False
        )
        width = self.masker.policy.max_predictions
        for name, value in zip(_MASKED_FEATURES, values, strict=True):
            value.set_shape(ids.shape if name == "input_ids" else (ids.shape[0], width))
        return features | dict(zip(_MASKED_FEATURES, values, strict=True))


def masked(features: dict) -> tuple[dict, dict, dict]:
    """Returns (inputs, targets, weights) of masked language modelling; labels are ignored."""
    positions, target_ids = PREDICTION_FEATURES
    inputs = _inputs(features) | {positions: tf.cast(features[positions], tf.int32)}
    targets = {"masked_lm": tf.cast(features[target_ids], tf.int32)}
    return inputs, targets, {"masked_lm": features[WEIGHTS_FEATURE]}


def masked_and_labelled(features: dict) -> tuple[dict, dict, dict]:
    """Returns (inputs, targets, weights) of masked language modelling and next sentence prediction.

    `pretraining_dataset` calls this function. Records without labels give targets of masked
    language modelling only.

    Args:
        features: The features of a batch of records by name, such as `input_ids`, int [B, L].

    Returns:
        Three dicts of tensors, as `pretraining_dataset` documents them.

    Example:

    ```python
    import json

    import tensorflow as tf

    with open("records/manifest.json") as file:
        schema = json.load(file)["schema"]
    lengths = dict.fromkeys(["input_ids", "input_mask", "segment_ids"], schema["max_length"])
    lengths |= dict.fromkeys(["masked_lm_positions", "masked_lm_ids"], schema["max_predictions"])
    lengths["next_sentence_labels"] = 1
    spec = {name: tf.io.FixedLenFeature([n], tf.int64) for name, n in lengths.items()}
    spec["masked_lm_weights"] = tf.io.FixedLenFeature([schema["max_predictions"]], tf.float32)
    records = tf.data.TFRecordDataset(tf.io.gfile.glob("records/train*")).batch(32)
    features = records.map(lambda batch: tf.io.parse_example(batch, spec))
    inputs, targets, weights = next(iter(features.map(masked_and_labelled)))
    ```
    """
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
    """Returns (inputs, targets, weights) of left-to-right language modelling.

    The target of each position except the last is the next token. Its weight is 1 if both tokens
    belong to the same sequence, else 0. The names are those of masked language modelling.
    """
    inputs = _inputs(features)
    positions, _ = PREDICTION_FEATURES
    target_ids = inputs["input_ids"][:, 1:]
    inputs[positions] = tf.zeros_like(target_ids) + tf.range(target_ids.shape[1])
    sequence = inputs.get("sequence_ids", inputs["input_mask"])
    has_target = (sequence[:, :-1] > 0) & (sequence[:, :-1] == sequence[:, 1:])
    return inputs, {"masked_lm": target_ids}, {"masked_lm": tf.cast(has_target, tf.float32)}


def replaced_tokens(features: dict) -> tuple[dict, dict, dict]:
    """Returns (inputs, targets, weights) of replaced-token detection.

    The inputs also have the original tokens, the weights and one uniform integer below 2^24 for
    each prediction, with which the model draws a token. (Keras would round real numbers to the
    compute dtype.) This integer is a hash of the masked row and of the position, so that it depends
    neither on the batch nor on the device. The records must be plain ids: new masks in each epoch
    give new integers. The model determines which tokens were replaced: the target `replaced_token`
    is only as large as the row, and its weight is 1 for each token.
    """
    inputs, targets, weights = masked(features)
    positions, target_ids = PREDICTION_FEATURES
    inputs[target_ids], inputs[WEIGHTS_FEATURE] = targets["masked_lm"], weights["masked_lm"]
    shape = tf.shape(inputs[positions])
    rows_B1 = tf.bitcast(tf.fingerprint(inputs["input_ids"]), tf.int64)[:, None]
    keys_BP2 = tf.stack(
        [tf.broadcast_to(rows_B1, shape), tf.cast(inputs[positions], tf.int64)], axis=-1
    )
    hashes_X = tf.bitcast(tf.fingerprint(tf.reshape(keys_BP2, (-1, 2))), tf.uint64)
    bits_X = tf.bitwise.right_shift(hashes_X, tf.constant(40, tf.uint64))  # the 24 highest
    draws_BP = tf.reshape(tf.cast(bits_X, tf.int32), shape)
    inputs["sampling_draws"] = tf.ensure_shape(draws_BP, inputs[positions].shape)
    targets["replaced_token"] = inputs["input_mask"]
    weights["replaced_token"] = tf.cast(inputs["input_mask"], tf.float32)
    return inputs, targets, weights


class Examples(NamedTuple):
    """An objective: how it reads a batch of records."""

    # Turns a batch of features into (inputs, targets, weights).
    from_features: Callable[[dict], Any]
    reads_masks: bool = True  # whether it masks records of plain ids
    needs_plain_ids: bool = False  # whether it refuses records that are masked already


MASKED_AND_LABELLED = Examples(masked_and_labelled)
MASKED = Examples(masked)
REPLACED_TOKENS = Examples(replaced_tokens, needs_plain_ids=True)
FEATURES = Examples(lambda features: features, reads_masks=False)  # of the records themselves
NEXT_TOKENS = Examples(next_tokens, reads_masks=False, needs_plain_ids=True)


def _inputs(features: dict) -> dict:
    names = [n for n in (*SEQUENCE_FEATURES, *PACKING_FEATURES) if n in features]
    return {name: tf.cast(features[name], tf.int32) for name in names}
