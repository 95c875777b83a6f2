"""One battery for every layer and head: the Keras contract."""

import keras
import numpy as np
import pytest

from bert_keras.layers.attention import SelfAttention, rotation
from bert_keras.layers.block import EncoderBlock, FeedForward
from bert_keras.layers.embeddings import BertEmbeddings
from bert_keras.layers.heads import ClassificationHead, MaskedLMHead, Pooler
from bert_keras.layers.primitives import LayerNorm

B, T, D, N, P, V = 3, 5, 8, 2, 4, 20
HIDDEN = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")
FLAT = HIDDEN.reshape(B * T, D)
ROTATION = np.asarray(rotation(np.arange(T), head_size=D // N, base=100.0))
BIAS = np.zeros((B, 1, 1, T), "float32")
IDS = np.random.default_rng(1).integers(0, V, (B, T), dtype="int32")
POSITION_IDS = np.tile(np.array([0, 1, 2, 3, 0], "int32"), (B, 1))
POSITIONS = np.random.default_rng(2).integers(0, T, (B, P), dtype="int32")
TABLE = np.random.default_rng(3).normal(size=(V, D)).astype("float32")

CASES = {
    "embeddings": (
        BertEmbeddings(
            V,
            D,
            max_positions=7,
            num_segments=2,
            dropout_rate=0.2,
            layer_norm_epsilon=1e-12,
            initializer_stddev=0.5,
        ),
        (IDS, IDS % 2),
        (B, T, D),
        5,
    ),
    "embeddings_at_positions": (
        BertEmbeddings(
            V,
            D,
            max_positions=4,
            num_segments=2,
            dropout_rate=0.2,
            layer_norm_epsilon=1e-12,
            initializer_stddev=0.5,
        ),
        (IDS, IDS % 2, POSITION_IDS),
        (B, T, D),
        5,
    ),
    "embeddings_of_relatives": (
        BertEmbeddings(
            V,
            D,
            max_positions=T,
            num_segments=0,
            dropout_rate=0.2,
            layer_norm_epsilon=1e-12,
            initializer_stddev=0.5,
            embedding_size=6,
            position_offset=2,
        ),
        (IDS, IDS % 2),
        (B, T, D),
        6,
    ),
    "attention": (
        SelfAttention(N, dropout_rate=0.2, initializer_stddev=0.5),
        (FLAT, BIAS),
        ((B * T, D), (B, N, T, T)),
        8,
    ),
    "rotary_attention": (
        SelfAttention(N, dropout_rate=0.2, initializer_stddev=0.5, has_biases=False),
        (FLAT, BIAS, ROTATION),
        ((B * T, D), (B, N, T, T)),
        4,
    ),
    "gated_feed_forward": (
        FeedForward(
            3 * D, activation="gelu", initializer_stddev=0.5, is_gated=True, has_biases=False
        ),
        (FLAT,),
        (B * T, D),
        2,
    ),
    "feed_forward": (
        FeedForward(3 * D, activation="gelu", initializer_stddev=0.5),
        (FLAT,),
        (B * T, D),
        4,
    ),
    "pooler": (Pooler(D, activation="tanh"), (FLAT,), (B * T, D), 2),
    "pooler_with_norm": (
        Pooler(D, activation="gelu", use_bias=False, layer_norm_epsilon=1e-5),
        (FLAT,),
        (B * T, D),
        2,
    ),
    "norm": (LayerNorm(epsilon=1e-12), (HIDDEN,), (B, T, D), 2),
    "block": (
        EncoderBlock(
            N,
            3 * D,
            activation="gelu",
            hidden_dropout_rate=0.2,
            attention_dropout_rate=0.2,
            layer_norm_epsilon=1e-12,
            initializer_stddev=0.5,
        ),
        (HIDDEN, BIAS),
        ((B, T, D), (B, N, T, T)),
        16,
    ),
    "pre_norm_block": (
        EncoderBlock(
            N,
            3 * D,
            activation="silu",
            hidden_dropout_rate=0.2,
            attention_dropout_rate=0.2,
            layer_norm_epsilon=1e-12,
            initializer_stddev=0.5,
            is_pre_norm=True,
            is_gated=True,
            has_biases=False,
            has_attention_norm=False,
        ),
        (HIDDEN, BIAS, ROTATION),
        ((B, T, D), (B, N, T, T)),
        7,
    ),
    "untied_masked_lm": (
        MaskedLMHead(
            V,
            activation="gelu",
            layer_norm_epsilon=1e-12,
            initializer_stddev=0.5,
            has_biases=False,
            ties_decoder=False,
        ),
        (HIDDEN, POSITIONS, TABLE),
        (B, P, V),
        4,
    ),
    "masked_lm": (
        MaskedLMHead(V, activation="gelu", layer_norm_epsilon=1e-12, initializer_stddev=0.5),
        (HIDDEN, POSITIONS, TABLE),
        (B, P, V),
        5,
    ),
    "masked_lm_of_a_factorised_table": (
        MaskedLMHead(V, activation="gelu", layer_norm_epsilon=1e-12, initializer_stddev=0.5),
        (HIDDEN, POSITIONS, TABLE[:, :6]),
        (B, P, V),
        5,
    ),
    "classification": (
        ClassificationHead(3, dropout_rate=0.2, initializer_stddev=0.5),
        (HIDDEN[:, 0],),
        (B, 3),
        2,
    ),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def arrays(outputs):
    return [np.asarray(each) for each in (outputs if isinstance(outputs, tuple) else (outputs,))]


def test_shapes_weights_and_finite_values(case):
    layer, inputs, shape, num_weights = case
    outputs = layer(*inputs)
    shapes = shape if isinstance(shape[0], tuple) else (shape,)
    assert [tuple(each.shape) for each in arrays(outputs)] == list(shapes)
    assert all(np.isfinite(each).all() for each in arrays(outputs))
    assert len(layer.weights) == num_weights
    assert len({weight.path for weight in layer.weights}) == num_weights
    symbolic = layer(*(keras.KerasTensor(each.shape, str(each.dtype)) for each in inputs))
    symbolic = symbolic if isinstance(symbolic, tuple) else (symbolic,)
    assert [each.shape for each in symbolic] == list(shapes)


def test_config_rebuilds_the_layer(case):
    layer, inputs, _, _ = case
    outputs = layer(*inputs)
    rebuilt = type(layer).from_config(layer.get_config())
    assert rebuilt.get_config() == layer.get_config()
    rebuilt(*inputs)
    rebuilt.set_weights(layer.get_weights())
    for ours, theirs in zip(arrays(outputs), arrays(rebuilt(*inputs)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_serialization_needs_no_custom_objects(case):
    layer = case[0]
    rebuilt = keras.layers.deserialize(keras.layers.serialize(layer))
    assert type(rebuilt) is type(layer)


def test_every_weight_gets_a_gradient(case):
    import tensorflow as tf

    layer, inputs, _, _ = case
    layer(*inputs)
    with tf.GradientTape() as tape:
        outputs = layer(*inputs)
        first = outputs[0] if isinstance(outputs, tuple) else outputs
        loss = keras.ops.sum(first * np.random.default_rng(4).normal(size=first.shape))
    for weight, gradient in zip(
        layer.trainable_weights,
        tape.gradient(loss, [w.value for w in layer.trainable_weights]),
        strict=True,
    ):
        assert gradient is not None, weight.path
        if not weight.path.endswith("key/bias"):  # softmax does not see it
            assert np.abs(tf.convert_to_tensor(gradient)).max() > 0, weight.path


def test_bfloat16_runs(case):
    layer, inputs, _, _ = case
    config = {**layer.get_config(), "dtype": "mixed_bfloat16"}
    outputs = type(layer).from_config(config)(*inputs)
    first = outputs[0] if isinstance(outputs, tuple) else outputs
    logits = isinstance(layer, MaskedLMHead | ClassificationHead)
    assert keras.backend.standardize_dtype(first.dtype) == ("float32" if logits else "bfloat16")
