import re

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.exporting.model_folder import export_model, text_model
from bert_keras.exporting.variants import int8
from bert_keras.exporting.variants.int8 import Int8
from bert_keras.exporting.variants.variant import Float16
from bert_keras.exporting.verify import run_requests
from bert_keras.models import load_model
from tests.exporting.variants.fine_tuned import TEXTS, fine_tuned

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
def test_int8_stores_the_kernels_of_blocks_as_int8(tmp_path, model_folder, expected):
    written = export_model(text_model(model_folder), tmp_path / "name" / "1", variant=Int8)
    assert dtypes(written).count("int8") == 6
    actual = scores(written)
    assert (actual != expected).any()
    spread = expected.max() - expected.min()
    np.testing.assert_allclose(actual, expected, atol=0.05 * spread)


@pytest.mark.parametrize("kind", [Float16, Int8])
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
