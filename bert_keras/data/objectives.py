"""Turns a batch of record features into the inputs, targets and weights of an objective."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import numpy as np

from bert_keras.data import record_file
from bert_keras.data.masking import Masker
from bert_keras.data.record_file import LABEL_FEATURE, WEIGHTS_FEATURE


@dataclass(frozen=True)
class DynamicMasking:
    """Masks records of plain ids while they are read, so that each epoch has different masks.

    The masks of batch n depend only on (`seed`, n), so a resumed run that skips batches gets the
    same masks.

    Attributes:
        masker: Draws the masks.
        seed: The seed of the draws.

    Example:

    ```python
    masker = Masker(MaskingPolicy(), Vocabulary.from_file("plain/vocab.txt"))
    masking = DynamicMasking(masker, seed=1)
    batches = pretraining_dataset("plain", batch_size=32, seed=1, masking=masking)
    ```
    """

    masker: Masker
    seed: int

    def masked(self, batch_index: int, features: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the features of a batch, masked, with the features of the predictions."""
        generator = np.random.default_rng((self.seed, batch_index))
        return features | self.masker.mask(features["input_ids"], generator=generator)


def masked(features: dict) -> tuple[dict, dict, dict]:
    """Returns (inputs, targets, weights) of masked language modelling; labels are ignored."""
    positions, target_ids = record_file.PREDICTION_FEATURES
    inputs = _inputs(features) | {positions: _cast(features[positions])}
    targets = {"masked_lm": _cast(features[target_ids])}
    return inputs, targets, {"masked_lm": features[WEIGHTS_FEATURE]}


def masked_and_labelled(features: dict) -> tuple[dict, dict, dict]:
    """Returns (inputs, targets, weights) of masked language modelling and next sentence prediction.

    `pretraining_dataset` calls this function. Without labels, there is no `next_sentence`.

    Args:
        features: The features of a batch of records by name, such as `input_ids`, int [B, L].

    Returns:
        Three dicts of tensors, as `pretraining_dataset` documents them.

    Example:

    ```python
    import numpy as np

    names = ["input_ids", "input_mask", "segment_ids"]
    names += ["masked_lm_positions", "masked_lm_ids", "masked_lm_weights"]
    inputs, targets, weights = masked_and_labelled(dict.fromkeys(names, np.ones((2, 8), "int32")))
    ```
    """
    inputs, targets, weights = masked(features)
    positions = record_file.LABEL_POSITIONS_FEATURE
    if positions in features:
        inputs[positions] = _cast(features[positions])
        targets["next_sentence"] = _cast(features[LABEL_FEATURE])
        weights["next_sentence"] = features[record_file.LABEL_WEIGHTS_FEATURE]
    elif LABEL_FEATURE in features:
        targets["next_sentence"] = _cast(features[LABEL_FEATURE][:, 0])
        weights["next_sentence"] = _cast(targets["next_sentence"] * 0 + 1, "float32")
    return inputs, targets, weights


def next_tokens(features: dict) -> tuple[dict, dict, dict]:
    """Returns (inputs, targets, weights) of left-to-right language modelling.

    The target of each position except the last is the next token. Its weight is 1 if both tokens
    belong to the same sequence, otherwise 0. The names are the same as for `masked`.
    """
    inputs = _inputs(features)
    positions, _ = record_file.PREDICTION_FEATURES
    target_ids = inputs["input_ids"][:, 1:]
    inputs[positions] = np.zeros_like(target_ids) + np.arange(target_ids.shape[1], dtype="int32")
    sequence = inputs.get("sequence_ids", inputs["input_mask"])
    has_target = (sequence[:, :-1] > 0) & (sequence[:, :-1] == sequence[:, 1:])
    return inputs, {"masked_lm": target_ids}, {"masked_lm": has_target.astype("float32")}


def replaced_tokens(features: dict) -> tuple[dict, dict, dict]:
    """Returns (inputs, targets, weights) of replaced-token detection.

    The model draws a token for each prediction. For this, the inputs also have the original tokens,
    their weights, and `sampling_draws`: a uniform integer below 2^24 for each prediction. (Keras
    would round real numbers to the compute dtype.) The integer is a hash of the masked row and of
    the position, so it depends neither on the batch nor on the device, and new masks give new
    integers.

    The model also finds out which tokens were replaced. The values of the target `replaced_token`
    are not used; its weights are 1 for tokens and 0 for padding.
    """
    inputs, targets, weights = masked(features)
    positions, target_ids = record_file.PREDICTION_FEATURES
    inputs |= {target_ids: targets["masked_lm"], WEIGHTS_FEATURE: weights["masked_lm"]}
    columns_L = np.arange(inputs["input_ids"].shape[1], dtype=np.uint64)
    rows_B1 = _hashes(inputs["input_ids"], columns_L).sum(axis=1, keepdims=True)
    draws_BP = _hashes(inputs[positions], rows_B1) >> np.uint64(40)  # the 24 highest bits
    inputs["sampling_draws"] = draws_BP.astype("int32")
    targets["replaced_token"] = inputs["input_mask"]
    weights["replaced_token"] = inputs["input_mask"].astype("float32")
    return inputs, targets, weights


def _hashes(values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """Returns the output of SplitMix64 (Steele et al. 2014) for integers and seeds, uint64."""
    hashes = seeds + (values.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        hashes = (hashes ^ hashes >> np.uint64(shift)) * np.uint64(factor)
    return hashes ^ hashes >> np.uint64(31)


class PretrainingExamples(NamedTuple):
    """How records become the examples of a pretraining objective."""

    # Turns a batch of features into (inputs, targets, weights), all NumPy arrays.
    from_features: Callable[[dict], Any]
    reads_masks: bool = True  # whether `from_features` needs masked records
    needs_plain_ids: bool = False  # whether records that are already masked are refused


MASKED_AND_LABELLED = PretrainingExamples(masked_and_labelled)
MASKED = PretrainingExamples(masked)
REPLACED_TOKENS = PretrainingExamples(replaced_tokens, needs_plain_ids=True)
NEXT_TOKENS = PretrainingExamples(next_tokens, reads_masks=False, needs_plain_ids=True)


def _inputs(features: dict) -> dict:
    names = (*record_file.SEQUENCE_FEATURES, *record_file.PACKING_FEATURES)
    return {name: _cast(features[name]) for name in names if name in features}


def _cast(values, dtype: str = "int32"):
    """Casts an array, or a tensor if a `tf.data.Dataset` maps the function."""
    is_array = isinstance(values, np.ndarray)
    return values.astype(dtype, copy=False) if is_array else keras.ops.cast(values, dtype)
