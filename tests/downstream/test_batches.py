"""Each Predictor runs its model, and several of them do not trigger a retracing warning."""

import logging

import keras
import numpy as np
import tensorflow as tf

from bert_keras.downstream.batches import Predictor
from bert_keras.downstream.task import Encoded


class EncodedExamples(Encoded):
    lengths = np.full(3, 6)

    def batch(self, rows):
        return np.ones((len(rows), 6), "float32"), np.zeros(len(rows), "int32")


def compiled(seed):
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([keras.layers.Dense(2, activation="softmax")])
    model.compile(loss="sparse_categorical_crossentropy")
    return model


def test_several_predictors_cause_no_retracing_warning(caplog):
    tf.get_logger().addHandler(caplog.handler)
    try:
        losses = [Predictor(compiled(seed=seed))(EncodedExamples())[1] for seed in range(6)]
    finally:
        tf.get_logger().removeHandler(caplog.handler)
    assert len(set(losses)) == 6
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]
