"""The optimizers and schedules equal their formulas in NumPy."""

import keras
import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.training.optimizer import SCHEDULES, BertAdamW, Muon, layer_rates
from tests.tensorflow_or_skip import tf


def variables():
    random = np.random.default_rng(0)
    shapes = {"kernel": (4, 3), "bias": (3,), "gamma": (3,), "output_bias": (5,), "token": (5, 4)}
    return [keras.Variable(random.normal(size=shape), name=name) for name, shape in shapes.items()]


def adam_steps(variables, gradients, *, rate, clip=1.0, corrected=False):
    """optimization.py in float64; the gradients of a step are clipped by their global norm.

    If `corrected`, it is algorithm 2 of Loshchilov and Hutter (2019) with eta as the rate.
    """
    weights = [np.asarray(variable, "float64") for variable in variables]
    m, v = ([np.zeros_like(weight) for weight in weights] for _ in range(2))
    for t, step in enumerate(gradients, start=1):
        corrections = (1 - 0.9**t, 1 - 0.999**t) if corrected else (1, 1)
        norm = np.sqrt(sum((gradient**2).sum() for gradient in step))
        for index, gradient in enumerate(step):
            gradient = gradient * clip / max(norm, clip) if clip else gradient
            m[index] = 0.9 * m[index] + 0.1 * gradient
            v[index] = 0.999 * v[index] + 0.001 * gradient**2
            update = m[index] / corrections[0] / (np.sqrt(v[index] / corrections[1]) + 1e-6)
            if variables[index].name in ("kernel", "token"):
                update = update + 0.01 * weights[index]
            weights[index] = weights[index] - rate * update
    return weights


def check_steps(optimizer, weights, gradients, expected, *, rows=(), rtol=1e-6):
    """Applies the gradients of each step; those of the last weight may be rows of a table."""
    for number, step in enumerate(gradients):
        tensors = [keras.ops.convert_to_tensor(g, "float32") for g in step]
        if rows:
            indices, values = rows[number]
            tensors[-1] = tf.IndexedSlices(tf.cast(values, "float32"), indices, tf.constant((5, 4)))
        optimizer.apply(tensors, weights)
    for weight, theirs in zip(weights, expected, strict=True):
        np.testing.assert_allclose(weight, theirs, rtol=rtol, atol=1e-6)
    norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients[-1]))
    assert float(optimizer.gradient_norm) == pytest.approx(norm, rel=1e-5)


def random_steps(shapes, *, scale=1.0, seed=1):
    random = np.random.default_rng(seed)
    return [[random.normal(size=shape) * scale for shape in shapes] for _ in range(3)]


@pytest.mark.parametrize("corrected", [False, True], ids=["BERT's", "bias correction"])
@pytest.mark.parametrize(("scale", "clip"), [(1e-6, 1.0), (0.01, 1.0), (3.0, 1.0), (3.0, 0.0)])
def test_three_steps_equal_the_formula(scale, clip, corrected):
    ours = variables()
    gradients = random_steps([each.shape for each in ours], scale=scale)
    expected = adam_steps(ours, gradients, rate=1e-3, clip=clip, corrected=corrected)
    optimizer = BertAdamW(1e-3, bias_correction=corrected, max_gradient_norm=clip)
    check_steps(optimizer, ours, gradients, expected)


def test_three_steps_with_repeated_rows_of_a_table_equal_the_formula():
    ours, random = variables(), np.random.default_rng(2)
    steps = random_steps([each.shape for each in ours])
    rows = [(random.integers(0, 3, 6), random.normal(size=(6, 4))) for _ in range(3)]
    for step, (indices, values) in zip(steps, rows, strict=True):
        step[-1] = np.zeros((5, 4))  # row 3 and 4 of the table were not looked up
        np.add.at(step[-1], indices, values)
    expected = adam_steps(ours, steps, rate=1e-3)
    check_steps(BertAdamW(1e-3), ours, steps, expected, rows=rows)


