"""Encoder and heads under Keras' JAX backend: the same numbers as under TensorFlow."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

from bert_keras.models import BertClassifier, BertPretrainer
from bert_keras.presets import preset

pytestmark = [
    pytest.mark.extra,
    pytest.mark.skipif(
        importlib.util.find_spec("jax") is None, reason='needs JAX: pip install "bert-keras[jax]"'
    ),
]

UNDER_JAX = """
import sys
import keras
import numpy as np
from bert_keras.models import BertClassifier, BertPretrainer

assert keras.backend.backend() == "jax"
folder = sys.argv[1]
x = dict(np.load(f"{folder}/x.npz"))
for name in ("pretrainer", "classifier"):
    model = keras.models.load_model(f"{folder}/{name}.keras")
    outputs = model.predict(x, verbose=0)
    outputs = outputs if isinstance(outputs, dict) else {"logits": outputs}
    np.savez(f"{folder}/{name}.npz", **outputs)
assert "tensorflow" not in sys.modules
"""


def test_jax_logits_equal_those_of_tensorflow(tmp_path):
    config = preset("tiny", vocab_size=200)
    random = np.random.default_rng(0)
    x = {
        "input_ids": random.integers(5, 200, (3, 24), dtype="int32"),
        "input_mask": np.tril(np.ones((24, 24), "int32"))[[5, 14, 23]],
        "segment_ids": random.integers(0, 2, (3, 24), dtype="int32"),
        "masked_lm_positions": random.integers(1, 5, (3, 4), dtype="int32"),
    }
    np.savez(tmp_path / "x.npz", **x)
    ours = {}
    for name, model in (
        ("pretrainer", BertPretrainer(config)),
        ("classifier", BertClassifier(config, num_labels=3)),
    ):
        model.save(tmp_path / f"{name}.keras")
        outputs = model.predict(x, verbose=0)
        ours[name] = outputs if isinstance(outputs, dict) else {"logits": outputs}
    run = subprocess.run(
        [sys.executable, "-c", UNDER_JAX, tmp_path],
        env={**os.environ, "KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    for name, outputs in ours.items():
        theirs = np.load(tmp_path / f"{name}.npz")
        for output, array in outputs.items():
            assert np.abs(array - theirs[output]).max() <= 1e-5 * np.abs(array).max()
