"""The feature-based tagger: what it reads of the frozen encoder, and the part that is trained."""

import dataclasses

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, BertFeatureTagger
from bert_keras.checkpoints.tensors import named_weights
from bert_keras.config import LAYER_CHOICES, BertConfig, feature_layers
from bert_keras.errors import InputError
from bert_keras.models.loading import load_model
from tests.tensorflow_or_skip import tf

CONFIG = BertConfig(vocab_size=40, hidden_size=16, num_layers=5, num_heads=2, max_positions=12)
# By choice: numbers of the hidden states (0 the embeddings), the size of a word's vector.
ONE = {"embeddings": ((0,), 16), "second-to-last": ((4,), 16), "last": ((5,), 16)}
FOUR = {"weighted-sum-last-four": ((2, 3, 4, 5), 16), "concat-last-four": ((2, 3, 4, 5), 64)}
TABLE_7 = {**ONE, **FOUR, "weighted-sum-all": ((1, 2, 3, 4, 5), 16)}
INPUTS = {
    "input_ids": np.random.default_rng(0).integers(5, 40, (3, 10), dtype="int32"),
    "input_mask": (np.arange(10) < np.array([[10], [7], [3]])).astype("int32"),
    "segment_ids": np.zeros((3, 10), "int32"),
    "word_positions": np.array([[1, 2, 5, 8], [1, 4, 5, 0], [1, 0, 0, 0]], "int32"),
}


def new(layers="weighted-sum-last-four", **changes):
    keras.utils.set_random_seed(1)
    return BertFeatureTagger(CONFIG, num_labels=3, layers=layers, lstm_units=6, **changes)


@pytest.mark.parametrize("layers", LAYER_CHOICES)
def test_the_six_choices_read_their_layers(layers):
    numbers, size = TABLE_7[layers]
    model = new(layers)
    states = model.encoder.states(INPUTS).hidden_states
    features = np.asarray(model.features(INPUTS))
    assert features.shape == (3, 4, len(numbers), 16)
    for row, positions in enumerate(INPUTS["word_positions"]):
        for word, place in enumerate(positions):
            expected = [np.asarray(states[number])[row, place] for number in numbers]
            np.testing.assert_array_equal(features[row, word], expected)
    kernel = named_weights(model)["tagger/bilstm/layer_0/forward_lstm/lstm_cell/kernel"]
    assert kernel.shape[0] == size
    mixed = "tagger/layer_mix/layer_logits" in named_weights(model)
    assert mixed == layers.startswith("weighted-sum")
    inputs = {"features": features, "word_mask": INPUTS["word_positions"] > 0}
    np.testing.assert_allclose(model.tagger(inputs), model(INPUTS), atol=1e-6)


def test_the_encoder_is_neither_trained_nor_dropped_out():
    model = new(dropout_rate=0.0)
    assert {weight.path.split("/")[1] for weight in model.trainable_weights} == {"tagger"}
    assert len(model.trainable_weights) == len(model.tagger.weights)
    with tf.GradientTape() as tape:
        logits = model(INPUTS, training=True)
        loss = tf.reduce_sum(logits * np.random.default_rng(3).normal(size=logits.shape))
    np.testing.assert_array_equal(logits, model(INPUTS))
    gradients = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
    assert all(np.abs(gradient).max() > 0 for gradient in gradients)


def test_a_saved_tagger_loads_with_the_same_logits(tmp_path):
    layers = "weighted-sum-all"
    model = new(layers, name="mine", dropout_rate=0.1)
    model.save(tmp_path / "it.keras")
    again = keras.models.load_model(tmp_path / "it.keras")
    assert again.get_config() == model.get_config()
    np.testing.assert_array_equal(again(INPUTS), model(INPUTS))
    model.save_pretrained(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.metadata.task == {"layers": layers, "lstm_units": 6}
    assert len(again.trainable_weights) == len(again.tagger.weights)
    np.testing.assert_array_equal(again(INPUTS), model(INPUTS))
    again.save_pretrained(tmp_path / "twin", labels=("O", "B-x", "I-x"))
    rebuilt = load_model(tmp_path / "twin")
    assert rebuilt.metadata.labels == ("O", "B-x", "I-x")
    np.testing.assert_array_equal(rebuilt(INPUTS), model(INPUTS))
    assert "unused      tagger" in str(BertEncoder.from_pretrained(tmp_path / "twin").load_report)


def test_impossible_arguments_are_refused():
    with pytest.raises(InputError):
        new("first")
    with pytest.raises(InputError):
        feature_layers("concat-last-four", num_layers=3)
    for task in ({"layers": "last"}, {"layers": "last", "lstm_units": 0}):
        metadata = dataclasses.replace(new().new_metadata(), task=task)
        with pytest.raises(InputError):
            BertFeatureTagger.from_metadata(metadata)
