"""The losses of sentence embeddings and their gradients, against those of sentence-transformers."""

import numpy as np
import pytest

pytest.importorskip("torch", reason='needs PyTorch: pip install "bert-keras[parity]"')
pytest.importorskip(
    "sentence_transformers", reason='needs sentence-transformers: "bert-keras[parity]"'
)
from sentence_sides import PAIRS, loss_inputs, our_loss, their_loss

pytestmark = pytest.mark.extra


@pytest.mark.parametrize("is_matryoshka", [False, True], ids=["whole", "matryoshka"])
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.filterwarnings("ignore:The MultipleNegativesSymmetric")
def test_value_and_gradient(name, dtype, is_matryoshka):
    """Theirs is computed in float64, in which the gradients differ by less than 1e-12."""
    vectors, targets = loss_inputs(name)
    vectors = vectors.astype(dtype)
    value, gradient = our_loss(name, vectors, targets, is_matryoshka=is_matryoshka)
    wanted = their_loss(name, vectors.astype("float64"), targets, is_matryoshka=is_matryoshka)
    assert value == pytest.approx(wanted[0], rel=1e-6, abs=1e-6)
    largest = np.abs(wanted[1]).max()
    assert largest > 1e-3
    tolerance = 1e-12 if dtype == "float64" else 1e-6 * max(1, largest)
    np.testing.assert_allclose(gradient, wanted[1], rtol=0, atol=tolerance)
