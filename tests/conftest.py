"""What all tests share: quiet TensorFlow, a fixed seed, a small vocabulary, the shared data."""

import os
from pathlib import Path

import pytest

from bert_keras.quiet import import_tensorflow

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_DETERMINISTIC_OPS", "1")  # as `bert-keras` has it on a CPU
tf = pytest.importorskip("tensorflow")
tf.config.set_logical_device_configuration(  # for strategies; all else runs on the first
    tf.config.list_physical_devices("CPU")[0], 4 * [tf.config.LogicalDeviceConfiguration()]
)
import_tensorflow()

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture
def shared_data() -> Path:
    """Real corpora and task files, where they lie beside the checkout."""
    if not SHARED_DATA.is_dir():
        pytest.skip("needs ../shared/data, real corpora and task files beside the checkout")
    return SHARED_DATA
