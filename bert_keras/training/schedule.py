"""The learning rate at each step: a linear warmup, then a linear decay, at once or at the end."""

import keras
from keras import ops

from bert_keras.errors import InputError, answers_typos
from bert_keras.layers import Tensor


@keras.saving.register_keras_serializable(package="bert_keras")
@answers_typos
class LinearWarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """A learning rate with linear warmup and linear decay, as in the original's optimization.py.

        step < num_warmup_steps:   peak x step / num_warmup_steps
        otherwise:                 peak x (1 - step / num_steps)

    The decay counts from step 0, so the rate falls to peak x (1 - num_warmup_steps / num_steps) at
    the end of the warmup. With a warmup, step 0 changes no weight.

    Args:
        peak: The learning rate that the warmup approaches.
        num_steps: The number of steps after which the rate is 0.
        num_warmup_steps: The number of steps of the warmup, less than `num_steps`.

    Raises:
        InputError: `num_warmup_steps` is not below `num_steps`.

    Example:

    ```python
    optimizer = BertAdamW(LinearWarmupDecay(1e-4, num_steps=10_000, num_warmup_steps=1_000))
    ```
    """

    def __init__(self, peak: float, *, num_steps: int, num_warmup_steps: int):
        if not 0 <= num_warmup_steps < num_steps:
            raise InputError(
                f"num_warmup_steps is {num_warmup_steps}; expected fewer than num_steps {num_steps}"
            )
        self.peak = peak
        self.num_steps = num_steps
        self.num_warmup_steps = num_warmup_steps

    def __call__(self, step: Tensor):
        step = ops.cast(step, "float32")
        warmup = self.peak * step / max(1, self.num_warmup_steps)
        decay = self.peak * self._decay(1.0 - step / self.num_steps)
        return ops.where(step < self.num_warmup_steps, warmup, decay)

    def _decay(self, remaining):
        """Returns the fraction of the peak when this fraction of all steps remains."""
        return ops.maximum(0.0, remaining)

    def get_config(self):
        return {name: getattr(self, name) for name in ("peak", "num_steps", "num_warmup_steps")}


@keras.saving.register_keras_serializable(package="bert_keras")
class WarmupStableDecay(LinearWarmupDecay):
    """A learning rate with linear warmup, a constant part, and linear decay over the last 20 %.

        step < num_warmup_steps:   peak x step / num_warmup_steps
        otherwise:                 peak x min(1, (1 - step / num_steps) / 0.2)

    It has the arguments of `LinearWarmupDecay`.

    Source: Hu et al. 2024, "MiniCPM", section 4; Haegele et al. 2024, "Scaling laws and
    compute-optimal training beyond fixed training durations", for linear decays of 20 %.
    """

    def _decay(self, remaining):
        return ops.clip(remaining / 0.2, 0.0, 1.0)


SCHEDULES = {"linear": LinearWarmupDecay, "warmup-stable-decay": WarmupStableDecay}
