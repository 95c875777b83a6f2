"""The optimizers AdamW (as in the original BERT) and Muon, and learning rate schedules."""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_keras.distribution.loss import sum_over_replicas
from bert_keras.errors import InputError, suggest_keyword_names
from bert_keras.layers import Tensor

_INITIAL_SCALE, _STEPS_TO_DOUBLE = 2.0**15, 2000


@keras.saving.register_keras_serializable(package="bert_keras")
class BertAdamW(keras.optimizers.Optimizer):
    """AdamW as in AdamWeightDecayOptimizer of the original's optimization.py.

        m = beta_1 m + (1 - beta_1) g        v = beta_2 v + (1 - beta_2) g^2
        w = w - rate (m / (sqrt(v) + epsilon) + decay w)

    Each step does the following:

    1. It adds the gradients of all replicas.
    2. It scales all gradients down if their global norm is greater than `max_gradient_norm`. The
       variables `gradient_norm`, float32, and `gradient_norms`, float32 [number of weights], keep
       the norms before the scaling.
    3. If the global norm is not finite, all replicas leave weights and averages unchanged. The step
       still counts, because `iterations` is the position in the data. `skipped` is the number of
       such steps, and `last_skipped` the newest one (counted from 0).
    4. It updates the weights. Biases and LayerNorm's gamma and beta have no weight decay. The
       learning rate of layer l of L is multiplied by `layerwise_lr_decay` to the power of L - l,
       where the embeddings are layer 0 (Sun et al. 2019, "How to fine-tune BERT", section 5.3.4).

    With `dynamic_loss_scale`, which models in float16 enable, the loss is multiplied by
    `loss_scale`. The scale is halved if a gradient of any replica is not finite; `skipped` counts
    such a step only if the scale cannot be halved. The scale is doubled after 2,000 finite steps
    (Micikevicius et al. 2018).

    Args:
        learning_rate: A number or a schedule.
        weight_decay_rate: The factor of the weights in the update.
        beta_1: The decay rate of the momentum m, the average of the gradients.
        beta_2: The decay rate of the velocity v, the average of the squared gradients.
        epsilon: Added to the square root of the velocity.
        bias_correction: Whether to divide m by 1 - beta_1^t and v by 1 - beta_2^t at step t, as
            Adam does. Without it the first steps are up to six times larger.
        max_gradient_norm: The largest global norm of the gradients of a step; 0 for no limit.
        layerwise_lr_decay: The factor of the learning rate from one layer to the layer below.
        dynamic_loss_scale: Whether to scale the loss, for float16.
        name: The name of the optimizer.

    Example:

    ```python
    optimizer = BertAdamW(LinearWarmupDecay(1e-4, num_steps=10_000, num_warmup_steps=1_000))
    ```
    """

    @suggest_keyword_names
    def __init__(  # noqa: PLR0913 - hyperparameters, as in Keras' optimizers
        self,
        learning_rate: Any = 1e-4,
        *,
        weight_decay_rate: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        bias_correction: bool = False,
        max_gradient_norm: float = 1.0,
        layerwise_lr_decay: float = 1.0,
        dynamic_loss_scale: bool = False,
        name: str = "bert_adamw",
    ):
        super().__init__(learning_rate=learning_rate, name=name)
        self.weight_decay_rate, self.layerwise_lr_decay = weight_decay_rate, layerwise_lr_decay
        self.beta_1, self.beta_2, self.bias_correction = beta_1, beta_2, bias_correction
        self.epsilon, self.max_gradient_norm = epsilon, max_gradient_norm
        self.dynamic_loss_scale = dynamic_loss_scale

    def build(self, var_list: list):
        if self.built:
            return
        # The decay rate 0.999 rounds to 1 in bfloat16, and small squares round to 0 in float16.
        if narrow := {variable.dtype for variable in var_list} & {"bfloat16", "float16"}:
            raise InputError(f"the weights are {', '.join(narrow)}; use a policy mixed_*")
        paths = [variable.path for variable in var_list]
        is_layerwise = self.layerwise_lr_decay != 1 or isinstance(self, Muon)
        if is_layerwise and not any(map(encoder_layer, paths)):
            raise InputError(
                f"{self.name} found no encoder layer; use BertAdamW without layerwise_lr_decay"
            )
        super().build(var_list)
        self.momentums, self.velocities = [], []
        for variable in var_list:
            self.momentums.append(self.add_variable_from_reference(variable, "momentum"))
            self.velocities.append(None)
            if self._has_velocity(variable):
                self.velocities[-1] = self.add_variable_from_reference(variable, "velocity")
        shape = (len(var_list),)
        self.gradient_norm = self.add_variable((), dtype="float32", name="gradient_norm")
        self.gradient_norms = self.add_variable(shape, dtype="float32", name="gradient_norms")
        self.skipped = self.add_variable((), dtype="int", name="skipped")
        self.last_skipped = self.add_variable((), dtype="int", name="last_skipped")
        has_decay = [not path.endswith(("bias", "gamma", "beta")) for path in paths]
        self._decay_rates = [self.weight_decay_rate if each else 0.0 for each in has_decay]
        self._paths = paths
        self._rate_factors = layer_rates(paths, decay=self.layerwise_lr_decay)
        if self.dynamic_loss_scale:
            initial = keras.initializers.Constant(_INITIAL_SCALE)
            self.loss_scale = self.add_variable((), initial, dtype="float32", name="loss_scale")
            self._finite_steps = self.add_variable((), dtype="int", name="finite_steps")

    def scale_loss(self, loss: Tensor):
        return loss * ops.cast(self.loss_scale, loss.dtype) if self.dynamic_loss_scale else loss

    def apply(self, grads: list, trainable_variables: Any = None):
        """Updates the weights that have a gradient, in replica context under tf.distribute."""
        if trainable_variables is None:
            trainable_variables = self._trainable_variables
        self.build(trainable_variables)
        if unknown := {each.path for each in trainable_variables} - set(self._paths):
            names = ", ".join(sorted(unknown))
            raise InputError(f"the optimizer lacks {names}; compile the model again")
        variables = [v for g, v in zip(grads, trainable_variables, strict=True) if g is not None]
        grads = sum_over_replicas([_to_dense(grad) for grad in grads if grad is not None])
        if self.dynamic_loss_scale:
            grads = [g / ops.cast(self.loss_scale, g.dtype) for g in grads]
        norm = self._store_norms(grads, variables)
        is_finite = ops.isfinite(norm)
        limit = self.max_gradient_norm
        scale = limit * ops.minimum(1.0 / norm, 1.0 / limit) if limit else 1.0
        scale = ops.where(is_finite, scale, 0.0)
        grads = [_scale(grad, ops.cast(scale, grad.dtype)) for grad in grads]
        self._update(grads, variables, ops.cast(is_finite, "float32"))
        is_skipped = ~is_finite
        if self.dynamic_loss_scale:
            is_skipped &= self.loss_scale <= 1
            self._adjust_loss_scale(is_finite)
        self.skipped.assign_add(ops.cast(is_skipped, self.skipped.dtype))
        step = self.iterations.value
        self.last_skipped.assign(ops.where(is_skipped, step, self.last_skipped.value))
        # Adds 1. The sum depends on the gradients, because TensorFlow otherwise also counts the
        # step in which the data end.
        counts = [ops.cast(each, self.iterations.dtype) for each in (is_finite, ~is_finite)]
        self.iterations.assign_add(sum(counts))

    def _has_velocity(self, variable) -> bool:
        """Returns whether the update of a variable uses the average of the squared gradients."""
        return True

    def _update(self, grads, variables, gain) -> None:
        """Updates weights and averages if `gain` is 1; `gain` and gradients of 0 change nothing."""
        # A conditional would add a third to the nodes of the graph and to the time of the first
        # step. For the same reason, values that all weights share are computed once.
        rate = gain * self.learning_rate
        dtypes = dict.fromkeys(variable.dtype for variable in variables)
        updates = {dtype: self._make_update(ops.cast(gain, dtype)) for dtype in dtypes}
        for grad, variable in zip(grads, variables, strict=True):
            grad, layer_rate = ops.cast(grad, variable.dtype), self._layer_rate(rate, variable)
            updates[variable.dtype](grad, variable, layer_rate)

    def _make_update(self, gain) -> Callable:
        """Returns the function that updates a weight of a dtype."""
        powers = [ops.zeros_like(gain)] * 2  # of the betas; 0 corrects nothing
        if self.bias_correction:
            step = ops.cast(self.iterations + 1, gain.dtype)
            powers = [ops.cast(beta, gain.dtype) ** step for beta in (self.beta_1, self.beta_2)]
        if keras.config.backend() != "tensorflow":
            return partial(self._plain_step, gain=gain, powers=powers)
        one = ops.ones_like(gain)
        return partial(
            self._fused_step,
            beta1_power=powers[0],
            beta2_power=powers[1],
            beta1=ops.where(gain > 0, self.beta_1 * one, one),  # 1 keeps the average
            beta2=ops.where(gain > 0, self.beta_2 * one, one),
            epsilon=self.epsilon * ops.sqrt(1 - powers[1]),  # added to the uncorrected sqrt(v)
        )

    def _plain_step(self, gradient, variable, rate, *, gain, powers):
        momentum, velocity, decay = self._state_of(variable)
        m = momentum + gain * (1 - self.beta_1) * (gradient - momentum)
        v = velocity + gain * (1 - self.beta_2) * (ops.square(gradient) - velocity)
        momentum.assign(m)
        velocity.assign(v)
        m, v = m / (1 - powers[0]), v / (1 - powers[1])
        variable.assign(variable - rate * (m / (ops.sqrt(v) + self.epsilon) + decay * variable))

    def _fused_step(self, gradient, variable, rate, **shared):
        """Updates a weight in one pass, in a third of the time; its 1 - beta_2 is off by 6e-6."""
        import tensorflow as tf

        momentum, velocity, decay = self._state_of(variable)
        handle = variable.value.handle  # this replica's copy of the weight
        if decay:
            alpha = rate * decay
            tf.raw_ops.ResourceApplyGradientDescent(var=handle, alpha=alpha, delta=variable.value)
        averages = {"m": momentum.value.handle, "v": velocity.value.handle}
        tf.raw_ops.ResourceApplyAdam(var=handle, lr=rate, grad=gradient, **averages, **shared)

    def _layer_rate(self, rate, variable):
        """Returns the learning rate of the layer of a variable, in the dtype of the variable."""
        factor = self._rate_factors[self._get_variable_index(variable)]
        return ops.cast(rate if factor == 1 else rate * factor, variable.dtype)

    def _store_norms(self, grads, variables):
        """Returns the global norm; stores it and the norm of each gradient in variables."""
        grads = [ops.cast(grad, "float32") for grad in grads]
        if keras.config.backend() == "tensorflow":
            import tensorflow as tf

            # Reads each gradient once, which takes less than half of the time.
            squares = 2 * tf.stack([tf.nn.l2_loss(grad) for grad in grads])
        else:
            squares = ops.stack([ops.sum(ops.square(grad)) for grad in grads])
        # Stacked, because TensorFlow may add separate tensors in another order in another graph.
        norm = ops.sqrt(ops.sum(squares))
        indices = np.array([[self._get_variable_index(variable)] for variable in variables])
        norms = ops.scatter(indices, ops.sqrt(squares), self.gradient_norms.shape)
        self.gradient_norms.assign(norms)
        self.gradient_norm.assign(norm)
        return norm

    def _adjust_loss_scale(self, is_finite) -> None:
        steps = ops.where(is_finite, self._finite_steps + 1, 0)
        doubles = steps == _STEPS_TO_DOUBLE
        factor = ops.where(is_finite, ops.where(doubles, 2.0, 1.0), 0.5)
        self.loss_scale.assign(ops.maximum(self.loss_scale * factor, 1.0))
        self._finite_steps.assign(ops.where(doubles, 0, steps))

    def _state_of(self, variable):
        """Returns the momentum, velocity and weight decay rate of a variable."""
        index = self._get_variable_index(variable)
        return self.momentums[index], self.velocities[index], self._decay_rates[index]

    def get_config(self):
        config = super().get_config()
        names = ["weight_decay_rate", "beta_1", "beta_2", "epsilon", "bias_correction"]
        names += ["max_gradient_norm", "layerwise_lr_decay", "dynamic_loss_scale"]
        own = {name: getattr(self, name) for name in names}
        return {"learning_rate": config["learning_rate"], "name": config["name"], **own}


