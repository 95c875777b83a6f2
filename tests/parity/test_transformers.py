"""BERT and its relatives, forward and backward, against transformers with the same weights."""

import dataclasses
from pathlib import Path

import numpy as np
import our_side
import pytest
from differences import PRECISION, at, difference, gradient_differences

from bert_keras import BertClassifier, BertEncoder
from bert_keras.checkpoints.huggingface.config import transformers_classes
from bert_keras.config import BertConfig
from bert_keras.families import family_of, preset
from bert_keras.models.loading import load_model
from tests.factories import with_noise

pytest.importorskip("torch", reason='needs PyTorch: pip install "bert-keras[parity]"')
pytest.importorskip("transformers", reason='needs "bert-keras[parity]"')
pytestmark = [
    pytest.mark.extra,
    pytest.mark.filterwarnings("ignore:You are using a softmax over axis -1"),  # of one token
]

import their_side  # noqa: E402

TEXT = Path(__file__).parents[2] / "LICENSE"
SIZES = {"vocab_size": 500, "hidden_size": 96, "num_heads": 6, "initializer_stddev": 0.08}
SIZE = BertConfig(num_layers=3, **SIZES)
NO_DROPOUT = {"hidden_dropout_rate": 0.0, "attention_dropout_rate": 0.0}
MODERNBERT = {"num_layers": 4, "intermediate_size": 160, "max_positions": 2048, "has_pooler": True}
GATED = {"num_layers": 3, "intermediate_size": 160, "has_pooler": True, **SIZES}
ELECTRA = {"pooler_activation": "gelu", "masked_lm_activation": "gelu"}
CONFIGS = {
    "bert": SIZE,
    "distilbert": dataclasses.replace(SIZE, num_segments=0, pooler_activation="relu"),
    "albert": dataclasses.replace(
        SIZE, embedding_size=40, shares_layers=True, activation="gelu_tanh", **NO_DROPOUT
    ),
    "roberta": dataclasses.replace(
        SIZE, num_segments=1, position_offset=2, layer_norm_epsilon=1e-5
    ),
    "modernbert": preset("modernbert-base", **SIZES, **MODERNBERT),
    "electra": dataclasses.replace(SIZE, embedding_size=40, **ELECTRA),
    "electra-base": dataclasses.replace(SIZE, **ELECTRA),  # has no projection of its embeddings
    "mpnet": preset("mpnet-base", num_layers=3, **SIZES),
    # Few groups, so that the longest distances share them
    "deberta": preset(
        "deberta-v3-base", num_layers=3, has_pooler=True, num_relative_buckets=24, **SIZES
    ),
    "nomic-bert": preset("nomic-bert-base", **GATED),
    "gte": preset("gte-multilingual-base", **GATED),
    "gte-en": preset("gte-base", **GATED),  # has no segments
}
PRETRAINED = dict.fromkeys(CONFIGS, "BertMaskedLM")
PRETRAINED |= dict.fromkeys(("albert", "bert"), "BertPretrainer")
PAIRS = [
    (CONFIGS[family], model)
    for family in CONFIGS
    for model in transformers_classes(family_of(CONFIGS[family]))
    if model != "BertPretrainer" or PRETRAINED[family] == model
]
# Neither the length nor the activation depends on the head.
CASES = [
    (config, model, length)
    for config, model in PAIRS
    for length in ((64, 512) if config.local_window else (1, 33, 512))
    if model == "BertEncoder" or length in (33, 64)
]
CASES += [(SIZE, "BertEncoder", length) for length in (2, 17, 128, 511)]
CASES += [(CONFIGS["modernbert"], "BertEncoder", 2048)]
MEAN = dataclasses.replace(CONFIGS["modernbert"], pooling="mean")
CASES += [(MEAN, model, 300) for model in ("BertClassifier", "BertMultipleChoice")]
CASES += [
    (dataclasses.replace(config, activation="relu"), model, 33)
    for config, model in PAIRS
    if model != "BertEncoder"
]
CASES += [
    (dataclasses.replace(SIZE, **changes), "BertPretrainer", 9)
    for changes in (
        *({"activation": each} for each in ("silu", "tanh", "gelu_new")),
        {"num_segments": 3, "intermediate_size": 50, "layer_norm_epsilon": 1e-3},
        {"num_heads": 1, "num_layers": 1, "max_positions": 9},
    )
]


def expected_config(config: BertConfig) -> BertConfig:
    """The masked-LM head of RoBERTa and others has GELU with every activation."""
    if family_of(config).has_gelu_head and config.activation != "gelu":
        return dataclasses.replace(config, masked_lm_activation="gelu")
    return config


