"""Graphs in bfloat16 store and compute what they promise, close to the float32 model."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras import BertClassifier
from bert_keras.errors import InputError
from bert_keras.exporting import bfloat16 as module
from bert_keras.exporting.bfloat16 import Bfloat16
from bert_keras.exporting.verify import run_requests
from bert_keras.models.loading import load_model
from bert_keras.runs.export import export
from bert_keras.text.packing import encode
from bert_keras.text.tokenizer import WordPieceTokenizer
from tests.exporting.fine_tuned import SIZES, TEXTS, VOCABULARY, fine_tuned
from tests.factories import tiny_config, with_noise

# A rounding to bfloat16, which has 8 significant bits, changes a number by at most 2^-9 of it. In a
# block, a processor without bfloat16 rounds about 24 times: inputs, kernels, products, biases,
# scores, softmax, GELU and sums. Roundings in the same direction add up.
BFLOAT16_ERROR = 24 * 2**-9
REQUESTS = [{"signature": "serving_default", "inputs": {"text": TEXTS}}]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return fine_tuned("regression", tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def model(run):
    return load_model(run[0])


def eager_scores(model):
    inputs = encode(model.tokenizer, TEXTS, max_length=16)
    return model(inputs, training=False).numpy()[:, 0]


@pytest.fixture(scope="module")
def expected(model):
    return eager_scores(model)


@pytest.fixture
def scores(tmp_path, not_verified):
    """Returns a function that exports a model in bfloat16 and returns its scores of TEXTS."""

    def scores(model, data):
        options = {"task": "regression", "data": data, "max_score_drop": 200}
        folder = export(model, tmp_path / "b" / "1", variant="bfloat16", **options)
        return folder, np.array(run_requests(folder, REQUESTS)[0]["score"])

    return scores


def dtypes(folder):
    path = str(folder / "variables" / "variables")
    arrays = [tf.train.load_variable(path, name) for name, _ in tf.train.list_variables(path)]
    return [array.dtype.name for array in arrays if getattr(array, "ndim", 0)]


@pytest.fixture
def on_processor(monkeypatch):
    """Pretends that the processor multiplies bfloat16 or not."""
    name = "processor_has_bfloat16"
    return lambda *, has_bfloat16: monkeypatch.setattr(module, name, lambda: has_bfloat16)


# .ci/run selects this file by its name: oneDNN aborts in bfloat16 if it may use AVX2 only.
@pytest.mark.slow
def test_bfloat16_stores_fewer_bits_and_approximates_the_scores(
    scores, run, expected, on_processor
):
    on_processor(has_bfloat16=True)
    folder, actual = scores(run[0], run[1])
    assert {*dtypes(folder)} == {"bfloat16", "float32"}
    assert (actual != expected).any()
    np.testing.assert_allclose(actual, expected, atol=BFLOAT16_ERROR * np.ptp(expected))


@pytest.mark.parametrize(
    "options",
    [
        {"shares_layers": True, "layer_norm_epsilon": 1e-5},
        {"norm_position": "pre", "position_kind": "rotary", "is_gated": True, "has_biases": False}
        | {"global_every": 2, "local_window": 4},
    ],
)
@pytest.mark.slow
def test_bfloat16_computes_every_kind_of_block(scores, run, options, on_processor):
    on_processor(has_bfloat16=True)
    config = tiny_config(**{**SIZES, "num_layers": 2, "initializer_stddev": 0.2, **options})
    model = with_noise(BertClassifier(config, num_labels=1), stddev=0.0)
    model.tokenizer = WordPieceTokenizer(VOCABULARY, lowercase=True)
    _, actual = scores(model, run[1])
    expected = eager_scores(model)
    np.testing.assert_allclose(actual, expected, atol=2 * BFLOAT16_ERROR * np.ptp(expected))


def test_a_model_is_unchanged_after_tracing(model, expected, on_processor):
    on_processor(has_bfloat16=True)
    inputs = encode(model.tokenizer, TEXTS, max_length=16)
    specs = {name: tf.constant(array) for name, array in inputs.items()}
    tf.function(Bfloat16(model)).get_concrete_function(specs)
    np.testing.assert_array_equal(eager_scores(model), expected)


def test_bfloat16_is_refused_on_a_processor_without_it(model, on_processor):
    on_processor(has_bfloat16=False)
    with pytest.raises(InputError):
        Bfloat16(model)
