"""Recomputed blocks give the outputs and gradients of kept ones, dropout included."""

import keras
import numpy as np

from bert_keras import BertConfig, BertEncoder
from tests.tensorflow_or_skip import tf

CONFIG = {"vocab_size": 50, "hidden_size": 16, "num_layers": 2, "num_heads": 2, "max_positions": 16}
MODERN = {"norm_position": "pre", "position_kind": "rotary", "is_gated": True, "local_window": 4}


def test_same_outputs_and_gradients():
    keras.utils.set_random_seed(1)
    rates = {"hidden_dropout_rate": 0.3, "attention_dropout_rate": 0.3}
    encoder = BertEncoder(BertConfig(**CONFIG, **rates, **MODERN))
    encoder.build()
    encoder.pooler.trainable = False
    ids = np.random.default_rng(0).integers(1, 50, (4, 10))
    inputs = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": 0 * ids}
    seeds = [v for v in encoder.variables if v.path.endswith("seed_generator_state")]
    first = [seed.numpy() for seed in seeds]

    @tf.function
    def gradients(recomputes):
        encoder.gradient_checkpointing = recomputes
        with tf.GradientTape() as tape:
            outputs = encoder(inputs, training=True)["sequence_output"]
            loss = tf.reduce_sum(outputs[..., 0] ** 2)
        return outputs, tape.gradient(loss, encoder.trainable_variables)

    actual = []
    for recomputes in (False, True):
        for seed, value in zip(seeds, first, strict=True):
            seed.assign(value)
        outputs, grads = gradients(recomputes)
        actual.append([outputs.numpy(), *(tf.convert_to_tensor(grad).numpy() for grad in grads)])
    for plain, recomputed in zip(*actual, strict=True):
        np.testing.assert_allclose(recomputed, plain, rtol=1e-5, atol=1e-5)
    again, _ = gradients(True)  # the next step draws anew
    assert np.abs(again.numpy() - actual[1][0]).max() > 0.1
