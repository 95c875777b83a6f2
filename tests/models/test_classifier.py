"""Windows of long texts: pooled logits, padding that does not count, the pooling kept."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.checkpoints.pretrained import save_model
from bert_keras.config import BertConfig, ModelMetadata
from bert_keras.errors import InputError
from bert_keras.models import BertClassifier, load_model
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

CONFIG = BertConfig(
    vocab_size=20, hidden_size=8, num_layers=1, num_heads=2, max_positions=8,
    hidden_dropout_rate=0.0, attention_dropout_rate=0.0, initializer_stddev=0.5,
)  # fmt: skip


def model(pooling="mean"):
    keras.utils.set_random_seed(1)
    return BertClassifier(CONFIG, num_labels=3, window_pooling=pooling)


def windows(counts, *, num_windows=3, length=6):
    """Random windows [B, W, T], of which each example has so many; the others are padding."""
    shape = (len(counts), num_windows, length)
    real = (np.arange(num_windows) < np.array(counts)[:, None])[..., None]
    ids = np.random.default_rng(0).integers(5, 20, shape)
    return {
        "input_ids": (ids * real).astype("int32"),
        "input_mask": np.broadcast_to(real, shape).astype("int32"),
        "segment_ids": np.zeros(shape, "int32"),
    }


def logits(classifier, inputs):
    return keras.ops.convert_to_numpy(classifier(inputs))


@pytest.mark.parametrize(("pooling", "pooled"), [("mean", np.mean), ("max", np.max)])
def test_logits_of_real_windows_are_pooled(pooling, pooled):
    classifier, counts = model(pooling), [3, 1, 2]
    inputs = windows(counts)
    actual = logits(classifier, inputs)
    for row, count in enumerate(counts):
        alone = logits(classifier, {name: array[row, :count] for name, array in inputs.items()})
        np.testing.assert_allclose(actual[row], pooled(alone, axis=0), atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_one_window_equals_the_text(pooling):
    inputs = windows([1, 1], num_windows=1)
    flat = {name: array[:, 0] for name, array in inputs.items()}
    np.testing.assert_array_equal(logits(model(pooling), inputs), logits(model(pooling), flat))


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_padded_windows_do_not_change_gradients(pooling):
    """A graph of unknown sizes, as training builds it; every gradient is finite and equal to that
    without the padding."""
    inputs = windows([2, 1])
    cut = {name: array[:, :2] for name, array in inputs.items()}
    classifier = model(pooling)

    @tf.function(reduce_retracing=True)
    def gradients(inputs):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(classifier(inputs, training=True)))
        return tape.gradient(loss, [weight.value for weight in classifier.trainable_weights])

    for one, other in zip(gradients(inputs), gradients(cut), strict=True):
        assert np.isfinite(tf.convert_to_tensor(one)).all()
        np.testing.assert_allclose(
            tf.convert_to_tensor(one), tf.convert_to_tensor(other), atol=1e-5
        )


def test_config_and_metadata_keep_the_pooling(tmp_path):
    classifier = model("max")
    assert BertClassifier.from_config(classifier.get_config()).window_pooling == "max"
    vocabulary = Vocabulary((*SPECIAL_TOKENS, *"abcdefghijklmno"))
    for long_texts, pooling in (("max", "max"), ("mean", "mean"), ("truncate", "mean")):
        metadata = ModelMetadata(
            model="BertClassifier",
            config=CONFIG,
            lowercase=True,
            max_length=8,
            labels=("a", "b", "c"),
            task={"name": "classification", "long_texts": long_texts},
        )
        save_model(classifier, tmp_path / long_texts, metadata=metadata, vocabulary=vocabulary)
        assert load_model(tmp_path / long_texts).window_pooling == pooling


def test_an_unknown_pooling_is_refused():
    with pytest.raises(InputError, match=r"no window_pooling is called 'sum'; known: mean, max"):
        model("sum")


@pytest.mark.parametrize("call", ["predict", "evaluate", "fit"])
def test_windows_follow_single_rows(call):
    classifier, several = model(), windows([2, 1])
    single = {name: array[:, 0] for name, array in several.items()}
    classifier.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    labels = () if call == "predict" else (np.array([0, 2]),)
    for inputs in (single, several, single):
        getattr(classifier, call)(inputs, *labels, verbose=0)
