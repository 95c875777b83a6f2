"""Optimizers: the AdamW that BERT was trained with, and LAMB."""

import re
from collections.abc import Sequence

import keras
import tensorflow as tf

from bert_keras.distribution.replicas import add_to_own, own_copy, set_own, sum_over_replicas

_HYPERPARAMETERS = (
    *("weight_decay_rate", "beta_1", "beta_2", "epsilon", "bias_correction"),
    *("max_gradient_norm", "layer_rate_decay", "dynamic_loss_scale"),
)
_FIRST_SCALE, _STEPS_TO_DOUBLE = 2.0**15, 2000


class BertOptimizer(keras.optimizers.Optimizer):
    """What BERT's optimizers do alike with gradients, whichever number of replicas there is.

    1. A replica's gradients are added to those of all others.
    2. They are scaled down together where their global norm is over `max_gradient_norm`, if that
       is not 0; what it was before, and each weight's own, are kept for whoever watches:
       `gradient_norm`, a float32 scalar variable, and `gradient_norms`, float32 [number of
       weights].
    3. Where that norm is not finite all replicas leave the weights and the averages as they are.
       The step counts all the same: `iterations` is the position in the data. `skipped` counts
       such steps, `last_skipped` is the newest (from 0).
    4. Every replica updates its own copy of the weights, all alike. Biases, and LayerNorm's gamma
       and beta, are not decayed. The rate of layer l of L is multiplied by `layer_rate_decay` to
       the power of L - l, the embeddings being layer 0, that of the heads not at all (Sun et al.
       2019, "How to fine-tune BERT", section 5.3.4).

    With `dynamic_loss_scale`, which models in float16 switch on, the loss is multiplied by
    `loss_scale`: halved where a gradient of any replica is not finite, which `skipped` does not
    count while it can be; doubled after 2,000 finite steps (Micikevicius et al. 2018).
    """

    def __init__(  # noqa: PLR0913 - hyperparameters, as in Keras' optimizers
        self,
        learning_rate,
        *,
        weight_decay_rate: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        bias_correction: bool,
        max_gradient_norm: float = 1.0,
        layer_rate_decay: float = 1.0,
        dynamic_loss_scale: bool = False,
        name: str,
    ):
        super().__init__(learning_rate=learning_rate, name=name)
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.bias_correction = bias_correction
        self.max_gradient_norm = max_gradient_norm
        self.layer_rate_decay = layer_rate_decay
        self.dynamic_loss_scale = dynamic_loss_scale

    def build(self, var_list):
        if self.built:
            return
        super().build(var_list)
        self._momentums, self._velocities = self.add_optimizer_variables(
            var_list, ["momentum", "velocity"]
        )
        self.gradient_norm = self.add_variable((), dtype="float32", name="gradient_norm")
        self.gradient_norms = self.add_variable(
            (len(var_list),), dtype="float32", name="gradient_norms"
        )
        self.skipped = self.add_variable((), dtype="int64", name="skipped")
        self.last_skipped = self.add_variable((), dtype="int64", name="last_skipped")
        self._decay_rates = [
            0.0 if is_exempt(variable.path) else self.weight_decay_rate for variable in var_list
        ]
        self._rates = layer_rates([v.path for v in var_list], decay=self.layer_rate_decay)
        if self.dynamic_loss_scale:
            first = keras.initializers.Constant(_FIRST_SCALE)
            self.loss_scale = self.add_variable((), first, dtype="float32", name="loss_scale")
            self._finite_steps = self.add_variable((), dtype="int32", name="finite_steps")

    def scale_loss(self, loss):
        if not self.dynamic_loss_scale:
            return loss
        return loss * tf.cast(self.loss_scale.value, loss.dtype)

    def apply(self, grads, trainable_variables=None):
        """In replica context; `None` gradients leave their weights as they are."""
        if trainable_variables is None:
            trainable_variables = self._trainable_variables
        self.build(trainable_variables)
        found = [(g, v) for g, v in zip(grads, trainable_variables, strict=True) if g is not None]
        # A looked-up table's gradient comes as rows, some many times over: here they are added up.
        grads = sum_over_replicas([tf.convert_to_tensor(g) for g, _ in found])
        if self.dynamic_loss_scale:
            grads = [g / tf.cast(self.loss_scale.value, g.dtype) for g in grads]
        norm = self._note_norms(grads, [variable for _, variable in found])
        if self.max_gradient_norm:
            grads, _ = tf.clip_by_global_norm(grads, self.max_gradient_norm, use_norm=norm)
        is_finite = tf.math.is_finite(norm)

        def update():
            rate = self._get_current_learning_rate()
            # Made once for all weights: tracing takes as long as there are operations.
            dtypes = dict.fromkeys(variable.dtype for _, variable in found)
            numbers = {dtype: self._numbers(dtype) for dtype in dtypes}
            for grad, (_, variable) in zip(grads, found, strict=True):
                share = self._rates[self._get_variable_index(variable)]
                own_rate = tf.cast(rate if share == 1 else rate * share, variable.dtype)
                grad = tf.cast(grad, variable.dtype)
                self.update_step(grad, variable, own_rate, **numbers[variable.dtype])

        tf.cond(is_finite, update, self._skip)
        if self.dynamic_loss_scale:
            self._adjust_loss_scale(is_finite)
        add_to_own(self._iterations, 1)

    def _note_norms(self, grads, variables):
        """Of all gradients together; each by itself becomes `gradient_norms`."""
        squares = 2 * tf.stack([tf.nn.l2_loss(tf.cast(grad, "float32")) for grad in grads])
        places = [[self._get_variable_index(variable)] for variable in variables]
        norms = tf.scatter_nd(places, tf.sqrt(squares), self.gradient_norms.shape)
        # Not tf.add_n, which begins with the first input that nobody else is still reading.
        norm = tf.sqrt(tf.reduce_sum(squares))
        set_own(self.gradient_norms, norms)
        set_own(self.gradient_norm, norm)
        return norm

    def _skip(self) -> None:
        blamed = self.loss_scale.value <= 1 if self.dynamic_loss_scale else True
        add_to_own(self.skipped, blamed)
        step = self._iterations.value
        set_own(self.last_skipped, tf.where(blamed, step, self.last_skipped.value))

    def _adjust_loss_scale(self, is_finite) -> None:
        steps = tf.where(is_finite, self._finite_steps.value + 1, 0)
        doubles = steps == _STEPS_TO_DOUBLE
        factor = tf.where(is_finite, tf.where(doubles, 2.0, 1.0), 0.5)
        set_own(self.loss_scale, tf.maximum(self.loss_scale.value * factor, 1.0))
        set_own(self._finite_steps, tf.where(doubles, 0, steps))

    def _of(self, variable):
        """The variable's momentum, velocity and rate of decay."""
        index = self._get_variable_index(variable)
        return self._momentums[index], self._velocities[index], self._decay_rates[index]

    def _beta_powers(self, dtype):
        """beta_1^t and beta_2^t at step t; 0 leaves the bias correction out."""
        if not self.bias_correction:
            return tf.zeros((), dtype), tf.zeros((), dtype)
        step = tf.cast(self.iterations.value + 1, dtype)
        return tf.cast(self.beta_1, dtype) ** step, tf.cast(self.beta_2, dtype) ** step

    def get_config(self):
        config = super().get_config()
        return {
            "learning_rate": config["learning_rate"],
            "name": config["name"],
            **{name: getattr(self, name) for name in _HYPERPARAMETERS},
        }


