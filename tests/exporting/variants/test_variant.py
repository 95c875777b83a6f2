"""Graphs of the variants store and compute what they promise, close to the float32 model."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.config import BertConfig
from bert_keras.distribution import numerics
from bert_keras.errors import InputError
from bert_keras.exporting.export import export
from bert_keras.exporting.variants import export_variant, int8
from bert_keras.exporting.variants.int8 import Int8
from bert_keras.exporting.variants.variant import Bfloat16, Float16
from bert_keras.exporting.verify import run_requests
from bert_keras.layers.block import FeedForward
from bert_keras.models import BertClassifier, load_model
from bert_keras.text.encode import encode
from bert_keras.text.fast_tokenizer import tokenizer_of
from tests.exporting.variants.fine_tuned import TEXTS, VOCABULARY, fine_tuned
from tests.factories import with_noise

# A rounding to bfloat16, which has 8 significant bits, changes a number by at most 2^-9 of it. In a
# block, a processor without bfloat16 rounds about 24 times: inputs, kernels, products, biases,
# scores, softmax, GELU and sums. Roundings in the same direction add up.
BFLOAT16_ERROR = 24 * 2**-9
REQUESTS = [{"signature": "serving_default", "inputs": {"text": TEXTS}}]
KINDS = {"float16": Float16, "bfloat16": Bfloat16, "int8": Int8}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return fine_tuned("regression", tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def model(run):
    return load_model(run[0])


@pytest.fixture(scope="module")
def expected(model):
    return eager_scores(model)


def eager_scores(model):
    inputs = encode(model.tokenizer, TEXTS, max_length=16)
    return model(inputs, training=False).numpy()[:, 0]


@pytest.fixture
def scores(monkeypatch, tmp_path):
    """Returns a function that exports a variant and returns its scores of TEXTS."""
    monkeypatch.setattr(export_variant, "_compare", lambda *_, **__: None)
    monkeypatch.setattr(export_variant, "_NUM_ROUNDS", 0)
    monkeypatch.setattr(export_variant, "median", lambda values: 1.0)

    def scores(model, variant, data):
        options = {"task": "regression", "data": data, "variant": variant}
        folder = export(model, tmp_path / variant / "1", **options)
        return folder, np.array(run_requests(folder, REQUESTS)[0]["score"])

    return scores


def dtypes(folder):
    path = str(folder / "variables" / "variables")
    arrays = [tf.train.load_variable(path, name) for name, _ in tf.train.list_variables(path)]
    return [array.dtype.name for array in arrays if getattr(array, "ndim", 0)]


@pytest.fixture
def processor(tmp_path, monkeypatch):
    """Sets the flags of the processor."""

    def processor(flags: str):
        (tmp_path / "cpuinfo").write_text(f"flags : fpu {flags}")
        monkeypatch.setattr(numerics, "PROCESSORS", tmp_path / "cpuinfo")

    return processor


def test_float16_stores_half_precision_and_approximates_the_scores(scores, run, expected):
    folder, actual = scores(run[0], "float16", run[1])
    assert set(dtypes(folder)) == {"float16"}
    assert (actual != expected).any()
    np.testing.assert_allclose(actual, expected, rtol=3e-3, atol=3e-3)


@pytest.mark.slow
def test_two_float16_models_in_one_process_keep_separate_weights(scores, tmp_path, run, expected):
    first, _ = scores(run[0], "float16", run[1])
    other = fine_tuned("regression", tmp_path / "other", seed=4)
    second = export(other[0], tmp_path / "b" / "1", variant="float16", data=other[1])
    models = [tf.saved_model.load(str(folder)) for folder in (first, second)]
    one, two = (
        model.signatures["serving_default"](text=tf.constant(TEXTS))["score"] for model in models
    )
    np.testing.assert_allclose(one, expected, rtol=3e-3, atol=3e-3)
    assert np.abs(one - two).max() > 0.1


# The names of the cases select them in .ci/run: oneDNN aborts in bfloat16 if it may use AVX2 only.
@pytest.mark.parametrize(
    "flags", ["avx512_bf16", "avx512_vnni"], ids=["attention-bfloat16", "attention-float32"]
)
def test_int8_stores_the_kernels_of_blocks_as_int8(scores, run, expected, processor, flags):
    processor(flags)
    folder, actual = scores(run[0], "int8", run[1])
    assert dtypes(folder).count("int8") == 6
    assert (actual != expected).any()
    spread = expected.max() - expected.min()
    np.testing.assert_allclose(actual, expected, atol=0.05 * spread)


@pytest.mark.parametrize("largest", [127, 64])
@pytest.mark.parametrize("has_biases", [True, False])
def test_int8_feed_forward_network_of_tokens_of_any_size(has_biases, largest):
    if largest > int8.largest_weight():
        pytest.skip("this processor multiplies weights of 7 bits exactly, and none of 8 bits")
    keras.utils.set_random_seed(1)
    layer = FeedForward(128, activation="gelu", initializer_stddev=0.2, has_biases=has_biases)
    layer.build((None, 64))
    if has_biases:
        layer.intermediate_dense.bias.assign(keras.random.normal((128,), seed=1))
    sizes = np.array([0.0, 1e-30, 1e-3, 1.0, 1.0, 1e3])[:, None]
    x = tf.constant(sizes * np.random.default_rng(1).normal(size=(6, 64)), tf.float32)
    expected = layer(x).numpy()
    actual = tf.function(int8._QuantizedGelu(layer, largest))(x).numpy()
    spread = np.abs(expected).max(axis=1, keepdims=True)
    u = np.linspace(0, 2, 100_001, dtype=np.float32)
    assert 0 < int8._HIGHEST - (u * tf.math.erfc(u)).numpy().max() < 1e-6
    # The interval of the values of GELU is never shorter than its part below 0.
    assert (np.abs(actual - expected) <= 127 / largest * (0.013 * spread + 0.00325)).all()


def test_bfloat16_stores_two_bytes_a_weight_and_approximates_the_scores(
    scores, run, expected, processor
):
    processor("avx512_bf16")
    folder, actual = scores(run[0], "bfloat16", run[1])
    assert set(dtypes(folder)) == {"float16", "bfloat16"}
    assert (actual != expected).any()
    spread = expected.max() - expected.min()
    np.testing.assert_allclose(actual, expected, atol=BFLOAT16_ERROR * spread)


@pytest.mark.usefixtures("not_verified")
@pytest.mark.parametrize(
    "options",
    [
        {"shares_layers": True, "num_layers": 2, "layer_norm_epsilon": 1e-5},
        {
            "norm_position": "pre",
            "position_kind": "rotary",
            "is_gated": True,
            "has_biases": False,
            "num_layers": 2,
            "global_every": 2,
            "local_window": 4,
        },
    ],
)
@pytest.mark.parametrize("variant", ["bfloat16", "int8"])
def test_a_variant_computes_every_kind_of_block(scores, run, options, variant, processor):
    processor("avx512_bf16" if variant == "bfloat16" else "avx512_vnni")
    config = BertConfig(vocab_size=len(VOCABULARY), hidden_size=32, num_heads=2, max_positions=16,
                        initializer_stddev=0.2, **options)  # fmt: skip
    model = with_noise(BertClassifier(config, num_labels=1), stddev=0.0)
    model.tokenizer = tokenizer_of(VOCABULARY, lowercase=True)
    _, actual = scores(model, variant, run[1])
    expected = eager_scores(model)
    spread = expected.max() - expected.min()
    np.testing.assert_allclose(actual, expected, atol=2 * BFLOAT16_ERROR * spread)


@pytest.mark.parametrize("variant", KINDS)
def test_eager_outputs_are_unchanged_after_tracing_a_variant(model, expected, variant, processor):
    processor("avx512_bf16")
    traced = KINDS[variant](model)
    inputs = encode(model.tokenizer, TEXTS, max_length=16)
    tf.function(traced).get_concrete_function(
        {name: tf.constant(array) for name, array in inputs.items()}
    )
    np.testing.assert_array_equal(eager_scores(traced), expected)


def test_bfloat16_is_refused_on_a_processor_without_it(model, processor):
    processor("avx512_vnni amx_int8")
    with pytest.raises(InputError, match="AVX512-BF16 or AMX"):
        Bfloat16(model)


def test_int8_has_the_weights_that_the_processor_multiplies_exactly(model, monkeypatch):
    product = int8._product
    assert int8.largest_weight() in (127, 64)

    def saturating(x, kernel, **settings):  # as on a processor with AVX2 only
        return tf.minimum(product(x, kernel, **settings), 64.0 * 255 * 64)

    monkeypatch.setattr(int8, "_product", saturating)
    assert int8.largest_weight() == 64
    monkeypatch.setattr(int8, "_product", lambda *args, **kwargs: product(*args, **kwargs) - 1.0)
    with pytest.raises(InputError, match="does not multiply int8 exactly"):
        Int8(model)

    def missing(*args, **kwargs):
        raise tf.errors.InvalidArgumentError(None, None, "Fusion is not implemented")

    monkeypatch.setattr(int8, "_product", missing)
    with pytest.raises(InputError, match="no int8 matrix product"):
        Int8(model)
