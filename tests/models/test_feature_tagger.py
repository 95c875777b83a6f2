"""The feature-based tagger: what it reads of the frozen encoder, and the part that is trained."""

import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.models import BertEncoder, BertFeatureTagger, load_model
from bert_keras.models.feature_tagger import LAYER_CHOICES, feature_layers
from bert_keras.models.pretrained import named_weights

CONFIG = BertConfig(vocab_size=40, hidden_size=16, num_layers=5, num_heads=2, max_positions=12)
# By choice: numbers of the hidden states (0 the embeddings), the size of a word's vector.
TABLE_7 = {
    "embeddings": ((0,), 16),
    "second-to-last": ((4,), 16),
    "last": ((5,), 16),
    "weighted-sum-last-four": ((2, 3, 4, 5), 16),
    "concat-last-four": ((2, 3, 4, 5), 64),
    "weighted-sum-all": ((1, 2, 3, 4, 5), 16),
}
INPUTS = {
    "input_ids": np.random.default_rng(0).integers(5, 40, (3, 10), dtype="int32"),
    "input_mask": (np.arange(10) < np.array([[10], [7], [3]])).astype("int32"),
    "segment_ids": np.zeros((3, 10), "int32"),
    "word_positions": np.array([[1, 2, 5, 8], [1, 4, 5, 0], [1, 0, 0, 0]], "int32"),
}


def new(layers="weighted-sum-last-four", **changes):
    keras.utils.set_random_seed(1)
    return BertFeatureTagger(CONFIG, num_labels=3, layers=layers, lstm_units=6, **changes)


@pytest.fixture(params=LAYER_CHOICES)
def layers(request):
    return request.param


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


two_choices = pytest.mark.parametrize(
    "layers",
    [
        each
        if each in ("concat-last-four", "weighted-sum-all")
        else pytest.param(each, marks=pytest.mark.slow)
        for each in LAYER_CHOICES
    ],
)


@two_choices
def test_the_tagger_on_features_has_the_logits_of_the_model(layers):
    model = new(layers)
    features = np.asarray(model.features(INPUTS))
    inputs = {"features": features, "word_mask": INPUTS["word_positions"] > 0}
    np.testing.assert_allclose(model.tagger(inputs), model(INPUTS), atol=1e-6)


def test_the_encoder_is_neither_trained_nor_dropped_out():
    model = new(dropout_rate=0.0)
    assert {weight.path.split("/")[1] for weight in model.trainable_weights} == {"tagger"}
    assert len(model.trainable_weights) == len(model.tagger.weights)
    np.testing.assert_array_equal(model(INPUTS, training=True), model(INPUTS))


def test_every_trained_weight_gets_a_gradient():
    model = new()
    with tf.GradientTape() as tape:
        logits = model(INPUTS, training=True)
        loss = tf.reduce_sum(logits * np.random.default_rng(3).normal(size=logits.shape))
    gradients = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
    for weight, gradient in zip(model.trainable_weights, gradients, strict=True):
        assert gradient is not None and np.abs(gradient).max() > 0, weight.path


@pytest.mark.slow
def test_the_tagger_overfits_one_sentence():
    model = new("concat-last-four", dropout_rate=0.0)
    x = {"features": np.asarray(model.features(INPUTS)), "word_mask": INPUTS["word_positions"] > 0}
    y = np.array([[0, 1, 2, 0], [1, 1, 0, 0], [2, 0, 0, 0]])
    model.tagger.compile(
        optimizer=keras.optimizers.Adam(0.02),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    batch = tf.data.Dataset.from_tensors((x, y, x["word_mask"].astype("float32"))).repeat(60)
    model.tagger.fit(batch, shuffle=False, verbose=0)
    actual = np.asarray(model(INPUTS)).argmax(-1)
    np.testing.assert_array_equal(actual[x["word_mask"]], y[x["word_mask"]])


@pytest.mark.parametrize(
    "layers", [pytest.param("concat-last-four", marks=pytest.mark.slow), "weighted-sum-all"]
)
def test_a_saved_tagger_loads_with_the_same_logits(layers, tmp_path):
    model = new(layers)
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


def test_only_the_native_format_stores_the_tagger(tmp_path):
    model = new()
    for format in ("huggingface", "google", "keras-hub"):
        with pytest.raises(InputError, match="agger"):
            model.save_pretrained(tmp_path / "it", format=format)


@pytest.mark.filterwarnings("error:model.card")
def test_keras_rebuilds_and_saves_it(tmp_path):
    model = new(name="mine", dropout_rate=0.25)
    rebuilt = BertFeatureTagger.from_config(json.loads(json.dumps(model.get_config())))
    assert rebuilt.get_config() == model.get_config()
    model.save(tmp_path / "it.keras")
    again = keras.models.load_model(tmp_path / "it.keras")
    np.testing.assert_array_equal(again(INPUTS), model(INPUTS))


def test_impossible_arguments_are_refused():
    with pytest.raises(InputError, match="no choice of layers is called 'first'; known: emb"):
        new("first")
    shallow = dataclasses.replace(CONFIG, num_layers=3)
    with pytest.raises(
        InputError, match="layers is 'concat-last-four', but the encoder has only 3"
    ):
        BertFeatureTagger(shallow, num_labels=3, layers="concat-last-four", lstm_units=6)
    with pytest.raises(InputError, match="'second-to-last', but the encoder has only 1 layer"):
        feature_layers("second-to-last", num_layers=1)


@pytest.mark.parametrize("problem", [{}, {"layers": "last"}, {"layers": "last", "lstm_units": 0}])
def test_metadata_without_tagger_settings_is_refused(tmp_path, problem):
    new().save_pretrained(tmp_path / "model")
    path = tmp_path / "model" / "bert_keras.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "task": problem}))
    with pytest.raises(InputError, match="lstm_units"):
        load_model(tmp_path / "model")