@keras.saving.register_keras_serializable(package="bert_keras")
class BertAdamW(BertOptimizer):
    """AdamW as in AdamWeightDecayOptimizer of the original's optimization.py.

        m = beta_1 m + (1 - beta_1) g        v = beta_2 v + (1 - beta_2) g^2
        w = w - rate (m / (sqrt(v) + epsilon) + decay w)

    Args:
        learning_rate: A number or a schedule.
        bias_correction: Whether to divide m by 1 - beta_1^t and v by 1 - beta_2^t at step t, as
            the papers of Adam and AdamW do. Without it the first steps are up to six times as
            long.
        name: The name of the optimizer.
        **kwargs: Arguments of `BertOptimizer`, such as `weight_decay_rate`.

    Example:

    ```python
    optimizer = BertAdamW(LinearWarmupDecay(1e-4, num_steps=10_000, num_warmup_steps=1_000))
    ```
    """

    def __init__(
        self, learning_rate=1e-4, *, bias_correction=False, name: str = "bert_adamw", **kwargs
    ):
        super().__init__(learning_rate, bias_correction=bias_correction, name=name, **kwargs)

    def _numbers(self, dtype):
        beta_1_power, beta_2_power = self._beta_powers(dtype)
        return {
            "beta1_power": beta_1_power,
            "beta2_power": beta_2_power,
            "beta1": tf.cast(self.beta_1, dtype),
            "beta2": tf.cast(self.beta_2, dtype),
            "epsilon": self.epsilon * tf.sqrt(1 - beta_2_power),  # it stands beside the corrected v
        }

    def update_step(self, gradient, variable, rate, **numbers):
        momentum, velocity, decay = self._of(variable)
        if decay:
            tf.raw_ops.AssignSubVariableOp(
                resource=own_copy(variable), value=rate * decay * variable.value
            )
        # One pass over the weights: a third of the time of single ops. In float32 1 - beta_2 makes
        # a step 6e-6 of itself longer.
        tf.raw_ops.ResourceApplyAdam(
            var=own_copy(variable),
            m=own_copy(momentum),
            v=own_copy(velocity),
            lr=rate,
            grad=gradient,
            **numbers,
        )


