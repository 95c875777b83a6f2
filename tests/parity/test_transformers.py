"""Forward and backward against the reference implementation in PyTorch, with the same weights."""

from pathlib import Path

import numpy as np
import our_side
import pytest
from differences import PRECISION, at, difference, gradient_differences

from bert_keras.config import BertConfig
from bert_keras.models import BertEncoder, load_model

pytest.importorskip("torch", reason='needs PyTorch: pip install "bert-keras[parity]"')
pytest.importorskip("transformers", reason='needs "bert-keras[parity]"')
pytestmark = [
    pytest.mark.extra,
    pytest.mark.filterwarnings("ignore:You are using a softmax over axis -1"),  # of one piece
]

import their_side  # noqa: E402

CONFIG = BertConfig(
    vocab_size=500, hidden_size=96, num_layers=3, num_heads=6, initializer_stddev=0.08
)
TEXT = Path(__file__).parents[2] / "LICENSE"
LENGTHS = (1, 2, 17, 128, 511, 512)
TASKS = [name for name in their_side.CLASSES if name != "BertEncoder"]


def assert_equal(actual: dict, expected: dict, *, is_compared_BT=None) -> None:
    assert actual.keys() == expected.keys()
    for name in expected:
        ours, theirs = actual[name], expected[name]
        if is_compared_BT is not None:
            ours, theirs = at(is_compared_BT, name, ours), at(is_compared_BT, name, theirs)
        apart = difference(ours, theirs)
        assert apart.relative <= PRECISION and apart.margin <= 1, f"{name}: {apart}"


def batch_of(model, *, length: int, rows: int, num_predictions: int = 0):
    """Random weights are asked random pieces, real weights a text."""
    batch = our_side.batch_of(
        model.config, length=length, rows=rows, num_predictions=num_predictions
    )
    if model.tokenizer is None:
        return batch
    return our_side.reading(batch, TEXT.read_text("utf-8"), tokenizer=model.tokenizer)


@pytest.fixture(scope="module")
def random_encoder():
    reference = their_side.random_reference("BertEncoder", CONFIG)
    return our_side.imported(reference), reference


@pytest.fixture(scope="module")
def real_encoder(real_weights):
    return BertEncoder.from_pretrained(real_weights), their_side.real_reference(
        "BertEncoder", real_weights
    )


@pytest.mark.parametrize("rows", [1, 3], ids=["full", "padded"])
@pytest.mark.parametrize("length", LENGTHS)
def test_every_layer_with_random_weights(random_encoder, length, rows):
    ours, reference = random_encoder
    batch = batch_of(ours, length=length, rows=rows)
    assert_equal(our_side.outputs(ours, batch), their_side.outputs(reference, batch))


@pytest.mark.parametrize("rows", [1, 3], ids=["full", "padded"])
@pytest.mark.parametrize("length", [2, 128, 512])
def test_every_layer_with_real_weights(real_encoder, length, rows):
    """Nobody reads what real weights make of padding, and rounding grows there, in PyTorch as much
    as here: 2e-5 from its own float64."""
    ours, reference = real_encoder
    batch = batch_of(ours, length=length, rows=rows)
    actual, expected = our_side.outputs(ours, batch), their_side.outputs(reference, batch)
    assert_equal(actual, expected, is_compared_BT=batch["input_mask"].astype(bool))
    for name in expected:
        assert difference(actual[name], expected[name]).relative <= 5e-5


@pytest.mark.parametrize("model", TASKS)
def test_logits_with_random_weights(model):
    reference = their_side.random_reference(model, CONFIG)
    ours = our_side.imported(reference)
    assert type(ours).__name__ == model
    batch = batch_of(ours, length=33, rows=4)
    if model == "BertMultipleChoice":
        batch = our_side.choices(batch, num_choices=2)
    assert_equal(our_side.outputs(ours, batch), their_side.outputs(reference, batch))


@pytest.mark.parametrize("model", ["BertPretrainer", "BertMultipleChoice"])
def test_logits_with_a_real_encoder(real_weights, real_encoder, model):
    reference = their_side.real_reference(model, real_weights)
    ours = our_side.imported(reference)
    ours.tokenizer = real_encoder[0].tokenizer
    batch = batch_of(ours, length=33, rows=4)
    is_compared_BT = batch["input_mask"].astype(bool)
    if model == "BertMultipleChoice":
        batch = our_side.choices(batch, num_choices=2)
    actual, expected = our_side.outputs(ours, batch), their_side.outputs(reference, batch)
    assert_equal(actual, expected, is_compared_BT=is_compared_BT)


@pytest.mark.parametrize(
    "change",
    [
        {"activation": "gelu_tanh"},
        {"activation": "relu"},
        {"activation": "silu"},
        {"activation": "tanh"},
        {"num_segments": 3, "intermediate_size": 50, "layer_norm_epsilon": 1e-3},
        {"num_heads": 1, "num_layers": 1, "max_positions": 9},
    ],
    ids=str,
)
def test_every_hyperparameter_of_the_config(change):
    config = BertConfig(vocab_size=50, hidden_size=24, **{"num_layers": 2, "num_heads": 3} | change)
    reference = their_side.random_reference("BertPretrainer", config)
    ours = our_side.imported(reference)
    for name, value in change.items():
        assert getattr(ours.config, name) == value
    batch = batch_of(ours, length=9, rows=3)
    assert_equal(our_side.outputs(ours, batch), their_side.outputs(reference, batch))


@pytest.mark.parametrize("weights", ["random", "real"])
def test_gradients_of_the_pretraining_loss(weights, request):
    if weights == "random":
        reference = their_side.random_reference("BertPretrainer", CONFIG)
        ours = our_side.imported(reference)
    else:
        folder = request.getfixturevalue("real_weights")
        reference = their_side.real_reference("BertPretrainer", folder)
        ours = our_side.imported(reference)
        ours.tokenizer = load_model(folder).tokenizer
    batch = batch_of(ours, length=64, rows=4, num_predictions=10)
    assert 0 < batch["masked_lm_weights"].mean() < 1
    loss, gradients = our_side.loss_and_gradients(ours, batch)
    their_loss, expected = their_side.loss_and_gradients(reference, batch, metadata=ours.metadata)
    assert loss == pytest.approx(their_loss, rel=1e-5)
    assert gradients.keys() == expected.keys()
    for name, apart in gradient_differences(gradients, expected).items():
        assert apart.relative <= 1e-4, f"{name}: {apart}"
    assert all(np.abs(expected[n]).max() > 1e-5 for n in expected if not n.endswith("/key/bias"))
