"""A machine without accelerators in, runs of a seed that are alike bit for bit out."""

import os

import tensorflow as tf


def add_in_one_order() -> None:
    """On CPUs alone, unless TF_DETERMINISTIC_OPS is set: TensorFlow's threads add up in one order,
    at no cost that could be measured. Elsewhere some operations would be refused, and XLA by Keras.

    To be called before TensorFlow has computed what adds up.
    """
    if not tf.config.list_physical_devices("GPU"):
        os.environ.setdefault("TF_DETERMINISTIC_OPS", "1")
