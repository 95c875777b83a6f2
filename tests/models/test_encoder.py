"""The encoder against the formulas of the papers in NumPy: masks, packed rows, causal attention."""

import dataclasses
import math

import keras
import numpy as np
import pytest

from bert_keras.config import BertConfig
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.pretrained import check_inputs
from tests.factories import with_noise
from tests.tensorflow_or_skip import tf

SIZES = {"vocab_size": 30, "hidden_size": 12, "num_layers": 3, "num_heads": 3, "max_positions": 16}
CONFIG = BertConfig(**SIZES, initializer_stddev=0.2)
MODERN = {  # every option of ModernBERT (Warner et al. 2024)
    **{"norm_position": "pre", "position_kind": "rotary", "rotary_base": 1_000.0},
    **{"local_rotary_base": 50.0, "is_gated": True, "has_biases": False},
    **{"local_window": 4, "global_every": 2, "num_segments": 0},
}


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
    prefix = f"{encoder.name}/"
    weight = {w.path.removeprefix(prefix): np.asarray(w.value, "float64") for w in encoder.weights}

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


RELATIVE = [
    {"position_kind": kind, "num_relative_buckets": 4} for kind in ("relative", "disentangled")
]


@pytest.fixture(scope="module", params=[{}, MODERN, *RELATIVE], ids=repr)
def encoder(request) -> BertEncoder:
    return random_encoder(dataclasses.replace(CONFIG, **request.param))


def random_encoder(config: BertConfig) -> BertEncoder:
    keras.utils.set_random_seed(1)
    return with_noise(BertEncoder(config), stddev=0.1)  # biases, gamma and beta too must count


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


@pytest.mark.parametrize("is_causal", [False, True])
def test_the_pooler_reads_the_mean_of_the_tokens(is_causal):
    changes = {"pooling": "mean", "has_head_norm": True, "pooler_activation": ""}
    changes |= {"is_causal": is_causal}
    encoder, batch = random_encoder(dataclasses.replace(CONFIG, **changes)), inputs()
    batch["input_mask"][0] = 0  # a row of padding
    states = encoder.states(batch)
    is_real = batch["input_mask"][..., None] == 1
    means = np.mean(states.sequence_output[1:], axis=1, where=is_real[1:])
    expected = encoder.pooler(np.concatenate([np.zeros_like(means[:1]), means]))
    np.testing.assert_allclose(states.pooled_output, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("length", "changes", "is_packed"),
    [
        (200, {}, False),
        (131, {"local_window": 96, "is_causal": True}, True),
        (300, {"local_window": 2}, True),
    ],
)
def test_local_attention_in_blocks_equals_the_masked_form(length, changes, is_packed):
    sizes = {"num_layers": 2, "max_positions": 300}
    config = dataclasses.replace(CONFIG, **{**MODERN, **sizes, **changes})
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
        assert np.abs(ours - theirs).max() <= 1e-5 * np.abs(theirs).max()
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
    test_padding_changes_nothing(encoder)


def test_padding_changes_nothing(encoder):
    batch = inputs()
    longer = {name: np.pad(array, ((0, 0), (0, 5))) for name, array in batch.items()}
    longer["input_ids"][:, -5:] = 7
    ours, theirs = (encoder(each)["pooled_output"] for each in (batch, longer))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_autograph_converts_the_checks_of_inputs():
    assert tf.autograph.to_code(check_inputs)  # else a tf.function of the user warns


@pytest.mark.parametrize("changes", [{}, MODERN, {"local_window": 2}, *RELATIVE], ids=repr)
def test_an_encoder_that_skips_padding_computes_the_same(changes):
    length = 100  # of blocks of local attention
    sizes = {**changes, "max_positions": length}
    encoder, batch = random_encoder(dataclasses.replace(CONFIG, **sizes)), inputs(length=length)
    batch["input_mask"][0, 1:] = 0
    expected, encoder.skips_padding = encoder(batch), True
    found = encoder(batch)
    is_real = batch["input_mask"] == 1
    np.testing.assert_allclose(found["pooled_output"], expected["pooled_output"], atol=1e-5)
    states = (np.asarray(each["sequence_output"])[is_real] for each in (found, expected))
    np.testing.assert_allclose(*states, atol=2e-5)


def packed(batch: dict[str, np.ndarray], *, per_row: int, padding: int) -> dict[str, np.ndarray]:
    """The sequences of a batch, `per_row` of them one behind the other in a row, then padding."""
    lengths = batch["input_mask"].sum(axis=1)
    rows = []
    for first in range(0, len(lengths), per_row):
        numbers = range(first, first + per_row)
        parts = {name: [array[n, : lengths[n]] for n in numbers] for name, array in batch.items()}
        row = {name: np.concatenate(each) for name, each in parts.items()}
        row["position_ids"] = np.concatenate([np.arange(lengths[n]) for n in numbers])
        row["sequence_ids"] = np.repeat(range(1, per_row + 1), lengths[first : first + per_row])
        rows.append(row)
    length = max(len(row["input_ids"]) for row in rows) + padding
    padded = [{n: np.pad(v, (0, length - len(v))) for n, v in row.items()} for row in rows]
    return {name: np.stack([row[name] for row in padded]) for name in rows[0]}


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


def test_initial_weights_are_truncated_normal():
    encoder = BertEncoder(BertConfig(vocab_size=500, hidden_size=64, num_layers=1, num_heads=1))
    encoder.build()
    for weight in encoder.weights:
        values = np.asarray(weight)
        if values.ndim == 1:
            assert (values == (weight.name == "gamma")).all()
        else:
            assert np.abs(values).max() <= 0.04  # cut at two deviations, as tf.truncated_normal
            assert values.size < 4_000 or values.std() == pytest.approx(0.02 * 0.8796, rel=0.05)


CAUSAL = dataclasses.replace(
    CONFIG, is_causal=True, hidden_dropout_rate=0.0, attention_dropout_rate=0.0
)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_later_tokens_of_a_causal_encoder_change_nothing_bit_for_bit(dtype):
    encoder = random_encoder(CAUSAL)
    rebuilt = BertEncoder(CAUSAL, dtype=dtype)
    rebuilt.build()
    rebuilt.set_weights(encoder.get_weights())
    batch = inputs()
    other = batch | {"input_ids": np.where(np.arange(9) < 5, batch["input_ids"], 3)}
    ours, theirs = (
        np.asarray(rebuilt(each)["sequence_output"], "float32") for each in (batch, other)
    )
    np.testing.assert_array_equal(ours[:, :5], theirs[:, :5])
    assert np.abs(ours[:, 5:] - theirs[:, 5:]).max() > 0.01


@pytest.mark.slow
def test_xla_computes_the_same():
    encoder = random_encoder(dataclasses.replace(CAUSAL, num_layers=1, num_lstm_layers=1))
    compiled = tf.function(lambda batch: encoder(batch), jit_compile=True)
    for length in (9, 6):
        batch = {name: array[:, :length] for name, array in inputs().items()}
        for name, array in compiled(batch).items():
            np.testing.assert_allclose(array, encoder(batch)[name], atol=1e-5)
