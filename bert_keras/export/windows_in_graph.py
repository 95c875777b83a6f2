"""Windows of long texts come in; one row of logits for each text goes out, inside a TF graph."""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

WINDOWS_AT_ONCE = 8  # bounds a server's memory whatever the length of a text
_POOLED = {"mean": tf.math.unsorted_segment_mean, "max": tf.math.unsorted_segment_max}


class Windows(NamedTuple):
    """`inputs` int32 [X,T] by name; `owners` int64 [X], the text of each among `num_texts`."""

    inputs: dict[str, tf.Tensor]
    owners: tf.Tensor
    num_texts: tf.Tensor


def windows_of_tensors(inputs: dict[str, tf.Tensor]) -> Windows:
    """Inputs [B,W,T]; a window without any `input_mask` is padding."""
    is_real_BW = tf.reduce_any(inputs["input_mask"] > 0, axis=-1)
    return Windows(
        {name: tf.boolean_mask(array, is_real_BW) for name, array in inputs.items()},
        tf.where(is_real_BW)[:, 0],
        tf.shape(is_real_BW)[0],
    )


def pooled_logits(
    logits_of: Callable[..., tf.Tensor], windows: Windows, *, num_labels: int, pooling: str
) -> tf.Tensor:
    """`logits_of(**inputs)` [X,N] of a few windows at a time; their "mean" or "max" [B,N]."""
    count = (tf.shape(windows.owners)[0] + WINDOWS_AT_ONCE - 1) // WINDOWS_AT_ONCE
    found = tf.TensorArray(tf.float32, count, infer_shape=False, element_shape=[None, num_labels])
    for number in tf.range(count):
        tf.autograph.experimental.set_loop_options(parallel_iterations=1)
        first = number * WINDOWS_AT_ONCE
        some = {name: a[first : first + WINDOWS_AT_ONCE] for name, a in windows.inputs.items()}
        found = found.write(number, logits_of(**some))
    return _POOLED[pooling](found.concat(), windows.owners, windows.num_texts)
