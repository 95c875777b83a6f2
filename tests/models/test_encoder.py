"""The encoder against a statement of the paper in NumPy, and its promises."""

import dataclasses
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.pretrainer import BertPretrainer

CONFIG = BertConfig(
    vocab_size=30,
    hidden_size=12,
    num_layers=3,
    num_heads=3,
    max_positions=16,
    initializer_stddev=0.2,
)


MODERN = dict(  # every option of ModernBERT (Warner et al. 2024)
    norm_position="pre",
    position_kind="rotary",
    rotary_base=1_000.0,
    local_rotary_base=50.0,
    is_gated=True,
    has_biases=False,
    local_window=4,
    global_every=2,
    num_segments=0,
)


def inputs(*, batch: int = 4, length: int = 9) -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    real = random.integers(2, length + 1, batch)
    mask = (np.arange(length) < real[:, None]).astype("int32")
    return {
        "input_ids": random.integers(0, 30, (batch, length), dtype="int32") * mask,
        "input_mask": mask,
        "segment_ids": random.integers(0, 2, (batch, length), dtype="int32") * mask,
    }


def reference(encoder: BertEncoder, batch: dict[str, np.ndarray]):
    """The forward pass in float64: all hidden states, all attention maps, the pooled vector."""
    config = encoder.config
    weight = {
        w.path.removeprefix(f"{encoder.name}/"): np.asarray(w.value, "float64")
        for w in encoder.weights
    }

    def dense(x, name):
        return x @ weight[f"{name}/kernel"] + weight.get(f"{name}/bias", 0)

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + config.layer_norm_epsilon)
        return x * weight[f"{name}/gamma"] + weight.get(f"{name}/beta", 0)

    def heads(x):
        return np.moveaxis(x.reshape(*x.shape[:2], config.num_heads, -1), 2, 1)

    def turned(x, base):
        """Su et al. 2021: the pairs (i, i + n) of a head are complex numbers that turn."""
        pairs = x.shape[-1] // 2
        angles = np.outer(np.arange(x.shape[-2]), base ** (-np.arange(pairs) / pairs))
        x = (x[..., :pairs] + 1j * x[..., pairs:]) * np.exp(1j * angles)
        return np.concatenate([x.real, x.imag], -1)

    erf = np.vectorize(math.erf)
    ids, is_rotary = batch["input_ids"], config.position_kind == "rotary"
    is_pre, has_segments = config.norm_position == "pre", config.num_segments > 0
    x = weight["embeddings/token"][ids]
    if not is_rotary:
        x = x + weight["embeddings/position"][: ids.shape[1]]
    if has_segments:
        x = x + weight["embeddings/segment"][batch["segment_ids"]]
    x = norm(x, "embeddings/norm")
    states, maps = [x], []
    for index in range(config.num_layers):
        name = f"layer_{0 if config.shares_layers else index}"
        is_local = config.local_window > 0 and index % config.global_every != 0
        normed = x
        if is_pre and (index > 0 or config.shares_layers):
            normed = norm(x, f"{name}/attention_norm")
        query, key, value = (
            heads(dense(normed, f"{name}/attention/{part}")) for part in ("query", "key", "value")
        )
        if is_rotary:
            base = (config.local_rotary_base if is_local else 0) or config.rotary_base
            query, key = turned(query, base), turned(key, base)
        scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
        scores = np.where(batch["input_mask"][:, None, None, :] == 1, scores, -1e4)
        if config.is_causal:
            scores = np.where(np.tri(ids.shape[1]) == 1, scores, -np.inf)
        if is_local:
            distance = np.abs(np.subtract.outer(*[np.arange(ids.shape[1])] * 2))
            scores = np.where(distance <= config.local_window / 2, scores, -np.inf)
        attention = np.exp(scores - scores.max(-1, keepdims=True))
        attention /= attention.sum(-1, keepdims=True)
        context = np.moveaxis(attention @ value, 1, 2).reshape(x.shape)
        x = x + dense(context, f"{name}/attention/output")
        if not is_pre:
            x = norm(x, f"{name}/attention_norm")
        normed = norm(x, f"{name}/feed_forward_norm") if is_pre else x
        inner = dense(normed, f"{name}/feed_forward/intermediate")
        inner, gated = np.split(inner, 2, -1) if config.is_gated else (inner, 1.0)
        inner = inner * 0.5 * (1 + erf(inner / math.sqrt(2))) * gated
        x = x + dense(inner, f"{name}/feed_forward/output")
        if not is_pre:
            x = norm(x, f"{name}/feed_forward_norm")
        states.append(x)
        maps.append(attention)
    if is_pre:
        x = states[-1] = norm(x, "final_norm")
    whole = batch["input_mask"].sum(1) - 1 if config.is_causal else 0
    return states, maps, np.tanh(dense(x[np.arange(len(x)), whole], "pooler"))