def batch_of(config: BertConfig, **shape) -> dict[str, np.ndarray]:
    """RoBERTa's padding has the id 1, which the reference leaves out when it counts positions."""
    batch = our_side.batch_of(config, **shape)
    if config.position_offset:
        batch["input_ids"] = np.where(batch["input_mask"], batch["input_ids"], 1)
    return batch


def assert_equal(actual: dict, expected: dict, *, is_compared_BT) -> None:
    assert actual.keys() == expected.keys()
    for name in expected:
        ours, theirs = (at(is_compared_BT, name, each[name]) for each in (actual, expected))
        # The rounding error of a logit depends on the states in its sum, which are about 1.
        apart = difference(ours, theirs, scale=max(1.0, np.abs(theirs).max()))
        assert apart.relative <= PRECISION and apart.margin <= 1, f"{name}: {apart}"


def assert_equal_outputs(ours, reference, batch) -> None:
    """Compares the tokens without padding, because RoBERTa also gives padding a position."""
    is_compared_BT = batch["input_mask"].astype(bool)
    if ours.kind.model == "BertMultipleChoice":
        batch = our_side.choices(batch, num_choices=2)
    actual, expected = our_side.outputs(ours, batch), their_side.outputs(reference, batch)
    assert_equal(actual, expected, is_compared_BT=is_compared_BT)


@pytest.mark.parametrize(("config", "model", "length"), CASES)
def test_every_layer_and_logits(config, model, length):
    reference = their_side.random_reference(model, config)
    ours = our_side.imported(reference)
    assert type(ours).__name__ == model
    assert dataclasses.replace(ours.config, has_pooler=True) == expected_config(config)
    rows = 2 if length >= 512 else 4
    assert_equal_outputs(ours, reference, batch_of(config, length=length, rows=rows))


@pytest.mark.parametrize("length", [1, 33, 512])
def test_neobert(tmp_path, length):
    config = preset("neobert", **GATED)
    ours = BertClassifier(config, num_labels=2)
    with_noise(ours, stddev=0.05).save_pretrained(tmp_path / "it", format="huggingface")
    batch = batch_of(config, length=length, rows=2)
    expected = their_side.neobert_outputs(tmp_path / "it", batch)
    actual = our_side.outputs(load_model(tmp_path / "it"), batch)
    actual = {name: each for name, each in actual.items() if name in expected}
    assert_equal(actual, expected, is_compared_BT=batch["input_mask"].astype(bool))


@pytest.fixture(scope="module")
def real_encoder(real_weights):
    reference = their_side.real_reference("BertEncoder", real_weights)
    return BertEncoder.from_pretrained(real_weights), reference


def real_batch(model, **shape):
    batch = our_side.batch_of(model.config, **shape)
    return our_side.reading(batch, TEXT.read_text("utf-8"), tokenizer=model.tokenizer)


@pytest.mark.parametrize("rows", [1, 3], ids=["full", "padded"])
@pytest.mark.parametrize("length", [2, 128, 512])
def test_every_layer_with_real_weights(real_encoder, length, rows):
    """Also compares the padding, which no token reads: there, PyTorch's rounding error is 2e-5."""
    ours, reference = real_encoder
    batch = real_batch(ours, length=length, rows=rows)
    assert_equal_outputs(ours, reference, batch)
    actual, expected = our_side.outputs(ours, batch), their_side.outputs(reference, batch)
    for name in expected:
        assert difference(actual[name], expected[name]).relative <= 5e-5


@pytest.mark.parametrize("family", [*CONFIGS, "real"])
def test_gradients_of_the_pretraining_loss(family, request):
    shape = {"length": 64, "rows": 4, "num_predictions": 10}
    if family == "real":
        folder = request.getfixturevalue("real_weights")
        reference = their_side.real_reference("BertPretrainer", folder)
        ours = our_side.imported(reference)
        ours.tokenizer = load_model(folder).tokenizer
        batch = real_batch(ours, **shape)
    else:
        reference = their_side.random_reference(PRETRAINED[family], CONFIGS[family])
        ours = our_side.imported(reference)
        batch = batch_of(CONFIGS[family], **shape)
    assert 0 < batch["masked_lm_weights"].mean() < 1
    loss, gradients = our_side.loss_and_gradients(ours, batch)
    their_loss, expected = their_side.loss_and_gradients(reference, batch, metadata=ours.metadata)
    assert_equal_gradients(loss, gradients, their_loss, expected)
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
    assert_equal_gradients(loss, gradients, their_loss, expected)


def assert_equal_gradients(loss, gradients, their_loss, expected) -> None:
    assert loss == pytest.approx(their_loss, rel=1e-5)
    assert gradients.keys() == expected.keys()
    for name, apart in gradient_differences(gradients, expected).items():
        assert apart.relative <= 1e-4, f"{name}: {apart}"
