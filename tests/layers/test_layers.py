"""One battery for every layer and head: the Keras contract, any size, mixed precision."""

import json
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
import pytest

from bert_keras.layers import heads
from bert_keras.layers.attention import FullPattern, SelfAttention, compute_rotation
from bert_keras.layers.bilstm import BiLSTM, LayerMix
from bert_keras.layers.block import EncoderBlock, FeedForward
from bert_keras.layers.embeddings import BertEmbeddings
from bert_keras.layers.primitives import LayerNorm, RMSNorm
from bert_keras.layers.relative import RelativeBias, RelativeEmbeddings
from tests.tensorflow_or_skip import tf

D, N, P, V = 8, 2, 4, 20
keras.utils.set_random_seed(1)  # of the initializers in CASES
TABLE = np.random.default_rng(3).normal(size=(V, D)).astype("float32")


def states(b, t):
    return np.random.default_rng(0).normal(size=(b, t, D)).astype("float32")


def flat(b, t):
    return states(b, t).reshape(b * t, D)


def ids(b, t, *, most=V, seed=1):
    return np.random.default_rng(seed).integers(0, most, (b, t), dtype="int32")


def pattern(b, t):
    return FullPattern(np.zeros((b, 1, 1, t), "float32"))


def rotary_pattern(b, t):
    rotates = compute_rotation(np.arange(t), head_size=D // N, base=100.0)
    return pattern(b, t)._replace(rotation=np.asarray(rotates))


def relative_pattern(b, t):
    embeddings = np.random.default_rng(4).normal(size=(2 * t + 1, D)).astype("float32")
    return pattern(b, t)._replace(relative_embeddings=embeddings)


class Case(NamedTuple):
    layer: keras.layers.Layer
    inputs: Callable[[int, int], tuple]  # of a batch and a length


STD = {"initializer_stddev": 0.5}
NORM = {"layer_norm_epsilon": 1e-12, **STD}
TABLES = {"dropout_rate": 0.2, **NORM}
BLOCK = {"hidden_dropout_rate": 0.2, "attention_dropout_rate": 0.2, **NORM}
PLAIN = {"has_biases": False}
PRE_NORM = {"is_pre_norm": True, "is_gated": True, "has_attention_norm": False}
WITHOUT_BIASES = {"block_biases": "none", "norm_kind": "rms"}

HEAD = {"dropout_rate": 0.2, **STD}
GELU = {"activation": "gelu"}


def segmented(b, t):
    return ids(b, t), ids(b, t) % 2


def whole(b, t):
    return (states(b, t),)


def rows(b, t):
    return (flat(b, t),)


def predicted(b, t):
    return states(b, t), ids(b, P, most=t, seed=2), TABLE


CASES = {
    "embeddings": Case(BertEmbeddings(V, D, max_positions=7, num_segments=2, **TABLES), segmented),
    "embeddings_at_positions": Case(
        BertEmbeddings(V, D, max_positions=4, num_segments=2, **TABLES),
        lambda b, t: (*segmented(b, t), ids(b, t, most=4)),
    ),
    "embeddings_of_relatives": Case(
        BertEmbeddings(
            V, D, max_positions=7, num_segments=0, embedding_size=6, position_offset=2, **TABLES
        ),
        segmented,
    ),
    "embeddings_without_norm": Case(
        BertEmbeddings(
            V, D, max_positions=7, num_segments=1, has_positions=False, has_norm=False, **TABLES
        ),
        segmented,
    ),
    "attention": Case(SelfAttention(N, **HEAD), lambda b, t: (flat(b, t), pattern(b, t))),
    "rotary_attention": Case(
        SelfAttention(N, **PLAIN, **HEAD), lambda b, t: (flat(b, t), rotary_pattern(b, t))
    ),
    "disentangled_attention": Case(
        SelfAttention(N, **HEAD), lambda b, t: (flat(b, t), relative_pattern(b, t))
    ),
    "relative_bias": Case(
        RelativeBias(8, num_heads=N, max_positions=7, **STD), lambda b, t: (ids(b, t),)
    ),
    "relative_embeddings": Case(
        RelativeEmbeddings(4, hidden_size=D, max_positions=7, **TABLES),
        lambda b, t: (ids(b, t),),
    ),
    "feed_forward": Case(FeedForward(3 * D, **GELU, **STD), rows),
    "gated_feed_forward": Case(FeedForward(3 * D, is_gated=True, **PLAIN, **GELU, **STD), rows),
    "pooler": Case(heads.Pooler(D, activation="tanh"), rows),
    "pooler_with_norm": Case(
        heads.Pooler(D, use_bias=False, layer_norm_epsilon=1e-5, **GELU), rows
    ),
    "norm": Case(LayerNorm(epsilon=1e-12), whole),
    "rms_norm": Case(RMSNorm(epsilon=1e-12, center=False), whole),
    "block": Case(
        EncoderBlock(N, 3 * D, **GELU, **BLOCK), lambda b, t: (states(b, t), pattern(b, t))
    ),
    "pre_norm_block": Case(
        EncoderBlock(N, 3 * D, activation="silu", **PRE_NORM, **PLAIN, **BLOCK),
        lambda b, t: (states(b, t), rotary_pattern(b, t)),
    ),
    "block_with_few_biases": Case(
        EncoderBlock(N, 3 * D, is_gated=True, block_biases="not_gate", **GELU, **BLOCK),
        lambda b, t: (states(b, t), rotary_pattern(b, t)),
    ),
    "rms_norm_block": Case(
        EncoderBlock(N, 3 * D, is_pre_norm=True, **WITHOUT_BIASES, **GELU, **BLOCK),
        lambda b, t: (states(b, t), rotary_pattern(b, t)),
    ),
    "masked_lm": Case(heads.MaskedLMHead(V, **GELU, **NORM), predicted),
    "untied_masked_lm": Case(
        heads.MaskedLMHead(V, ties_decoder=False, **PLAIN, **GELU, **NORM), predicted
    ),
    "masked_lm_of_a_factorised_table": Case(
        heads.MaskedLMHead(V, **GELU, **NORM), lambda b, t: (*predicted(b, t)[:2], TABLE[:, :6])
    ),
    "classification": Case(heads.ClassificationHead(3, **HEAD), lambda b, t: (states(b, t)[:, 0],)),
    "token_labels": Case(heads.TokenLabelsHead(5, **HEAD), whole),
    "token_labels_after_a_norm": Case(heads.TokenLabelsHead(5, **PLAIN, **GELU, **HEAD), whole),
    "replaced_token": Case(heads.ReplacedTokenHead(**GELU, **STD), whole),
    "span": Case(heads.SpanHead(**STD), whole),
    "bilstm": Case(
        BiLSTM(4, num_layers=2, dropout_rate=0.5),
        lambda b, t: (states(b, t), np.arange(t) < np.arange(t, t - b, -1).clip(1)[:, None]),
    ),
    "layer_mix": Case(LayerMix(), lambda b, t: (states(b, t * 4).reshape(b, t, 4, D),)),
}


@pytest.fixture(params=CASES)
def case(request):
    keras.utils.set_random_seed(1)  # of the weights that the layer draws when it is built
    return CASES[request.param]


def map_arrays(function, inputs):
    return keras.tree.map_structure(lambda each: None if each is None else function(each), inputs)


def arrays(outputs) -> list[np.ndarray]:
    return [keras.ops.convert_to_numpy(each) for each in tf.nest.flatten(outputs)]


def rebuilt(case, **changes):
    """A new layer of the same configuration and weights."""
    layer, inputs = case.layer, case.inputs(3, 5)
    layer(*inputs)
    config = json.loads(json.dumps(keras.layers.serialize(layer)))
    config["config"] |= changes
    new = keras.layers.deserialize(config)
    new(*inputs)
    new.set_weights(layer.get_weights())
    return new


def test_config_rebuilds_the_layer(case):
    new, inputs = rebuilt(case), case.inputs(3, 5)
    assert (type(new), new.get_config()) == (type(case.layer), case.layer.get_config())
    for ours, theirs in zip(arrays(new(*inputs)), arrays(case.layer(*inputs)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_any_batch_and_length_in_one_graph(case):
    graph = tf.function(lambda *inputs: case.layer(*inputs), reduce_retracing=True)
    for batch, length in ((1, 1), (3, 5), (2, 7)):
        inputs = case.inputs(batch, length)
        outputs, eager = graph(*map_arrays(tf.constant, inputs)), case.layer(*inputs)
        shapes = keras.tree.map_structure(lambda each: tuple(each.shape), eager)
        symbolic = case.layer(*map_arrays(lambda a: keras.KerasTensor(a.shape, a.dtype), inputs))
        assert keras.tree.map_structure(lambda each: tuple(each.shape), symbolic) == shapes
        for ours, theirs in zip(arrays(outputs), arrays(eager), strict=True):
            assert np.isfinite(ours).all()
            np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert graph.experimental_get_tracing_count() <= 3


def test_every_weight_gets_a_gradient(case):
    layer, inputs = case.layer, case.inputs(3, 5)
    layer(*inputs)
    weights, random = layer.trainable_weights, np.random.default_rng(4)
    with tf.GradientTape() as tape:
        outputs = layer(*inputs, **({"training": True} if hasattr(layer, "dropout") else {}))
        outputs = outputs[:1] if isinstance(outputs, tuple) else tf.nest.flatten(outputs)
        loss = sum(tf.reduce_sum(x * random.normal(size=x.shape)) for x in outputs)
    assert len(weights) == len(layer.weights)
    gradients = tape.gradient(loss, [weight.value for weight in weights])
    for weight, gradient in zip(weights, gradients, strict=True):
        assert gradient is not None, weight.path
        if not weight.path.endswith("key/bias"):  # softmax does not see it
            assert np.abs(tf.convert_to_tensor(gradient)).max() > 0, weight.path


def test_mixed_bfloat16_is_close_to_float32(case):
    inputs, mixed = case.inputs(3, 5), rebuilt(case, dtype="mixed_bfloat16")
    assert {weight.dtype for weight in mixed.weights} == {"float32"}
    assert mixed.compute_dtype == "bfloat16"
    outputs = mixed(*inputs)
    first = keras.backend.standardize_dtype(tf.nest.flatten(outputs)[0].dtype)
    is_head = isinstance(mixed, heads.MaskedLMHead | heads.ClassificationHead)
    assert first == ("float32" if is_head else "bfloat16")
    for ours, theirs in zip(arrays(outputs), arrays(case.layer(*inputs)), strict=True):
        difference = np.abs(ours.astype("float32") - theirs).max() / np.abs(theirs).max()
        rounds_scores = isinstance(mixed, SelfAttention | EncoderBlock)  # and probabilities
        assert difference < (6 * 2**-8 if rounds_scores else 0.02)


@pytest.mark.parametrize("name", ["classification", "token_labels", "span"])
def test_small_heads_compute_in_float32_under_mixed_policies(name):
    """From the same rounded states their logits are those of float32, to float32's precision."""
    rounded = keras.ops.cast(CASES[name].inputs(3, 5)[0], "bfloat16")
    mixed = rebuilt(CASES[name], dtype="mixed_bfloat16")
    exact = CASES[name].layer(keras.ops.cast(rounded, "float32"))
    for ours, theirs in zip(arrays(mixed(rounded)), arrays(exact), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