@pytest.fixture(scope="module", params=[{}, MODERN], ids=["bert", "modern"])
def encoder(request) -> BertEncoder:
    return random_encoder(dataclasses.replace(CONFIG, **request.param))


def random_encoder(config: BertConfig) -> BertEncoder:
    keras.utils.set_random_seed(1)
    encoder = BertEncoder(config)
    encoder.build()
    for weight in encoder.weights:  # biases, gamma and beta too must count
        weight.assign(weight + keras.random.normal(weight.shape, stddev=0.1))
    return encoder


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"is_causal": True},
        {"norm_position": "pre"},
        {"position_kind": "rotary"},
        MODERN,
        {**MODERN, "shares_layers": True, "is_causal": True},
    ],
    ids=["bert", "causal", "pre_norm", "rotary", "modern", "modern_causal_shared"],
)
def test_every_layer_equals_the_paper(changes):
    encoder = random_encoder(dataclasses.replace(CONFIG, **changes))
    batch = inputs()
    states, (hidden_states, attentions, pooled) = encoder.states(batch), reference(encoder, batch)
    assert len(states.hidden_states) == 4 and len(states.attentions) == 3
    is_real_BT = batch["input_mask"] == 1  # a padding token may have no text in its window

    def of_tokens(states, attentions):
        maps = [np.moveaxis(np.asarray(each), 1, 2) for each in attentions]
        return [np.asarray(each)[is_real_BT] for each in (*states, *maps)]

    for ours, theirs in zip(
        (*of_tokens(states.hidden_states, states.attentions), np.asarray(states.pooled_output)),
        (*of_tokens(hidden_states, attentions), pooled),
        strict=True,
    ):
        assert np.abs(ours - theirs).max() <= 1e-5 * np.abs(theirs).max()


def test_the_pooler_reads_the_mean_of_the_tokens():
    changes = {"pooling": "mean", "has_head_norm": True, "pooler_activation": ""}
    encoder, batch = random_encoder(dataclasses.replace(CONFIG, **changes)), inputs()
    batch["input_mask"][0] = 0  # a row of padding
    states = encoder.states(batch)
    is_real = batch["input_mask"][..., None] == 1
    means = np.mean(states.sequence_output[1:], axis=1, where=is_real[1:])
    expected = encoder.pooler(np.concatenate([np.zeros_like(means[:1]), means]))
    np.testing.assert_allclose(states.pooled_output, expected, atol=1e-5)
    assert "norm" in encoder.pooler.weights[-1].path
    with pytest.raises(InputError, match="pooling is mean; expected cls: next sentences"):
        BertPretrainer(encoder.config)


@pytest.mark.parametrize("position_kind", ["learned", "rotary"])
def test_local_attention_of_a_batch_without_rows(position_kind):
    changes = {"position_kind": position_kind, "local_window": 4, "max_positions": 200}
    encoder = random_encoder(dataclasses.replace(CONFIG, global_every=2, **changes))
    call = tf.function(encoder, reduce_retracing=True)
    for num_rows in (2, 0):
        output = call(inputs(batch=num_rows, length=200))["sequence_output"]
        assert output.shape == (num_rows, 200, CONFIG.hidden_size)


