import re

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.export.model_folder import export_model
from bert_keras.export.variants import int8
from bert_keras.export.variants.int8 import Int8
from bert_keras.export.variants.variant import Float16
from bert_keras.export.verify import answer
from bert_keras.models import load_model
from tests.export.variants.fine_tuned import TEXTS, fine_tuned

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
    return np.array(answer(folder, REQUESTS)[0]["score"])


def dtypes(folder):
    variables = tf.train.list_variables(str(folder / "variables" / "variables"))
    found = [
        tf.train.load_variable(str(folder / "variables" / "variables"), n) for n, _ in variables
    ]
    return [array.dtype.name for array in found if getattr(array, "ndim", 0)]


@pytest.fixture
def int8_kernel():
    """Skips where no int8 variant can be made; `test_int8_is_refused_...` is what holds there."""
    try:
        int8.check_kernel()
    except InputError as error:
        pytest.skip(f"no int8 here: {error}")


@pytest.fixture(scope="module")
def halves(model_folder, tmp_path_factory):
    return export_model(model_folder, tmp_path_factory.mktemp("a") / "1", variant=Float16)


def test_float16_stores_halves_and_answers_nearly_the_same(halves, expected):
    assert set(dtypes(halves)) == {"float16"}
    found = scores(halves)
    assert (found != expected).any()
    np.testing.assert_allclose(found, expected, rtol=3e-3, atol=3e-3)


@pytest.mark.slow
def test_halves_of_two_models_in_one_process_are_their_own(
    tmp_path, halves, expected, not_verified
):
    other, _ = fine_tuned("regression", tmp_path / "other", seed=4)
    other_halves = export_model(other, tmp_path / "b" / "1", variant=Float16)
    loaded = {"a": tf.saved_model.load(str(halves)), "b": tf.saved_model.load(str(other_halves))}
    asked = {
        name: model.signatures["serving_default"](text=tf.constant(TEXTS))["score"].numpy()
        for name, model in loaded.items()
    }
    np.testing.assert_allclose(asked["a"], expected, rtol=3e-3, atol=3e-3)
    assert np.abs(asked["a"] - asked["b"]).max() > 0.1


@pytest.mark.usefixtures("int8_kernel")
def test_int8_stores_kernels_of_blocks_in_a_byte(tmp_path, model_folder, expected):
    written = export_model(model_folder, tmp_path / "name" / "1", variant=Int8)
    assert dtypes(written).count("int8") == 6
    found = scores(written)
    assert (found != expected).any()
    spread = expected.max() - expected.min()
    np.testing.assert_allclose(found, expected, atol=0.05 * spread)


@pytest.mark.parametrize("kind", [Float16, Int8])
def test_a_model_answers_as_before_when_a_variant_was_traced(model_folder, expected, kind, request):
    if kind is Int8:
        request.getfixturevalue("int8_kernel")
    variant = kind(load_model(model_folder))
    tf.function(variant).get_concrete_function(
        {name: tf.constant(array) for name, array in _inputs(variant).items()}
    )
    found = variant(_inputs(variant)).numpy()[:, 0]
    np.testing.assert_array_equal(found, expected)


def test_int8_is_refused_where_its_product_is_missing_or_inexact(model_folder, monkeypatch):
    model, product = load_model(model_folder), int8._product
    try:
        int8.check_kernel()
    except InputError as error:  # as on a processor without VNNI
        with pytest.raises(InputError, match=re.escape(str(error))):
            Int8(model)
    monkeypatch.setattr(int8, "_product", lambda *of, **how: product(*of, **how) - 1.0)
    with pytest.raises(InputError, match="does not multiply int8 exactly, as those with VNNI"):
        Int8(model)

    def missing(*of, **how):
        raise tf.errors.InvalidArgumentError(None, None, "Fusion is not implemented")

    monkeypatch.setattr(int8, "_product", missing)
    with pytest.raises(InputError, match=r"has no int8 product \(_Quan"):
        Int8(model)
