import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.config import BertConfig
from bert_keras.distribution import numerics
from bert_keras.errors import InputError
from bert_keras.exporting.model_folder import export_model, text_model
from bert_keras.exporting.variants import int8
from bert_keras.exporting.variants.bfloat16 import Bfloat16
from bert_keras.exporting.variants.int8 import Int8
from bert_keras.exporting.variants.variant import Float16
from bert_keras.exporting.verify import run_requests
from bert_keras.layers.block import FeedForward
from bert_keras.models import BertClassifier, load_model
from bert_keras.text.fast_tokenizer import tokenizer_of
from tests.exporting.variants.fine_tuned import TEXTS, VOCABULARY, fine_tuned

# A rounding to bfloat16, which has 8 significant bits, changes a number by at most 2^-9 of it. In a
# block, a processor without bfloat16 rounds about 24 times: inputs, kernels, products, biases,
# scores, softmax, GELU and sums. Roundings in the same direction add up.
BFLOAT16_ERROR = 24 * 2**-9
REQUESTS = [{"signature": "serving_default", "inputs": {"text": TEXTS}}]


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    return fine_tuned("regression", tmp_path_factory.mktemp("run"))[0]


@pytest.fixture(scope="module")
def expected(model_folder):
    model = load_model(model_folder)
    return model(_inputs(model), training=False).numpy()[:, 0]


def _inputs(model):
    ids = model.tokenizer.ids_batch(TEXTS)
    packed = [[model.tokenizer.vocabulary.cls_id, *each, model.tokenizer.vocabulary.sep_id]
              for each in ids]  # fmt: skip
    input_ids = np.array(packed, np.int32)
    return {
        "input_ids": input_ids,
        "input_mask": np.ones_like(input_ids),
        "segment_ids": np.zeros_like(input_ids),
    }


def scores(folder):
    return np.array(run_requests(folder, REQUESTS)[0]["score"])


def dtypes(folder):
    variables = tf.train.list_variables(str(folder / "variables" / "variables"))
    arrays = [
        tf.train.load_variable(str(folder / "variables" / "variables"), n) for n, _ in variables
    ]
    return [array.dtype.name for array in arrays if getattr(array, "ndim", 0)]


@pytest.fixture
def int8_kernel():
    """Skips a test on machines without an exact int8 product (`test_int8_is_refused_...`)."""
    try:
        int8.check_kernel()
    except InputError as error:
        pytest.skip(f"no int8 on this machine: {error}")


@pytest.fixture
def processor(tmp_path, monkeypatch):
    """Sets the flags of the processor."""

    def processor(flags: str):
        (tmp_path / "cpuinfo").write_text(f"flags : fpu {flags}")
        monkeypatch.setattr(numerics, "PROCESSORS", tmp_path / "cpuinfo")

    processor("avx512_bf16")
    return processor


@pytest.fixture(scope="module")
def float16_folder(model_folder, tmp_path_factory):
    return export_model(
        text_model(model_folder), tmp_path_factory.mktemp("a") / "1", variant=Float16
    )


def test_float16_stores_half_precision_and_approximates_the_scores(float16_folder, expected):
    assert set(dtypes(float16_folder)) == {"float16"}
    actual = scores(float16_folder)
    assert (actual != expected).any()
    np.testing.assert_allclose(actual, expected, rtol=3e-3, atol=3e-3)


@pytest.mark.slow
def test_two_float16_models_in_one_process_keep_separate_weights(
    tmp_path, float16_folder, expected, not_verified
):
    other, _ = fine_tuned("regression", tmp_path / "other", seed=4)
    other_folder = export_model(text_model(other), tmp_path / "b" / "1", variant=Float16)
    loaded = {
        "a": tf.saved_model.load(str(float16_folder)),
        "b": tf.saved_model.load(str(other_folder)),
    }
    scores_of = {
        name: model.signatures["serving_default"](text=tf.constant(TEXTS))["score"].numpy()
        for name, model in loaded.items()
    }
    np.testing.assert_allclose(scores_of["a"], expected, rtol=3e-3, atol=3e-3)
    assert np.abs(scores_of["a"] - scores_of["b"]).max() > 0.1


@pytest.mark.usefixtures("int8_kernel")
@pytest.mark.parametrize("flags", ["avx512_bf16", "avx512_vnni"])
def test_int8_stores_the_kernels_of_blocks_as_int8(
    tmp_path, model_folder, expected, processor, flags
):
    processor(flags)
    written = export_model(text_model(model_folder), tmp_path / "name" / "1", variant=Int8)
    assert dtypes(written).count("int8") == 6
    actual = scores(written)
    assert (actual != expected).any()
    spread = expected.max() - expected.min()
    np.testing.assert_allclose(actual, expected, atol=0.05 * spread)


