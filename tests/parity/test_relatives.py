"""BERT's relatives, forward and backward, against the reference in PyTorch."""

import dataclasses

import numpy as np
import our_side
import pytest
from differences import PRECISION, at, difference, gradient_differences

from bert_keras.checkpoints.huggingface.config import transformers_classes
from bert_keras.config import BertConfig
from bert_keras.families import family_of, preset

pytest.importorskip("torch", reason='needs PyTorch: pip install "bert-keras[parity]"')
pytest.importorskip("transformers", reason='needs "bert-keras[parity]"')
pytestmark = [
    pytest.mark.extra,
    pytest.mark.filterwarnings("ignore:You are using a softmax over axis -1"),  # of one piece
]

import their_side  # noqa: E402

SIZE = BertConfig(
    vocab_size=500, hidden_size=96, num_layers=3, num_heads=6, initializer_stddev=0.08
)
ELECTRA = {"pooler_activation": "gelu", "masked_lm_activation": "gelu"}
CONFIGS = {
    "distilbert": dataclasses.replace(SIZE, num_segments=0, pooler_activation="relu"),
    "albert": dataclasses.replace(
        SIZE,
        embedding_size=40,
        shares_layers=True,
        activation="gelu_tanh",
        hidden_dropout_rate=0.0,
        attention_dropout_rate=0.0,
    ),
    "roberta": dataclasses.replace(
        SIZE, num_segments=1, position_offset=2, layer_norm_epsilon=1e-5
    ),
    "modernbert": preset(
        "modernbert-base",
        vocab_size=500,
        hidden_size=96,
        num_layers=4,
        num_heads=6,
        intermediate_size=160,
        max_positions=2048,
        initializer_stddev=0.08,
        has_pooler=True,
    ),
    "electra": dataclasses.replace(SIZE, embedding_size=40, **ELECTRA),
    # Embeddings of the hidden size have no projection. The generator's head always has GELU.
    "electra-base": dataclasses.replace(SIZE, activation="relu", **ELECTRA),
}
MEAN = dataclasses.replace(CONFIGS["modernbert"], pooling="mean")
PRETRAINED = dict.fromkeys(CONFIGS, "BertMaskedLM") | {"albert": "BertPretrainer"}
PAIRS = [
    (family, model)
    for family in CONFIGS
    for model in transformers_classes(family_of(CONFIGS[family]))
    if model != "BertPretrainer" or family == "albert"
]
CASES = [
    (CONFIGS[family], model, length)
    for family, model in PAIRS
    for length in ((64, 512, 2048) if family == "modernbert" else (1, 33, 512))
]
CASES += [(MEAN, model, 300) for model in ("BertClassifier", "BertMultipleChoice")]


def batch_of(config: BertConfig, **shape) -> dict[str, np.ndarray]:
    """RoBERTa's padding has the id 1: the reference counts positions by it."""
    batch = our_side.batch_of(config, **shape)
    if config.position_offset:
        batch["input_ids"] = np.where(batch["input_mask"], batch["input_ids"], 1)
    return batch


@pytest.mark.parametrize(("config", "model", "length"), CASES)
def test_every_layer_and_logits(config, model, length):
    """At the pieces of the text: RoBERTa gives padding positions that nobody reads."""
    reference = their_side.random_reference(model, config)
    ours = our_side.imported(reference)
    assert type(ours).__name__ == model
    assert dataclasses.replace(ours.config, has_pooler=True) == config
    batch = batch_of(config, length=length, rows=2 if length >= 512 else 4)
    is_compared_BT = batch["input_mask"].astype(bool)
    if model == "BertMultipleChoice":
        batch = our_side.choices(batch, num_choices=2)
    actual, expected = our_side.outputs(ours, batch), their_side.outputs(reference, batch)
    assert actual.keys() == expected.keys()
    for name in expected:
        apart = difference(
            at(is_compared_BT, name, actual[name]), at(is_compared_BT, name, expected[name])
        )
        assert apart.relative <= PRECISION and apart.margin <= 1, f"{name}: {apart}"


@pytest.mark.parametrize("family", CONFIGS)
def test_gradients_of_the_pretraining_loss(family):
    reference = their_side.random_reference(PRETRAINED[family], CONFIGS[family])
    ours = our_side.imported(reference)
    batch = batch_of(CONFIGS[family], length=64, rows=4, num_predictions=10)
    loss, gradients = our_side.loss_and_gradients(ours, batch)
    their_loss, expected = their_side.loss_and_gradients(reference, batch, metadata=ours.metadata)
    assert loss == pytest.approx(their_loss, rel=1e-5)
    assert gradients.keys() == expected.keys()
    for name, apart in gradient_differences(gradients, expected).items():
        assert apart.relative <= 1e-4, f"{name}: {apart}"
    assert all(np.abs(expected[n]).max() > 1e-5 for n in expected if not n.endswith("/key/bias"))


@pytest.mark.parametrize("family", ["electra", "electra-base"])
def test_gradients_of_a_discriminator(family):
    reference = their_side.random_reference("BertDiscriminator", CONFIGS[family])
    ours = our_side.imported(reference)
    batch = batch_of(CONFIGS[family], length=64, rows=4)
    is_replaced = np.random.default_rng(2).integers(0, 2, batch["input_ids"].shape)
    loss, gradients = our_side.discriminator_gradients(ours, batch, is_replaced)
    their_loss, expected = their_side.discriminator_gradients(
        reference, batch, is_replaced, metadata=ours.metadata
    )
    assert loss == pytest.approx(their_loss, rel=1e-5)
    assert gradients.keys() == expected.keys()
    for name, apart in gradient_differences(gradients, expected).items():
        assert apart.relative <= 1e-4, f"{name}: {apart}"
