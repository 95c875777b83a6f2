"""Three steps of a whole pretrainer under `fit`'s optimizer, against the original's formula in
float64, given the gradients that the optimizer was given."""

import numpy as np
import our_side
import pytest
import tensorflow as tf

from bert_keras.config import BertConfig
from bert_keras.models import BertPretrainer
from bert_keras.models.pretrained import named_weights
from bert_keras.training.losses import pretraining_losses
from bert_keras.training.optimizer import BertAdamW
from bert_keras.training.schedule import LinearWarmupDecay

CONFIG = BertConfig(
    vocab_size=60, hidden_size=16, num_layers=2, num_heads=2, max_positions=16,
    hidden_dropout_rate=0.0, attention_dropout_rate=0.0, initializer_stddev=0.1,
)  # fmt: skip
PEAK, NUM_STEPS, NUM_WARMUP_STEPS = 1e-3, 10, 2
DECAYED = ("embeddings/token", "embeddings/position", "embeddings/segment", "/kernel")


class Watched(BertAdamW):
    """Keeps the gradients that come in."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.seen = []

    def apply(self, grads, trainable_variables=None):
        self.seen.append([np.array(tf.convert_to_tensor(grad)) for grad in grads])
        super().apply(grads, trainable_variables)


def rate_at(step: int) -> float:
    """optimization.py: linear decay to 0 from step 0 on, in its first steps the warmup instead."""
    if step < NUM_WARMUP_STEPS:
        return PEAK * step / NUM_WARMUP_STEPS
    return PEAK * (1 - step / NUM_STEPS)


def formula(weights: dict, gradients: list[dict], *, clip: float) -> list[dict]:
    """optimization.py in float64: the weights after each step."""
    weights = {name: weight.astype("float64") for name, weight in weights.items()}
    m = {name: np.zeros_like(weight) for name, weight in weights.items()}
    v = {name: np.zeros_like(weight) for name, weight in weights.items()}
    after = []
    for step, given in enumerate(gradients):
        norm = np.sqrt(sum((gradient.astype("float64") ** 2).sum() for gradient in given.values()))
        for name, gradient in given.items():
            gradient = gradient.astype("float64") * clip / max(norm, clip)
            m[name] = 0.9 * m[name] + 0.1 * gradient
            v[name] = 0.999 * v[name] + 0.001 * gradient**2
            update = m[name] / (np.sqrt(v[name]) + 1e-6)
            if name.endswith(DECAYED):
                update = update + 0.01 * weights[name]
            weights[name] = weights[name] - rate_at(step) * update
        after.append(dict(weights))
    return after


@pytest.mark.parametrize("clip", [0.5, 100.0], ids=["clipped", "not clipped"])
def test_three_steps_of_a_pretrainer(clip):
    model = BertPretrainer(CONFIG)
    random = np.random.default_rng(0)
    for weight in model.weights:  # biases too have a size that they are measured by
        weight.assign(weight + random.normal(scale=0.1, size=weight.shape))
    schedule = LinearWarmupDecay(PEAK, num_steps=NUM_STEPS, num_warmup_steps=NUM_WARMUP_STEPS)
    optimizer = Watched(schedule, max_gradient_norm=clip)
    model.compile(optimizer=optimizer, loss=pretraining_losses(), run_eagerly=True)

    def now() -> dict[str, np.ndarray]:
        return {name: np.array(weight) for name, weight in named_weights(model).items()}

    before, actual = now(), []
    batch = our_side.batch_of(CONFIG, length=16, rows=4, num_predictions=5)
    labels = {"masked_lm": batch["masked_lm_ids"], "next_sentence": batch["next_sentence_labels"]}
    weights = {"masked_lm": batch["masked_lm_weights"], "next_sentence": np.ones(4)}
    for _ in range(3):
        model.train_on_batch(batch, labels, sample_weight=weights)
        actual.append(now())

    names = {weight.path: name for name, weight in named_weights(model).items()}
    order = [names[weight.path] for weight in model.trainable_variables]
    assert sorted(order) == sorted(before)
    gradients = [dict(zip(order, step, strict=True)) for step in optimizer.seen]
    norms = [np.sqrt(sum((g**2).sum() for g in step.values())) for step in gradients]
    assert all(norm > clip for norm in norms) == (clip < 1)
    for step, expected in enumerate(formula(before, gradients, clip=clip)):
        for name, weight in expected.items():
            apart = np.abs(actual[step][name] - weight).max()
            assert apart <= 1e-6 * np.abs(weight).max(), f"step {step}, {name}"
    np.testing.assert_equal(actual[0], before)  # the warmup begins at 0
