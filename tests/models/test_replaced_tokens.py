"""ELECTRA's pretraining model: drawn tokens, shared embeddings, devices and parts."""

import keras
import numpy as np
import pytest

from bert_keras import BertReplacedTokenPretrainer
from bert_keras.checkpoints.tensors import named_weights
from bert_keras.config import BertConfig
from bert_keras.data.masking import Masker, MaskingPolicy
from bert_keras.data.objectives import replaced_tokens
from bert_keras.families import preset
from bert_keras.models.replaced_tokens import draw_ids, generator_config
from bert_keras.runs.pretraining_tasks import pretraining_task
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tests.tensorflow_or_skip import tf

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *(f"w{number}" for number in range(35))))
CONFIG = BertConfig(
    vocab_size=40, hidden_size=16, num_layers=1, num_heads=4, max_positions=12, has_pooler=False,
    hidden_dropout_rate=0.0, attention_dropout_rate=0.0, initializer_stddev=0.2,
)  # fmt: skip
OBJECTIVE = pretraining_task("replaced-token")


def examples(*, rows: int = 16, length: int = 12):
    """Masked rows of 6 to 12 tokens, with unused predictions at position 0."""
    random = np.random.default_rng(0)
    mask = np.arange(length) < random.integers(6, length + 1, rows)[:, None]
    ids = random.integers(5, 40, (rows, length)) * mask
    ids[:, 0] = VOCABULARY.cls_id
    policy = MaskingPolicy(max_predictions=4, mask_rate=0.3)
    masked = Masker(policy, VOCABULARY).mask(ids, generator=random)
    features = {"input_mask": mask.astype("int32"), "segment_ids": np.zeros_like(ids)}
    return ids, replaced_tokens(features | masked)


def new_model(**changes):
    keras.utils.set_random_seed(1)
    return BertReplacedTokenPretrainer(CONFIG, generator_size=0.5, **changes)


@pytest.mark.parametrize(
    ("size", "fraction", "hidden_size", "heads", "embedding_size"),
    [  # of the published generators
        ("electra-small", 0.25, 64, 1, 128),
        ("electra-base", 1 / 3, 256, 4, 768),
        ("electra-large", 0.25, 256, 4, 1024),
        ("electra-base", 1.0, 768, 12, 0),
    ],
)
def test_the_generator_is_a_fraction_of_its_discriminator(
    size, fraction, hidden_size, heads, embedding_size
):
    config = generator_config(preset(size), fraction)
    sizes = (config.hidden_size, config.num_heads, config.embedding_size, config.num_layers)
    assert sizes == (hidden_size, heads, embedding_size, preset(size).num_layers)
    assert config.intermediate_size == 4 * hidden_size


def test_drawn_tokens_have_the_distribution_of_the_logits():
    logits = np.random.default_rng(0).normal(size=(1, 1, 6)).astype("float32")
    draws = (np.arange(6000)[:, None] * 2**24 // 6000).astype("int32")
    ids = np.asarray(draw_ids(np.repeat(logits, 6000, axis=0), draws))
    expected = np.exp(logits[0, 0]) / np.exp(logits).sum()
    np.testing.assert_allclose(np.bincount(ids[:, 0], minlength=6) / 6000, expected, atol=1e-3)
    assert np.asarray(draw_ids(logits, np.full((1, 1), 2**24 - 1, "int32"))) == 5


def test_draws_are_uniform_and_belong_to_the_row():
    _, (inputs, _, _) = examples(rows=2000)
    draws = inputs["sampling_draws"]
    used = draws[inputs["masked_lm_weights"] > 0]
    assert used.min() >= 0 and used.max() < 2**24
    np.testing.assert_allclose(np.histogram(used, 10, (0, 2**24))[0] / len(used), 0.1, atol=0.02)
    names = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions", "masked_lm_ids")
    part = {name: inputs[name][7:9] for name in (*names, "masked_lm_weights")}
    np.testing.assert_array_equal(replaced_tokens(part)[0]["sampling_draws"], draws[7:9])


def test_the_discriminator_reads_the_drawn_tokens(monkeypatch):
    """All other tokens are the original ones, and a drawn token may be the original one."""
    ids, (inputs, targets, weights) = examples(rows=128)
    model, read = new_model(), []
    call = type(model.encoder).call

    def recorded(self, inputs, training=False):
        read.append(inputs["input_ids"])
        return call(self, inputs, training=training)

    monkeypatch.setattr(type(model.encoder), "call", recorded)
    outputs = model(inputs)
    drawn = np.asarray(draw_ids(outputs["masked_lm"], inputs["sampling_draws"]))
    expected = ids.copy()
    for row, slot in zip(*np.nonzero(inputs["masked_lm_weights"]), strict=True):
        expected[row, inputs["masked_lm_positions"][row, slot]] = drawn[row, slot]
    np.testing.assert_array_equal(read, [inputs["input_ids"], expected])
    np.testing.assert_array_equal(outputs["replaced_token"][..., 1], expected != ids)
    assert 0 < np.sum(expected != ids) < weights["masked_lm"].sum()
    logits, mask = np.asarray(outputs["replaced_token"][..., 0]), inputs["input_mask"]
    loss = OBJECTIVE.losses()["replaced_token"](
        targets["replaced_token"], outputs["replaced_token"], weights["replaced_token"]
    )
    each = np.log1p(np.exp(np.where(expected != ids, -logits, logits)))
    assert float(loss) == pytest.approx((each * mask).sum() / mask.sum(), rel=1e-5)
    metric, rate = OBJECTIVE.metrics()["replaced_token"]
    for each in (metric, rate):
        each.update_state(None, outputs["replaced_token"], weights["replaced_token"])
    right = (logits > 0) == (expected != ids)
    assert float(metric.result()) == pytest.approx((right * mask).sum() / mask.sum(), rel=1e-5)
    assert float(rate.result()) == pytest.approx((expected != ids).sum() / mask.sum(), rel=1e-5)


def test_only_the_shared_embeddings_of_the_generator_learn_from_the_discriminator():
    _, (inputs, targets, weights) = examples()
    model = new_model()
    variables = named_weights(model)
    with tf.GradientTape() as tape:
        loss = OBJECTIVE.losses()["replaced_token"](
            targets["replaced_token"], model(inputs)["replaced_token"], weights["replaced_token"]
        )
    gradients = tape.gradient(loss, [variable.value for variable in variables.values()])
    has_gradient = {name for name, g in zip(variables, gradients, strict=True) if g is not None}
    assert has_gradient == {name for name in variables if not name.startswith("generator/")}
    assert "encoder/embeddings/token" in has_gradient
