"""JAX trains as TensorFlow does, on any number of devices."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from tests.distribution.training import CONFIG, batches

pytestmark = [
    pytest.mark.extra,
    pytest.mark.skipif(
        importlib.util.find_spec("jax") is None, reason='needs JAX: pip install "bert-keras[jax]"'
    ),
]


class Batches(keras.utils.PyDataset):
    def __init__(self):
        super().__init__()
        self.batches = list(batches())

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        return self.batches[index]


def trained(optimizer: str) -> dict[str, np.ndarray]:
    """Returns the weights after ten steps and the logs, from equal weights on every backend."""
    from bert_keras.config import BertConfig
    from bert_keras.models.pretrainer import BertPretrainer
    from bert_keras.training.losses import pretraining_losses, pretraining_metrics
    from bert_keras.training.optimizer import OPTIMIZERS

    model, random = BertPretrainer(BertConfig(**CONFIG)), np.random.default_rng(0)
    model.set_weights([random.normal(size=w.shape) / 5 for w in model.get_weights()])
    rule, metrics = OPTIMIZERS[optimizer](2e-4), pretraining_metrics()
    model.compile(rule, loss=pretraining_losses(), weighted_metrics=metrics)
    logs = model.fit(Batches(), epochs=1, shuffle=False, verbose=0).history
    weights = {w.path: keras.ops.convert_to_numpy(w) for w in model.trainable_variables}
    return weights | {name: np.array(values) for name, values in logs.items()}


@pytest.mark.parametrize("optimizer", ["adamw", "lamb", "muon"])
def test_eight_devices_give_the_weights_of_tensorflow(tmp_path, optimizer):
    environment = {
        "KERAS_BACKEND": "jax",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "PYTHONPATH": os.fspath(Path(__file__).parents[2]),
    }
    command = [sys.executable, __file__, optimizer, tmp_path / "jax.npz"]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    theirs = np.load(tmp_path / "jax.npz")
    for name, value in trained(optimizer).items():
        np.testing.assert_allclose(theirs[name], value, atol=2e-6, rtol=1e-5, err_msg=name)


if __name__ == "__main__":
    keras.distribution.set_distribution(keras.distribution.DataParallel())
    np.savez(sys.argv[2], **trained(sys.argv[1]))
