"""Norms of weights and gradients, by layer."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.config import BertConfig
from bert_keras.models.pretrainer import BertPretrainer
from bert_keras.training.optimizer import BertAdamW
from bert_keras.training.tensorboard.norms import NormsByLayer, layer_of, norms_by_layer


def test_a_layer_has_one_norm_over_all_its_weights():
    paths = [
        "pretrainer/encoder/embeddings/token",
        "pretrainer/encoder/layer_3/attention/query/kernel",
        "pretrainer/encoder/layer_3/feed_forward/output/bias",
        "pretrainer/encoder/layer_11/attention/query/kernel",
        "pretrainer/encoder/pooler/kernel",
        "pretrainer/masked_lm/transform/kernel",
        "pretrainer/next_sentence/dense/bias",
    ]
    assert norms_by_layer(paths, [1.0, 3.0, 4.0, 2.0, 7.0, 5.0, 12.0]) == {
        "embeddings": 1.0,
        "layer_03": 5.0,
        "layer_11": 2.0,
        "pooler": 7.0,
        "heads": 13.0,
    }


@pytest.mark.parametrize("devices", [1, 2])
def test_norms_by_layer_on_one_or_two_devices(devices):
    strategy = tf.distribute.get_strategy()
    if devices > 1:
        strategy = tf.distribute.MirroredStrategy(
            [f"CPU:{index}" for index in range(devices)],
            cross_device_ops=tf.distribute.ReductionToOneDevice(),
        )
    with strategy.scope():
        config = BertConfig(vocab_size=20, hidden_size=8, num_layers=2, num_heads=2)
        model = BertPretrainer(config)
        model.compile(optimizer=BertAdamW(1e-3))
        model.optimizer.build(model.trainable_variables)
        model.optimizer.gradient_norms.assign(np.arange(len(model.trainable_variables)))
    norms = NormsByLayer()
    norms.set_model(model)
    for factor in (1.0, 2.0):
        logs = {}
        norms.on_epoch_end(0, logs)
        for layer in ("embeddings", "layer_00", "layer_01", "pooler", "heads"):
            of_layer = [
                (index, keras.ops.convert_to_numpy(weight))
                for index, weight in enumerate(model.trainable_variables)
                if layer_of(weight.path) == layer
            ]
            weights = np.concatenate([weight.ravel() for _, weight in of_layer])
            assert logs[f"weight_norm/{layer}"] == pytest.approx(np.linalg.norm(weights), rel=1e-5)
            gradients = np.linalg.norm([index for index, _ in of_layer])
            assert logs[f"gradient_norm/{layer}"] == pytest.approx(gradients, rel=1e-5)
        assert len(logs) == 10
        for weight in model.trainable_variables:  # as training would
            weight.assign(2.0 * factor * weight)
