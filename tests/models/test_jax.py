"""Models under Keras' JAX backend: numbers of TensorFlow, recomputation, ordinary things."""

import numpy as np
import pytest

from bert_keras import BertClassifier, BertPretrainer
from bert_keras.families import preset
from bert_keras.text.tokenizer import WordPieceTokenizer
from tests.factories import letter_vocabulary
from tests.under_jax import needs_jax, under_jax

pytestmark = needs_jax
UNDER_JAX = """
import sys
import keras
import numpy as np
from bert_keras.families import preset
from bert_keras.layers.block import seed_states
from bert_keras import BertClassifier

folder = sys.argv[1]
x = dict(np.load(f"{folder}/x.npz"))
for name in ("pretrainer", "classifier"):
    model = keras.models.load_model(f"{folder}/{name}.keras")
    outputs = model.predict(x, verbose=0)
    outputs = outputs if isinstance(outputs, dict) else {"logits": outputs}
    np.savez(f"{folder}/{name}.npz", **outputs)
texts = ["a", "b c d", "abc e"]
probabilities = [each["probabilities"] for each in model.predict(texts, verbose=0)]
np.save(f"{folder}/probabilities.npy", probabilities)
history = model.fit(texts * 4, [0, 1, 2] * 4, batch_size=6, validation_split=0.5, verbose=0)
assert history.history["val_loss"][0] > 0
assert keras.backend.backend() == "jax" and "tensorflow" not in sys.modules

def weights(recomputes):
    keras.utils.set_random_seed(1)
    config = preset("tiny", vocab_size=200, num_layers=1, hidden_dropout_rate=0.3)
    model = BertClassifier(config, num_labels=3)
    model.encoder.gradient_checkpointing = recomputes
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    inputs = {name: array for name, array in x.items() if name != "masked_lm_positions"}
    model.fit(inputs, np.arange(3), verbose=0)
    draws = [np.asarray(state.value)[1] for state in seed_states(model)]
    assert min(draws) > 0  # the next step draws anew
    return [np.asarray(weight.value) for weight in model.trainable_weights]

for plain, recomputed in zip(weights(False), weights(True), strict=True):
    np.testing.assert_allclose(recomputed, plain, rtol=1e-5, atol=1e-6)
"""


def test_logits_equal_those_of_tensorflow_and_recomputed_blocks_have_the_same_dropout(tmp_path):
    random = np.random.default_rng(0)
    x = {
        "input_ids": random.integers(5, 200, (3, 24), dtype="int32"),
        "input_mask": np.tril(np.ones((24, 24), "int32"))[[5, 14, 23]],
        "segment_ids": random.integers(0, 2, (3, 24), dtype="int32"),
        "masked_lm_positions": random.integers(1, 5, (3, 4), dtype="int32"),
    }
    np.savez(tmp_path / "x.npz", **x)
    config = preset("tiny", vocab_size=200)
    classifier = BertClassifier(config, num_labels=3)
    classifier.tokenizer = WordPieceTokenizer(letter_vocabulary())
    models = {"pretrainer": BertPretrainer(config), "classifier": classifier}
    for name, model in models.items():
        model.save(tmp_path / f"{name}.keras")
    under_jax(UNDER_JAX, tmp_path)
    answers = classifier.predict(["a", "b c d", "abc e"], verbose=0)
    probabilities = [each["probabilities"] for each in answers]
    np.testing.assert_allclose(np.load(tmp_path / "probabilities.npy"), probabilities, atol=1e-5)
    for name, model in models.items():
        theirs, outputs = np.load(tmp_path / f"{name}.npz"), model.predict(x, verbose=0)
        outputs = outputs if isinstance(outputs, dict) else {"logits": outputs}
        for output, array in outputs.items():
            assert np.abs(array - theirs[output]).max() <= 1e-5 * np.abs(array).max()


ORDINARY = """
import sys
from pathlib import Path
from tests.models.test_as_in_keras import UNDER_JAX, compare

for name in UNDER_JAX:
    compare(name, Path(sys.argv[1], name))
"""


@pytest.mark.slow
def test_ordinary_things_with_our_models_and_with_those_of_keras(tmp_path):
    under_jax(ORDINARY, tmp_path)
