import pytest

from bert_keras.errors import InputError
from bert_keras.training.schedule import LinearWarmupDecay, WarmupStableDecay


def test_warmup_then_decay_from_step_zero():
    rate = LinearWarmupDecay(2.0, num_steps=100, num_warmup_steps=10)
    assert [float(rate(step)) for step in (0, 1, 5, 9)] == pytest.approx([0, 0.2, 1.0, 1.8])
    assert [float(rate(step)) for step in (10, 50, 99, 100, 200)] == pytest.approx(
        [1.8, 1.0, 0.02, 0.0, 0.0], abs=1e-6
    )


def test_warmup_then_the_peak_then_decay_over_a_fifth():
    rate = WarmupStableDecay(2.0, num_steps=100, num_warmup_steps=10)
    assert [float(rate(step)) for step in (0, 5, 10, 80, 90, 99, 100, 200)] == pytest.approx(
        [0, 1.0, 2.0, 2.0, 1.0, 0.1, 0.0, 0.0], abs=1e-6
    )


def test_without_warmup_it_starts_at_the_peak():
    assert float(LinearWarmupDecay(2.0, num_steps=4, num_warmup_steps=0)(0)) == 2.0


def test_warmup_must_end_before_the_run():
    with pytest.raises(InputError, match="num_warmup_steps is 4 of num_steps 4; expected fewer"):
        LinearWarmupDecay(2.0, num_steps=4, num_warmup_steps=4)