@keras.saving.register_keras_serializable(package="bert_keras")
class Lamb(BertOptimizer):
    """LAMB: algorithm 2 of You et al. 2020, "Large batch optimization for deep learning".

        r = m / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon) + decay w
        w = w - rate (|w| / |r|) r

    m and v are those of `BertAdamW`. |w| / |r| is 1 if either norm is 0, and for the weights
    without decay, as in the code of the authors.
    """

    def __init__(self, learning_rate=1e-3, *, bias_correction=True, name: str = "lamb", **kwargs):
        super().__init__(learning_rate, bias_correction=bias_correction, name=name, **kwargs)

    def _numbers(self, dtype):
        return {"beta_powers": self._beta_powers(dtype)}

    def update_step(self, gradient, variable, rate, *, beta_powers):
        momentum, velocity, decay = self._of(variable)
        weight = variable.value
        m = momentum.value + (1 - self.beta_1) * (gradient - momentum.value)
        v = velocity.value + (1 - self.beta_2) * (tf.square(gradient) - velocity.value)
        set_own(momentum, m)
        set_own(velocity, v)
        m, v = m / (1 - beta_powers[0]), v / (1 - beta_powers[1])
        update = m / (tf.sqrt(v) + self.epsilon)
        ratio = 1.0
        if not is_exempt(variable.path):
            update += decay * weight
            size, length = tf.norm(weight), tf.norm(update)
            ratio = tf.where((size > 0) & (length > 0), tf.math.divide_no_nan(size, length), 1.0)
        tf.raw_ops.AssignSubVariableOp(resource=own_copy(variable), value=rate * ratio * update)


OPTIMIZERS = {"adamw": BertAdamW, "lamb": Lamb}


def is_exempt(path: str) -> bool:
    """Weights that are not decayed: `.../bias`, `.../output_bias`, `.../gamma`, `.../beta`."""
    return path.rsplit("/", 1)[-1].endswith(("bias", "gamma", "beta"))


def layer_rates(paths: Sequence[str], *, decay: float) -> list[float]:
    """What the learning rate of each weight is multiplied by; see BertOptimizer."""
    layers = [re.search(r"encoder/layer_(\d+)/", path) for path in paths]
    top = 1 + max((int(layer[1]) for layer in layers if layer), default=-1)

    def rate(path, layer):
        if layer:
            return decay ** (top - 1 - int(layer[1]))
        return decay**top if "/embeddings/" in path else 1.0

    return list(map(rate, paths, layers))