@pytest.mark.usefixtures("int8_kernel")
@pytest.mark.parametrize("has_biases", [True, False])
def test_int8_feed_forward_network_of_tokens_of_any_size(has_biases):
    keras.utils.set_random_seed(1)
    layer = FeedForward(128, activation="gelu", initializer_stddev=0.2, has_biases=has_biases)
    layer.build((None, 64))
    if has_biases:
        layer.intermediate_dense.bias.assign(keras.random.normal((128,), seed=1))
    sizes = np.array([0.0, 1e-30, 1e-3, 1.0, 1.0, 1e3])[:, None]
    x = tf.constant(sizes * np.random.default_rng(1).normal(size=(6, 64)), tf.float32)
    expected = layer(x).numpy()
    actual = tf.function(int8._QuantizedGelu(layer))(x).numpy()
    spread = np.abs(layer(x)).max(axis=1, keepdims=True)
    u = np.linspace(0, 2, 100_001, dtype=np.float32)
    assert 0 < int8._HIGHEST - (u * tf.math.erfc(u)).numpy().max() < 1e-6
    # The interval of the values of GELU is never shorter than its part below 0.
    assert (np.abs(actual - expected) <= 0.013 * spread + 0.00325).all()


@pytest.mark.usefixtures("processor")
def test_bfloat16_stores_two_bytes_a_weight_and_approximates_the_scores(
    tmp_path, model_folder, expected
):
    written = export_model(text_model(model_folder), tmp_path / "name" / "1", variant=Bfloat16)
    assert set(dtypes(written)) == {"float16", "bfloat16"}
    actual = scores(written)
    assert (actual != expected).any()
    spread = expected.max() - expected.min()
    np.testing.assert_allclose(actual, expected, atol=BFLOAT16_ERROR * spread)


@pytest.mark.usefixtures("processor", "not_verified")
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
@pytest.mark.parametrize("kind", [Bfloat16, Int8])
def test_a_variant_computes_every_kind_of_block(tmp_path, options, kind, request):
    if kind is Int8:
        request.getfixturevalue("int8_kernel")
    config = BertConfig(vocab_size=len(VOCABULARY), hidden_size=32, num_heads=2, max_positions=16,
                        initializer_stddev=0.2, **{"num_layers": 1, **options})  # fmt: skip
    keras.utils.set_random_seed(1)
    model = BertClassifier(config, num_labels=1)
    tokenizer = tokenizer_of(VOCABULARY, lowercase=True)
    described = text_model(model, tokenizer=tokenizer, labels=["score"], max_length=16)
    written = export_model(described, tmp_path / "name" / "1", variant=kind)
    model.tokenizer = tokenizer
    expected = model(_inputs(model), training=False).numpy()[:, 0]
    spread = expected.max() - expected.min()
    np.testing.assert_allclose(scores(written), expected, atol=2 * BFLOAT16_ERROR * spread)


def test_bfloat16_is_refused_on_a_processor_without_it(model_folder, processor):
    processor("avx512_vnni amx_int8")
    with pytest.raises(InputError, match="processors with AVX512-BF16 or AMX do; choose another"):
        Bfloat16(load_model(model_folder))


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize("kind", [Float16, Bfloat16, Int8])
def test_eager_outputs_are_unchanged_after_tracing_a_variant(model_folder, expected, kind, request):
    if kind is Int8:
        request.getfixturevalue("int8_kernel")
    variant = kind(load_model(model_folder))
    tf.function(variant).get_concrete_function(
        {name: tf.constant(array) for name, array in _inputs(variant).items()}
    )
    actual = variant(_inputs(variant)).numpy()[:, 0]
    np.testing.assert_array_equal(actual, expected)


def test_int8_is_refused_if_its_product_is_missing_or_inexact(model_folder, monkeypatch):
    model, product = load_model(model_folder), int8._product
    try:
        int8.check_kernel()
    except InputError as error:  # as on a processor without VNNI
        with pytest.raises(InputError, match=re.escape(str(error))):
            Int8(model)
    monkeypatch.setattr(int8, "_product", lambda *args, **kwargs: product(*args, **kwargs) - 1.0)
    with pytest.raises(InputError, match="does not multiply int8 exactly, as processors with VNNI"):
        Int8(model)

    def missing(*args, **kwargs):
        raise tf.errors.InvalidArgumentError(None, None, "Fusion is not implemented")

    monkeypatch.setattr(int8, "_product", missing)
    with pytest.raises(InputError, match=r"has no int8 matrix product \(_Quan"):
        Int8(model)