def _to_dense(gradient):
    """Adds up the repeated rows in TensorFlow's sparse gradient of a lookup table."""
    if not hasattr(gradient, "indices"):
        return gradient
    import tensorflow as tf

    return tf.convert_to_tensor(gradient)


def _scale(gradient, scale):
    """Returns gradient * scale, and 0 for a scale of 0 even if the gradient is not finite."""
    if keras.config.backend() != "tensorflow":
        return ops.where(scale == 0, 0, gradient * scale)
    import tensorflow as tf

    # Reads each gradient once, which takes less than half of the time.
    return tf.math.multiply_no_nan(gradient, scale)


def layer_rates(paths: Sequence[str], *, decay: float) -> list[float]:
    """Returns the factor of each weight's learning rate; each encoder has its own layers."""
    layers = list(map(encoder_layer, paths))
    # Sorted, so that the last layer of each encoder sets its count.
    counts = {encoder: index + 1 for encoder, index in sorted(filter(None, layers))}

    def rate(path, layer):
        if layer is not None:
            encoder, index = layer
            return decay ** (counts[encoder] - 1 - index)
        encoder, found, _ = path.rpartition("embeddings/")
        return decay ** counts.get(encoder, 0) if found else 1.0

    return list(map(rate, paths, layers))


def encoder_layer(path: str) -> tuple[str, int] | None:
    """Returns the encoder's path and the layer index of a weight, or None outside of the layers.

    The sublayers identify a block, because a BiLSTM also has layers called "layer_0".
    """
    match = re.match(r"(|.*/)layer_(\d+)/(?:attention|feed_forward)(?:_norm)?/", path)
    return (match[1], int(match[2])) if match else None