@pytest.mark.parametrize(
    ("length", "changes"),
    [(200, {}), (131, {"local_window": 96, "is_causal": True}), (300, {"local_window": 2})],
)
@pytest.mark.parametrize("is_packed", [False, True])
def test_local_attention_in_blocks_equals_the_masked_form(length, changes, is_packed):
    config = dataclasses.replace(CONFIG, **{**MODERN, "max_positions": 300, **changes})
    encoder, batch = random_encoder(config), inputs(length=length)
    if is_packed:
        batch = packed(batch, per_row=2, padding=7)

    def outputs_and_gradients(call):
        with tf.GradientTape() as tape:
            outputs = call(batch)
            loss = tf.reduce_sum(outputs**2 * np.linspace(0, 1, 12, dtype="float32"))
        weights = [w for w in encoder.trainable_variables if "pooler" not in w.path]
        gradients = tape.gradient(loss, [weight.value for weight in weights])
        return [outputs, *map(tf.convert_to_tensor, gradients)]

    @tf.function(
        input_signature=[{n: tf.TensorSpec((None, None), a.dtype) for n, a in batch.items()}]
    )
    def of_unknown_length(batch):
        return encoder(batch)["sequence_output"]

    masked = outputs_and_gradients(lambda batch: encoder.states(batch).sequence_output)
    in_blocks = outputs_and_gradients(lambda batch: encoder(batch)["sequence_output"])
    for ours, theirs in zip(in_blocks, masked, strict=True):
        assert np.abs(ours - theirs).max() <= 2e-6 * np.abs(theirs).max()
    is_real = batch["input_mask"] == 1
    np.testing.assert_allclose(
        of_unknown_length(batch).numpy()[is_real], masked[0].numpy()[is_real], atol=2e-5
    )


def test_a_bilstm_reads_the_last_hidden_states():
    encoder = random_encoder(dataclasses.replace(CONFIG, num_lstm_layers=2))
    batch = inputs()
    states, is_real = encoder.states(batch), batch["input_mask"] == 1
    read = encoder.bilstm(states.hidden_states[-1], is_real)
    assert read.shape == states.hidden_states[-1].shape
    outputs = encoder(batch)
    np.testing.assert_array_equal(outputs["sequence_output"], read)
    np.testing.assert_array_equal(outputs["pooled_output"], encoder.pooler(read[:, 0]))
    longer = {name: np.pad(array, ((0, 0), (0, 5))) for name, array in batch.items()}
    longer["input_ids"][:, -5:] = 7
    for name, array in encoder(longer).items():
        array = np.asarray(array)[:, :9] if name == "sequence_output" else array
        np.testing.assert_allclose(array, outputs[name], atol=1e-6)


def test_call_returns_the_last_hidden_states(encoder):
    outputs, states = encoder(inputs()), encoder.states(inputs())
    np.testing.assert_array_equal(outputs["sequence_output"], states.hidden_states[-1])
    np.testing.assert_array_equal(outputs["pooled_output"], states.pooled_output)


def test_padding_changes_nothing(encoder):
    batch = inputs()
    longer = {name: np.pad(array, ((0, 0), (0, 5))) for name, array in batch.items()}
    longer["input_ids"][:, -5:] = 7
    np.testing.assert_allclose(
        encoder(batch)["pooled_output"], encoder(longer)["pooled_output"], atol=1e-6
    )


def packed(batch: dict[str, np.ndarray], *, per_row: int, padding: int) -> dict[str, np.ndarray]:
    """The sequences of a batch, `per_row` of them one behind the other in a row, then padding."""
    lengths = batch["input_mask"].sum(axis=1)
    rows = []
    for first in range(0, len(lengths), per_row):
        numbers = range(first, first + per_row)
        row = {
            name: np.concatenate([array[n, : lengths[n]] for n in numbers])
            for name, array in batch.items()
        }
        row["position_ids"] = np.concatenate([np.arange(lengths[n]) for n in numbers])
        row["sequence_ids"] = np.repeat(range(1, per_row + 1), lengths[first : first + per_row])
        rows.append(row)
    length = max(len(row["input_ids"]) for row in rows) + padding
    return {
        name: np.stack([np.pad(row[name], (0, length - len(row[name]))) for row in rows])
        for name in rows[0]
    }


