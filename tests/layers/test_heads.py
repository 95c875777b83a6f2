"""One battery for every head: the Keras contract, any batch and length, float32 logits."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.layers.heads import (
    ClassificationHead,
    MaskedLMHead,
    ReplacedTokenHead,
    SpanHead,
    TokenLabelsHead,
)

D, P, V = 8, 4, 20
TABLE = np.random.default_rng(3).normal(size=(V, D)).astype("float32")


def states(batch: int, length: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(batch, length, D)).astype("float32")


def random_positions(batch: int, length: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, length, (batch, P), dtype="int32")


# The head, its inputs and the shape of its logits for a batch and a length, its weights.
CASES = {
    "masked_lm": (
        MaskedLMHead(
            V, activation="gelu", layer_norm_epsilon=1e-12, initializer_stddev=0.5, name="masked_lm"
        ),
        lambda b, t: (states(b, t), random_positions(b, t), TABLE),
        lambda b, t: (b, P, V),
        {
            "transform/kernel": (D, D),
            "transform/bias": (D,),
            "norm/gamma": (D,),
            "norm/beta": (D,),
            "output_bias": (V,),
        },
    ),
    "classification": (
        ClassificationHead(3, dropout_rate=0.2, initializer_stddev=0.5, name="classification"),
        lambda b, t: (states(b, t)[:, 0],),
        lambda b, t: (b, 3),
        {"dense/kernel": (D, 3), "dense/bias": (3,)},
    ),
    "token_labels": (
        TokenLabelsHead(5, dropout_rate=0.2, initializer_stddev=0.5, name="token_labels"),
        lambda b, t: (states(b, t),),
        lambda b, t: (b, t, 5),
        {"dense/kernel": (D, 5), "dense/bias": (5,)},
    ),
    "token_labels_after_a_norm": (
        TokenLabelsHead(
            5,
            dropout_rate=0.2,
            initializer_stddev=0.5,
            activation="gelu",
            has_biases=False,
            name="token_labels_after_a_norm",
        ),
        lambda b, t: (states(b, t),),
        lambda b, t: (b, t, 5),
        {
            "transform/kernel": (D, D),
            "norm/gamma": (D,),
            "dense/kernel": (D, 5),
            "dense/bias": (5,),
        },
    ),
    "replaced_token": (
        ReplacedTokenHead(activation="gelu", initializer_stddev=0.5, name="replaced_token"),
        lambda b, t: (states(b, t),),
        lambda b, t: (b, t),
        {
            "transform/kernel": (D, D),
            "transform/bias": (D,),
            "dense/kernel": (D, 1),
            "dense/bias": (1,),
        },
    ),
    "span": (
        SpanHead(initializer_stddev=0.5, name="span"),
        lambda b, t: (states(b, t),),
        lambda b, t: {"start": (b, t), "end": (b, t)},
        {"dense/kernel": (D, 2), "dense/bias": (2,)},
    ),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


@pytest.fixture(params=["mixed_bfloat16", "mixed_float16"])
def policy(request):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy(before)


def arrays(outputs):
    return {
        name: keras.ops.convert_to_numpy(array)
        for name, array in (outputs if isinstance(outputs, dict) else {"": outputs}).items()
    }


def assert_equal(ours, theirs):
    ours, theirs = arrays(ours), arrays(theirs)
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name])


def rebuild(head, inputs):
    """A new head with the same weights, under the policy of the moment."""
    config = {name: value for name, value in head.get_config().items() if name != "dtype"}
    rebuilt = type(head).from_config(config)
    rebuilt(*inputs)
    rebuilt.set_weights(head.get_weights())
    return rebuilt


def test_weights_have_their_public_names(case):
    head, inputs, _, weights = case
    head(*inputs(2, 5))
    assert {weight.path: tuple(weight.shape) for weight in head.weights} == {
        f"{head.name}/{name}": shape for name, shape in weights.items()
    }


def test_config_rebuilds_the_head(case):
    head, inputs, _, _ = case
    outputs = head(*inputs(2, 5))
    rebuilt = keras.layers.deserialize(json.loads(json.dumps(keras.layers.serialize(head))))
    assert (type(rebuilt), rebuilt.get_config()) == (type(head), head.get_config())
    rebuilt(*inputs(2, 5))
    rebuilt.set_weights(head.get_weights())
    assert_equal(outputs, rebuilt(*inputs(2, 5)))


def test_any_batch_and_length_in_one_graph(case):
    head, inputs, shapes, _ = case
    one = inputs(1, 1)
    symbols = [
        keras.Input(batch_shape=array.shape, dtype=array.dtype)
        if array is TABLE
        else keras.Input((None,) * (array.ndim == 3) + array.shape[-1:], dtype=array.dtype)
        for array in one
    ]
    model = keras.Model(symbols, head(*symbols))
    graph = tf.function(lambda *inputs: model(list(inputs)), reduce_retracing=True)
    for batch, length in ((1, 1), (3, 5), (2, 9)):
        outputs = arrays(graph(*(tf.constant(array) for array in inputs(batch, length))))
        expected = shapes(batch, length)
        expected = expected if isinstance(expected, dict) else {"": expected}
        assert {name: array.shape for name, array in outputs.items()} == expected
        eager = arrays(head(*inputs(batch, length)))
        for name, array in outputs.items():
            np.testing.assert_allclose(array, eager[name], atol=1e-5)


def test_every_weight_gets_a_gradient(case):
    head, inputs, _, _ = case
    head(*inputs(3, 5))
    random = np.random.default_rng(4)
    with tf.GradientTape() as tape:
        outputs = head(*inputs(3, 5), **({"training": True} if hasattr(head, "dropout") else {}))
        outputs = outputs if isinstance(outputs, dict) else {"": outputs}
        loss = sum(tf.reduce_sum(x * random.normal(size=x.shape)) for x in outputs.values())
    gradients = tape.gradient(loss, [weight.value for weight in head.trainable_weights])
    assert len(gradients) == len(head.weights)
    for weight, gradient in zip(head.trainable_weights, gradients, strict=True):
        assert gradient is not None and np.abs(gradient).max() > 0, weight.path


def test_logits_are_float32_under_mixed_policies(case, policy):
    head, inputs, _, _ = case
    exact = arrays(head(*inputs(3, 5)))
    mixed = rebuild(head, inputs(3, 5))
    assert mixed.compute_dtype == policy.removeprefix("mixed_")
    assert {weight.dtype for weight in mixed.weights} == {"float32"}
    for name, array in arrays(mixed(*inputs(3, 5))).items():
        assert array.dtype == "float32"
        difference = np.abs(array - exact[name]).max() / np.abs(exact[name]).max()
        # Roundings of states, weights, norm and product, each by half a unit or less.
        assert difference < 6 * (2**-8 if policy == "mixed_bfloat16" else 2**-11)


def test_small_heads_compute_in_float32_under_mixed_policies(policy):
    """From the same rounded states their logits are those of float32, to float32's precision."""
    for name in ("classification", "token_labels", "span"):
        head, inputs, _, _ = CASES[name]
        rounded = keras.ops.cast(inputs(3, 5)[0], policy.removeprefix("mixed_"))
        exact = arrays(head(keras.ops.cast(rounded, "float32")))
        for output, array in arrays(rebuild(head, inputs(3, 5))(rounded)).items():
            np.testing.assert_allclose(array, exact[output], rtol=1e-5, atol=1e-6)