@pytest.mark.parametrize("limit", [0.0, 1.0], ids=["no clip", "clip"])
@pytest.mark.parametrize("kind", [BertAdamW, Muon])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
def test_a_step_whose_norm_is_not_finite_changes_no_weight_and_no_average(kind, limit, bad):
    matrix = keras.Variable(np.eye(3), name="kernel")
    matrix._path = "encoder/layer_0/attention/query/kernel"
    weights = [*variables(), matrix]
    optimizer = kind(1e-2, max_gradient_norm=limit)
    gradients = [keras.ops.ones(weight.shape) for weight in weights]
    optimizer.apply(gradients, weights)
    averages = [*optimizer.momentums, *optimizer.velocities]
    state = [*weights, *(each for each in averages if each is not None)]
    before = [each.numpy() for each in state]
    optimizer.apply([gradients[0] * bad, *gradients[1:]], weights)
    for variable, value in zip(state, before, strict=True):
        np.testing.assert_array_equal(variable, value)
    assert int(optimizer.skipped) == 1 and int(optimizer.last_skipped) == 1
    optimizer.apply(gradients, weights)
    assert all(np.any(v.numpy() != old) for v, old in zip(state, before, strict=True))


def muon_steps(weights, gradients, *, rate, decay=0.01):
    """muon.py of KellerJordan/Muon in float64, with the factor of Liu et al. 2025, equation 4."""
    weights = [np.asarray(weight, "float64") for weight in weights]
    m = [np.zeros_like(weight) for weight in weights]
    for step in gradients:
        norm = np.sqrt(sum((gradient**2).sum() for gradient in step))
        for index, gradient in enumerate(step):
            gradient = gradient / max(norm, 1.0)
            m[index] += (1 - 0.95) * (gradient - m[index])
            x = gradient + 0.95 * (m[index] - gradient)
            is_tall = x.shape[0] > x.shape[1]
            x = x.T if is_tall else x
            x = x / (np.linalg.norm(x) + 1e-7)
            for _ in range(5):
                a = x @ x.T
                x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
            update = 0.2 * np.sqrt(max(x.shape)) * (x.T if is_tall else x)
            weights[index] = weights[index] * (1 - rate * decay) - rate * update
    return weights


def test_three_steps_of_muon_equal_its_source():
    shapes = (4, 6), (6, 4), (5, 5), (4, 12), (12, 4)  # square and long
    ours = [keras.Variable(values) for values in random_steps(shapes, seed=4)[0]]
    for index, variable in enumerate(ours):
        variable._path = f"model/encoder/layer_{index}/attention/query/kernel"
    gradients = random_steps(shapes, seed=5)
    expected = muon_steps(ours, gradients, rate=1e-2)
    check_steps(Muon(1e-2), ours, gradients, expected, rtol=1e-5)


def test_muon_leaves_other_weights_to_adamw():
    query, output = "encoder/layer_0/attention/query", "tower/layer_0/feed_forward/output"
    paths = ["encoder/embeddings/token", f"{query}/bias", "encoder/pooler/kernel"]
    paths += ["encoder/bilstm/layer_0/forward_lstm/lstm_cell/kernel", "layer_0/kernel"]
    paths += [f"{query}/kernel", f"{output}/kernel"]
    moved = {}
    for kind in (Muon, BertAdamW):
        weights = [keras.Variable(np.ones(4 if "bias" in path else (4, 4))) for path in paths]
        for weight, path in zip(weights, paths, strict=True):
            weight._path = f"model/{path}"
        kind(0.1).apply([keras.ops.ones(weight.shape) for weight in weights], weights)
        moved[kind] = [weight.numpy() for weight in weights]
    is_equal = [np.array_equal(*each) for each in zip(*moved.values(), strict=True)]
    assert is_equal == [True] * 5 + [False] * 2


def test_each_layer_has_its_learning_rate():
    paths = ["encoder/embeddings/token", "encoder/layer_0/attention/query/kernel"]
    paths += ["encoder/layer_1/feed_forward/output/bias", "encoder/pooler/kernel", "dense/kernel"]
    assert layer_rates(paths, decay=0.5) == [0.25, 0.5, 1.0, 1.0, 1.0]
    assert layer_rates(["bilstm/layer_0/forward_lstm/x", *paths], decay=0.5)[:2] == [1.0, 0.25]
    towers = ["a/embeddings/token", "a/layer_1/attention/x", "b/layer_0/attention/x"]
    assert layer_rates([*towers, "b/embeddings/token"], decay=0.5) == [0.25, 1.0, 1.0, 0.5]
    assert layer_rates(paths, decay=1.0) == [1.0] * 5


