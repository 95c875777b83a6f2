"""Predictors: each asks its own model, and TensorFlow takes none for a retrace of another."""

import logging

import numpy as np
import tensorflow as tf

from bert_keras.tasks.batches import Predictor
from bert_keras.tasks.task import Encoded
from tests.training.test_loop import compiled


class Rows(Encoded):
    lengths = np.full(3, 6)

    def batch(self, rows):
        ids = np.full((len(rows), 6), 5, "int32")
        inputs = {"input_ids": ids, "input_mask": ids // 5, "segment_ids": ids * 0}
        return inputs, np.zeros(len(rows), "int32")


def test_many_predictors_are_no_retraces(caplog):
    tf.get_logger().addHandler(caplog.handler)
    try:
        losses = [Predictor(compiled(seed=seed))(Rows())[1] for seed in range(6)]
    finally:
        tf.get_logger().removeHandler(caplog.handler)
    assert len(set(losses)) == 6
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]
