"""Steps that are profiled, and those that cannot be."""

import keras
import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.training.tensorboard.profile import Profile, steps_to_profile


@pytest.mark.parametrize("told", ["", "5", "0:3", "7:6", "a:b", "1:2:3", "-1:3", " 1:2"])
def test_what_names_no_steps_is_refused(told):
    with pytest.raises(InputError, match=r"names no steps to profile; expected FIRST:LAST"):
        steps_to_profile(told)


@pytest.mark.parametrize(
    ("told", "begun", "profiled"),
    [
        ("5:6", 0, [5, 6]),
        ("3:3", 0, [3]),
        ("7:90", 0, [7, 8]),
        ("9:9", 0, []),
        ("2:5", 3, []),
        ("5:5", 3, [5]),
    ],
)
def test_the_steps_from_first_to_last(monkeypatch, told, begun, profiled):
    first, last = steps_to_profile(told)
    seen, running = [], []
    monkeypatch.setattr("tensorflow.profiler.experimental.start", running.append)
    monkeypatch.setattr("tensorflow.profiler.experimental.stop", running.pop)
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.build((None, 1))
    model.optimizer.iterations.assign(begun)
    profile = Profile("logs", first=first, last=last)

    class Watch(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if running:
                seen.append(int(self.model.optimizer.iterations) + 1)

    x = np.ones((8 - begun, 1))
    model.fit(x, x, batch_size=1, verbose=0, epochs=1, callbacks=[profile, Watch()])
    assert seen == profiled and not running


def test_a_profile_is_written(tmp_path):
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.ones((4, 1))
    profile = Profile(tmp_path, first=2, last=3)
    model.fit(x, x, batch_size=1, verbose=0, callbacks=[profile])
    assert [*tmp_path.glob("plugins/profile/*/*.xplane.pb")]