def test_packed_sequences_equal_separate_ones(encoder):
    batch = inputs(batch=6)
    lengths = batch["input_mask"].sum(axis=1)
    alone = encoder(batch)["sequence_output"]
    together = encoder(packed(batch, per_row=3, padding=2))["sequence_output"]
    assert together.shape[1] > CONFIG.max_positions, "positions begin anew, so rows may be longer"
    for number, length in enumerate(lengths):
        row, begin = number // 3, lengths[number // 3 * 3 : number].sum()
        np.testing.assert_allclose(
            together[row, begin : begin + length], alone[number, :length], atol=1e-5
        )


def test_padding_of_a_packed_row_changes_nothing(encoder):
    batch = inputs(batch=6)
    row = packed(batch, per_row=2, padding=0)
    longer = packed(batch, per_row=2, padding=3)
    longer["input_ids"][:, -3:] = 7
    ours, theirs = encoder(row)["sequence_output"], encoder(longer)["sequence_output"]
    real = row["input_mask"] == 1
    assert np.isfinite(theirs).all()
    np.testing.assert_allclose(
        np.asarray(ours)[real], np.asarray(theirs)[:, : real.shape[1]][real], atol=1e-6
    )


def test_attention_of_a_packed_row_stays_within_each_sequence(encoder):
    batch = packed(inputs(batch=6), per_row=3, padding=2)
    same = batch["sequence_ids"][:, None, :, None] == batch["sequence_ids"][:, None, None, :]
    for attention in encoder.states(batch).attentions:
        attention = np.asarray(attention)
        assert (attention[~np.broadcast_to(same, attention.shape)] == 0).all()
        np.testing.assert_allclose(attention.sum(-1), 1, rtol=1e-5)


def test_initial_weights_are_truncated_normal():
    encoder = BertEncoder(BertConfig(vocab_size=500, hidden_size=64, num_layers=1, num_heads=1))
    encoder.build()
    kernels = [w for w in encoder.weights if len(w.shape) == 2]
    for weight in (keras.ops.convert_to_numpy(kernel) for kernel in kernels):
        assert np.abs(weight).max() <= 0.04  # cut at two deviations, as tf.truncated_normal
        if weight.size > 4_000:
            assert weight.std() == pytest.approx(0.02 * 0.8796, rel=0.05)
    for weight in encoder.weights:
        if weight.name in ("bias", "beta"):
            assert not keras.ops.convert_to_numpy(weight).any()
        if weight.name == "gamma":
            assert np.all(keras.ops.convert_to_numpy(weight) == 1)


def test_dropout_acts_only_in_training():
    keras.utils.set_random_seed(1)
    encoder = BertEncoder(CONFIG)
    encoder.build()
    calm = encoder(inputs())["pooled_output"]
    np.testing.assert_array_equal(calm, encoder(inputs())["pooled_output"])
    assert np.abs(calm - encoder(inputs(), training=True)["pooled_output"]).max() > 0.01


def test_a_sequence_longer_than_the_positions_is_refused(encoder):
    with pytest.raises(InputError, match="has 17 tokens, but the encoder has 16 positions"):
        encoder(inputs(length=17))


def test_gelu_and_its_approximation_differ():
    from bert_keras.layers.primitives import activate

    x = np.linspace(-3, 3, 50, dtype="float32")
    exact, approximate = activate(x, activation="gelu"), activate(x, activation="gelu_tanh")
    erf = np.vectorize(math.erf)
    np.testing.assert_allclose(exact, x * 0.5 * (1 + erf(x / math.sqrt(2))), atol=1e-6)
    assert 1e-5 < np.abs(exact - approximate).max() < 1e-3