def test_other_weights_than_those_of_build_are_refused():
    optimizer, weights = BertAdamW(0.1), variables()
    optimizer.build(weights[:2])
    with pytest.raises(InputError):
        optimizer.apply([keras.ops.ones(weight.shape) for weight in weights], weights)


def test_an_infinite_gradient_of_one_replica_skips_the_step_on_all_replicas():
    reduction = tf.distribute.ReductionToOneDevice()
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=reduction)
    with strategy.scope():
        weight = keras.Variable(np.ones(3, "float32"), name="kernel")
        optimizer = BertAdamW(0.1, dynamic_loss_scale=True)
        optimizer.build([weight])

    @tf.function
    def step(bad_value):
        def replica():
            scale = optimizer.scale_loss(tf.ones(()))
            replica_id = tf.distribute.get_replica_context().replica_id_in_sync_group
            optimizer.apply(
                [tf.ones(3) * scale + tf.where(replica_id == 1, bad_value, 0.0)], [weight]
            )

        strategy.run(replica)

    def copies(variable):
        return [x.numpy().tolist() for x in strategy.experimental_local_results(variable.value)]

    step(0.0)
    moved = copies(weight)
    assert moved[0] == moved[1] and moved[0][0] < 1
    assert copies(optimizer.loss_scale) == [2.0**15] * 2
    for bad_value in (np.inf, np.nan, -np.inf):
        step(bad_value)
    assert copies(weight) == moved
    assert copies(optimizer.loss_scale) == [2.0**12] * 2
    assert copies(optimizer.iterations) == [4, 4]  # the position in the data
    assert copies(optimizer.skipped) == [0, 0]  # the scale was the cause
    step(0.0)
    moved_again = copies(weight)
    assert moved_again[0] == moved_again[1] and moved_again[0][0] < moved[0][0]


def test_the_scale_changes_no_update_and_is_doubled_after_2000_finite_steps():
    weights = [keras.Variable(np.ones(3, "float32"), name="kernel") for _ in range(2)]
    scaled, plain = BertAdamW(0.1, dynamic_loss_scale=True), BertAdamW(0.1)
    for optimizer, weight in zip((scaled, plain), weights, strict=True):
        optimizer.build([weight])
        for number in range(4):
            scale = optimizer.scale_loss(keras.ops.ones(()))
            optimizer.apply([keras.ops.arange(1, 4, dtype="float32") * scale], [weight])
            if optimizer is scaled and number == 0:
                (steps,) = [each for each in scaled.variables if each.name == "finite_steps"]
                steps.assign(1998)
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-6)
    assert float(scaled.loss_scale) == 2.0**16


def test_steps_that_no_scale_makes_finite_are_skipped_and_counted():
    weight = keras.Variable(np.ones(3, "float32"), name="kernel")
    optimizer = BertAdamW(0.1, dynamic_loss_scale=True)
    optimizer.build([weight])
    optimizer.loss_scale.assign(2.0)
    for bad_value in (0.0, np.nan, np.inf, 0.0, np.nan):
        optimizer.apply([keras.ops.convert_to_tensor([1.0, 2, 3 + bad_value])], [weight])
    assert np.isfinite(keras.ops.convert_to_numpy(weight)).all()
    # Of three such steps the first halved the scale to 1.
    counts = optimizer.iterations, optimizer.skipped, optimizer.last_skipped
    assert [int(each) for each in counts] == [5, 2, 4]


@pytest.mark.parametrize(
    ("schedule", "num_warmup_steps", "rates"),
    [
        ("linear", 10, {0: 0, 1: 0.2, 5: 1, 9: 1.8, 10: 1.8, 50: 1, 99: 0.02, 100: 0}),
        ("linear", 0, {0: 2, 50: 1, 200: 0}),
        ("warmup-stable-decay", 10, {0: 0, 5: 1, 10: 2, 80: 2, 90: 1, 99: 0.1, 100: 0, 200: 0}),
    ],
)
def test_learning_rates_of_100_steps(schedule, num_warmup_steps, rates):
    rate = SCHEDULES[schedule](2.0, num_steps=100, num_warmup_steps=num_warmup_steps)
    assert {step: float(rate(step)) for step in rates} == pytest.approx(rates, abs=1e-6)
    with pytest.raises(InputError):
        SCHEDULES[schedule](2.0, num_steps=4, num_warmup_steps=4)
