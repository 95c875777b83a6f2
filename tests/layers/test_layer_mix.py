import keras
import numpy as np

from bert_keras.layers.layer_mix import LayerMix

FEATURES = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype("float32")


def test_it_begins_as_the_mean():
    np.testing.assert_allclose(LayerMix()(FEATURES), FEATURES.mean(axis=2), atol=1e-6)


def test_layers_are_weighed_by_a_softmax_and_scaled():
    mix = LayerMix(name="mix")
    mix.build(FEATURES.shape)
    assert {w.path: tuple(w.shape) for w in mix.weights} == {
        "mix/layer_logits": (4,),
        "mix/scale": (),
    }
    mix.layer_logits.assign(np.log([1.0, 2.0, 3.0, 4.0]))
    mix.scale.assign(10.0)
    expected = sum((k + 1) * FEATURES[:, :, k] for k in range(4))
    np.testing.assert_allclose(mix(FEATURES), expected, rtol=1e-5, atol=1e-5)


def test_config_rebuilds_it_and_shapes_are_told():
    mix = LayerMix(name="mix")
    twin = keras.layers.deserialize(keras.layers.serialize(mix))
    assert twin.get_config() == mix.get_config()
    assert mix.compute_output_shape((None, None, 4, 5)) == (None, None, 5)
