"""Recomputed blocks give the steps of kept ones, dropout included."""

import keras
import numpy as np

from bert_keras import BertClassifier
from bert_keras.config import BertConfig
from bert_keras.layers.block import seed_states
from tests.distribution.training import CONFIG, MODERN

CHANGES = {"max_positions": 40, "hidden_dropout_rate": 0.3, "attention_dropout_rate": 0.3}


def trained(*, recomputes: bool):
    """Returns the loss, the weights after a step of SGD with the rate 1, and the seed states."""
    keras.utils.set_random_seed(1)
    model = BertClassifier(BertConfig(**CONFIG | MODERN | CHANGES), num_labels=3)
    model.encoder.gradient_checkpointing = recomputes
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(1.0), loss)
    ids = np.random.default_rng(0).integers(1, 50, (4, 40))
    x = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": 0 * ids}
    logs = model.fit(x, np.arange(4) % 3, verbose=0).history["loss"]
    draws = [keras.ops.convert_to_numpy(state)[1] for state in seed_states(model)]
    return [logs[0], *model.get_weights()], draws


def test_a_step_has_the_same_loss_and_gradients():
    (plain, _), (recomputed, draws) = (trained(recomputes=each) for each in (False, True))
    for ours, theirs in zip(recomputed, plain, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    assert min(draws) > 0  # the next step draws anew