def test_the_first_column_scores_starts_and_the_second_ends():
    hidden = np.random.default_rng(0).normal(size=(2, 6, 8)).astype("float32")
    head = SpanHead(initializer_stddev=0.5)
    head(hidden)
    head.dense.bias.assign([1.0, 2.0])
    kernel, bias = (np.asarray(weight) for weight in head.get_weights())
    logits = head(hidden)
    for column, name in enumerate(("start", "end")):
        expected = hidden @ kernel[:, column] + bias[column]
        np.testing.assert_allclose(logits[name], expected, atol=1e-5)


TOKENS = np.random.default_rng(0).normal(size=(2, 6, 8)).astype("float32")


def test_logits_are_those_of_each_token_alone():
    head = TokenLabelsHead(3, dropout_rate=0.5, initializer_stddev=0.5)
    head(TOKENS)
    head.dense.bias.assign([1.0, 2.0, 3.0])
    kernel, bias = (np.asarray(weight) for weight in head.get_weights())
    np.testing.assert_allclose(head(TOKENS), TOKENS @ kernel + bias, atol=1e-5)


def test_states_are_dropped_in_training_alone():
    head = TokenLabelsHead(3, dropout_rate=0.5, initializer_stddev=0.5)
    calm = np.asarray(head(TOKENS))
    assert (np.asarray(head(TOKENS, training=True)) != calm).all()
    np.testing.assert_array_equal(head(TOKENS, training=False), calm)


def test_logits_are_those_of_the_masked_positions_alone():
    random = np.random.default_rng(0)
    hidden = random.normal(size=(2, 6, 8)).astype("float32")
    table = random.normal(size=(11, 8)).astype("float32")
    positions = np.array([[0, 3, 3], [5, 1, 0]], "int32")
    head = MaskedLMHead(11, activation="tanh", layer_norm_epsilon=1e-12, initializer_stddev=0.5)
    logits = np.asarray(head(hidden, positions, table))
    head.output_bias.assign(np.arange(11))

    kernel, bias = (np.asarray(w) for w in head.transform.weights)
    picked = hidden[np.arange(2)[:, None], positions]
    x = np.tanh(picked @ kernel + bias)
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True))
    np.testing.assert_allclose(logits, x @ table.T, atol=1e-5)
    np.testing.assert_allclose(
        head(hidden, positions, table), x @ table.T + np.arange(11), atol=1e-5
    )


def test_norm_takes_states_whose_squares_overflow_float16():
    hidden = np.random.default_rng(0).normal(size=(2, 6, 8)).astype("float32")
    table = np.random.default_rng(1).normal(size=(11, 8)).astype("float32")
    positions = np.array([[0, 3, 3], [5, 1, 0]], "int32")

    def logits(dtype):
        head = MaskedLMHead(
            11, activation="relu", layer_norm_epsilon=1e-12, initializer_stddev=0.5, dtype=dtype
        )
        head(hidden, positions, table)
        head.transform.kernel.assign(3000 * np.eye(8))
        return np.asarray(head(hidden, positions, table))

    exact = logits("float32")
    assert np.abs(logits("mixed_float16") - exact).max() <= 0.01 * np.abs(exact).max()
