"""JAX trains as TensorFlow does, on any number of devices."""

import keras
import numpy as np
import pytest

from tests.distribution.training import CONFIG, batches
from tests.under_jax import needs_jax, under_jax

pytestmark = needs_jax


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


CODE = """
import sys
import keras
import numpy as np
from tests.distribution.test_jax import trained

keras.distribution.set_distribution(keras.distribution.DataParallel())
np.savez(sys.argv[2], **trained(sys.argv[1]))
"""


@pytest.mark.parametrize("optimizer", ["adamw", "lamb", "muon"])
def test_eight_devices_give_the_weights_of_tensorflow(tmp_path, optimizer):
    devices = "--xla_force_host_platform_device_count=8"
    under_jax(CODE, optimizer, tmp_path / "jax.npz", XLA_FLAGS=devices)
    theirs = np.load(tmp_path / "jax.npz")
    for name, value in trained(optimizer).items():
        np.testing.assert_allclose(theirs[name], value, atol=2e-6, rtol=1e-5, err_msg=name)