@keras.saving.register_keras_serializable(package="bert_keras")
class Muon(BertAdamW):
    """Muon for the matrices of the encoder's layers, and AdamW for all other weights.

        m = 0.95 m + 0.05 g          u = 0.05 g + 0.95 m
        w = w - rate (0.2 sqrt(max(rows, columns)) orthogonalize(u) + decay w)

    `orthogonalize` approximates the nearest matrix with orthonormal rows or columns. The factor
    makes the update as large as an update of AdamW, so that both use the same learning rate and
    weight decay. The matrices need no velocity, so the state is smaller.

    Sources: Jordan 2024, "Muon: an optimizer for hidden layers in neural networks", and its code;
    Liu et al. 2025, "Muon is scalable for LLM training", section 2.2, for the factor.
    """

    def __init__(self, learning_rate: Any = 1e-3, *, name: str = "muon", **kwargs):
        super().__init__(learning_rate, name=name, **kwargs)

    def _has_velocity(self, variable):
        return len(variable.shape) != 2 or encoder_layer(variable.path) is None

    def _update(self, grads, variables, gain):
        groups = defaultdict(list)  # one product for all matrices of a shape
        for grad, variable in zip(grads, variables, strict=True):
            is_matrix = not self._has_velocity(variable)
            groups[tuple(sorted(variable.shape)) if is_matrix else None].append((grad, variable))
        others, rate = groups.pop(None, []), gain * self.learning_rate
        super()._update([grad for grad, _ in others], [each for _, each in others], gain)
        for shape, pairs in groups.items():
            averages = []
            for grad, variable in pairs:
                momentum, grad = self._state_of(variable)[0], ops.cast(grad, variable.dtype)
                m = momentum + ops.cast(gain, variable.dtype) * 0.05 * (grad - momentum)
                momentum.assign(m)
                averages.append(_fit_shape(0.05 * grad + 0.95 * m, shape))
            steps = ops.unstack(0.2 * shape[1] ** 0.5 * orthogonalize(ops.stack(averages)))
            for (_, variable), step in zip(pairs, steps, strict=True):
                decay = self._state_of(variable)[-1]
                step = _fit_shape(step, variable.shape) + decay * variable
                variable.assign(variable - self._layer_rate(rate, variable) * step)


