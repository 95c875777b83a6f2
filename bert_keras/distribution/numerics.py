"""Precision and determinism of a run."""

import os

import tensorflow as tf

from bert_keras.errors import check_name

PRECISIONS = ("auto", "float32", "bfloat16", "float16")


def named_policy(name: str = "auto") -> str:
    """For `keras.config.set_dtype_policy`: weights are float32, products are in the precision.

    `auto` is bfloat16 where the hardware multiplies it, TPUs and GPUs since compute capability 8.0
    (A100), else float32: CPUs gain nothing from it.
    """
    check_name(name, PRECISIONS, what="precision")
    if name == "auto":
        gpus = tf.config.list_physical_devices("GPU")
        details = map(tf.config.experimental.get_device_details, gpus)
        new = [each.get("compute_capability", (0, 0)) >= (8, 0) for each in details]
        has_tpu = bool(tf.config.list_logical_devices("TPU"))
        name = "bfloat16" if has_tpu or (new and all(new)) else "float32"
    return name if name == "float32" else f"mixed_{name}"


def add_in_one_order() -> None:
    """On CPUs alone, unless TF_DETERMINISTIC_OPS is set: TensorFlow's threads add up in one order,
    at no cost that could be measured. Elsewhere some operations would be refused, and XLA by Keras.

    To be called before TensorFlow has computed what adds up.
    """
    if not tf.config.list_physical_devices("GPU"):
        os.environ.setdefault("TF_DETERMINISTIC_OPS", "1")