def orthogonalize(matrices: Tensor):
    """Approximates, for each matrix, the nearest matrix with orthonormal rows.

    Five steps of a Newton-Schulz iteration on float32 [matrices, rows, columns], rows <= columns,
    move the singular values close to 1 (Jordan 2024). Each step multiplies X by a polynomial of
    X X^T. With twice as many columns as rows, multiplying the small polynomials first halves the
    time; for nearly square matrices, that would be less exact.
    """
    x = matrices / (ops.norm(matrices, axis=(1, 2), keepdims=True) + 1e-7)
    if x.shape[2] < 2 * x.shape[1]:
        for _ in range(5):
            square = ops.matmul(x, ops.swapaxes(x, 1, 2))
            x = 3.4445 * x + ops.matmul(_square_terms(square), x)
        return x
    square = ops.matmul(x, ops.swapaxes(x, 1, 2))
    identity = product = ops.eye(x.shape[1], dtype=x.dtype)
    for _ in range(5):
        step = 3.4445 * identity + _square_terms(square)
        # The next X is step X, so the next X X^T is step X X^T step; all factors are symmetric.
        square, product = ops.matmul(step, ops.matmul(square, step)), ops.matmul(step, product)
    return ops.matmul(product, x)


def _square_terms(square):
    return -4.7750 * square + 2.0315 * ops.matmul(square, square)


def _fit_shape(matrix, shape):
    """Returns a matrix or its transpose, whichever has the shape."""
    return matrix if tuple(matrix.shape) == tuple(shape) else ops.transpose(matrix)


OPTIMIZERS = {"adamw": BertAdamW, "muon": Muon}


@keras.saving.register_keras_serializable(package="bert_keras")
@suggest_keyword_names
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
        self.peak, self.num_steps, self.num_warmup_steps = peak, num_steps, num_warmup_steps

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
